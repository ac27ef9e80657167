"""A range that was part of another one begins with a copy of its state; no other worker is disturbed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deaths import Died, Life, another_boot, die_while_removing

from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types, ValueStateDescriptor
from state_engine.api.timers import TimeDomain
from state_engine.backends.rocksdb import LocalDatabase, RangeFolder, RocksDBKeyedStateBackend, Tuning, ranges
from state_engine.backends.rocksdb.locks import take_slot
from state_engine.backends.rocksdb.store import Store
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange, range_of
from state_engine.testing.state_harness import MAX_PARALLELISM, StateHarness

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.STRING())
ROUTES = MapStateDescriptor("routes", Types.STRING(), Types.LONG())
KEYS = range(100)
WHOLE = KeyGroupRange(0, MAX_PARALLELISM - 1)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    """Returns a function that makes an instance of a range, with the state that it found."""
    opened: list[LocalDatabase] = []

    def make(key_groups: KeyGroupRange, generation: int = 1, operator: Path = tmp_path / "operator") -> Any:
        def backend(*args: Any) -> RocksDBKeyedStateBackend:
            folder = RangeFolder(operator, generation, key_groups, MAX_PARALLELISM)
            opened.append(LocalDatabase(folder, Tuning(), wait_s=0.2))
            return RocksDBKeyedStateBackend(*args, opened[-1])

        harness = StateHarness(backend, "k bigint", key_groups=key_groups)
        harness.found = harness.backend.resume()  # type: ignore[attr-defined]
        for descriptor in (COUNT, TAGS, ROUTES):
            harness.backend.state(descriptor)
        harness.backend.attach([], lambda _: ())
        return harness

    yield make
    for database in opened:
        database.close()


def owned(harness: StateHarness) -> list[int]:
    return [key for key in KEYS if harness.codec.key_group(key) in harness.backend.key_groups]


def fill(harness: Any, token: str) -> Any:
    timers = harness.backend.timers(TimeDomain.EVENT_TIME)
    for key in owned(harness):
        harness.state(COUNT, key).update(key)
        harness.state(TAGS, key, "w").update([str(key), "x"])
        harness.state(ROUTES, key).put_all({"a": key, "b": 1})
        timers.register(key, 1000 + key)
    changes = harness.backend.freeze(0)
    harness.backend.settle()
    harness.backend.commit(token)
    return changes


def check(harness: Any) -> None:
    mine = owned(harness)
    timers = harness.backend.timers(TimeDomain.EVENT_TIME)
    assert [harness.state(COUNT, key).value() for key in mine] == mine
    assert [list(harness.state(TAGS, key, "w").get()) for key in mine] == [[str(key), "x"] for key in mine]
    assert [dict(harness.state(ROUTES, key).items()) for key in mine] == [{"a": key, "b": 1} for key in mine]
    assert timers.earliest() == 1000 + mine[0]
    assert {s.name: (s.rows, s.keys) for s in harness.backend.statistics()} == {
        "count": (len(mine), len(mine)),
        "tags": (2 * len(mine), len(mine)),
        "routes": (2 * len(mine), len(mine)),
        "_event_time_timers": (len(mine), len(mine)),
    }


def test_each_part_of_a_range_begins_with_what_is_its_own(serve: Any) -> None:
    whole = serve(WHOLE)
    assert whole.found is None
    fill(whole, "t1")
    whole.backend.release()  # still open, as in a worker that waits for its next task
    for subtask in range(3):
        part = serve(range_of(subtask, 3, MAX_PARALLELISM))
        assert part.found == "t1"
        check(part)
        for key in KEYS:
            if key not in owned(part):
                assert part.state(COUNT, key).value() is None, "a key group of another range is left"
        fill(part, "t2")
        check(part)
    assert whole.backend.resume() == "t1"
    check(whole)


@pytest.mark.parametrize(("key_groups", "is_cut"), [((4, 7), False), ((8, 12), False), ((3, 7), True), ((4, 6), True)])
def test_blocks_of_timers_are_not_cut(
    serve: Any, monkeypatch: pytest.MonkeyPatch, key_groups: tuple[int, int], is_cut: bool
) -> None:
    """If many key groups share cells, a range that has a part of a block loads its timers from the log."""
    monkeypatch.setattr("state_engine.backends.rocksdb.timers.BLOCKS", 4)
    whole = serve(WHOLE)
    [(schema, log)] = [change for change in fill(whole, "t1") if change[0].kind == "timer"]
    whole.backend.close()
    part = serve(KeyGroupRange(*key_groups))
    loads = []

    def load(wanted: Any) -> Any:
        loads.append(wanted.name)
        groups = log.column("key_group").to_numpy()
        return [log.filter((groups >= key_groups[0]) & (groups <= key_groups[1]))]

    part.backend.attach([schema], load)
    check(part)
    assert loads == [schema.name] * is_cut


def test_a_range_that_grows_begins_with_nothing(serve: Any) -> None:
    fill(serve(KeyGroupRange(0, 6)), "t1")
    assert serve(KeyGroupRange(0, 7)).found is None
    assert serve(KeyGroupRange(3, 12)).found is None


def test_an_older_generation_may_give_and_a_newer_one_not(serve: Any) -> None:
    whole = serve(KeyGroupRange(0, 12), generation=2)
    fill(whole, "t1")
    whole.backend.close()
    assert serve(KeyGroupRange(0, 6), generation=1).found is None
    assert serve(KeyGroupRange(0, 6), generation=3).found == "t1"


def test_a_range_at_work_is_not_waited_for_long(serve: Any) -> None:
    fill(serve(KeyGroupRange(0, 12)), "t1")
    assert serve(KeyGroupRange(0, 6)).found is None


def test_a_damaged_range_gives_nothing(serve: Any, tmp_path: Path) -> None:
    whole = serve(KeyGroupRange(0, 12))
    fill(whole, "t1")
    whole.backend.close()
    for file in tmp_path.glob("**/CURRENT"):
        file.write_text("garbage")
    part = serve(KeyGroupRange(0, 6))
    assert part.found is None
    fill(part, "t2")
    check(part)


def test_what_was_not_used_for_long_goes_and_what_is_in_use_stays(serve: Any, tmp_path: Path) -> None:
    unused, idle = serve(KeyGroupRange(0, 3)), serve(KeyGroupRange(4, 7))
    unused.backend.close()
    for lock in tmp_path.glob("**/*.lock"):
        os.utime(lock, (1, 1))
    serve(KeyGroupRange(8, 12))
    assert sorted(folder.name for folder in (tmp_path / "operator").iterdir()) == ["1.4-7.13", "1.8-12.13"]
    fill(idle, "t")
    check(idle)


@pytest.mark.parametrize("machine", [False, True])
def test_death_before_any_step_of_a_copy_leaves_all_of_it_or_nothing(serve: Any, tmp_path: Path, machine: bool) -> None:
    whole = serve(WHOLE)
    fill(whole, "t1")
    whole.backend.close()
    tokens, right = [], range_of(1, 2, MAX_PARALLELISM)
    for steps in count():
        shutil.copytree(tmp_path / "operator", operator := tmp_path / str(steps))
        life = Life(steps)
        with life.lived():
            serve(right, operator=operator).backend.close()
        if machine:
            operator = life.left_by_the_machine(operator)
        with another_boot() if machine else nullcontext():
            part = serve(right, operator=operator)
        tokens.append(part.found)
        if part.found is None:
            fill(part, "t2")
        check(part)
        for key in KEYS:
            if key not in owned(part):
                assert part.state(COUNT, key).value() is None, "a key group of another range is left"
        folder = RangeFolder(operator, 1, right, MAX_PARALLELISM).path
        assert not list(folder.glob("*.aside")), "an interrupted copy is removed"
        part.backend.close()
        if life.left >= 0:
            break
    assert tokens == ["t1"] * len(tokens), "the copy is made once more"
    assert steps >= 3, "it is copied, clipped, and given its name"


def test_a_copy_is_clipped_durably_though_it_cannot_be_flushed(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a database usually flushes it; a failure of that is not reported."""
    whole = serve(WHOLE)
    fill(whole, "t1")
    whole.backend.close()
    opened: list[Store] = []
    life, close = Life(100), Store.close
    right = RangeFolder(tmp_path / "operator", 1, range_of(1, 2, MAX_PARALLELISM), MAX_PARALLELISM)
    right.path.mkdir()
    with life.lived(), monkeypatch.context() as patch:
        patch.setattr(Store, "close", lambda store: opened.append(store))
        right.begin(slot := take_slot(right.path), Tuning())
    after = life.left_by_the_machine(tmp_path / "operator")
    for store in opened:
        close(store)
    slot.unlock()
    with another_boot():
        part = serve(right.key_groups, operator=after)
    assert part.found == "t1"
    check(part)


def test_a_copy_that_cannot_be_clipped_is_not_used(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = serve(WHOLE)
    fill(whole, "t1")
    whole.backend.close()

    def fail(*args: Any, **how: Any) -> None:
        raise LocalStateError("The disk fails.")

    monkeypatch.setattr(ranges, "_clip", fail)
    part = serve(KeyGroupRange(0, 6))
    assert part.found is None
    assert not list(tmp_path.rglob("*.aside"))
    fill(part, "t2")
    check(part)


def test_a_range_whose_removal_is_cut_off_has_nothing_and_gives_nothing(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused = serve(WHOLE)
    fill(unused, "t1")
    unused.backend.close()
    for lock in tmp_path.glob("**/*.lock"):
        os.utime(lock, (1, 1))
    with monkeypatch.context() as patch:
        die_while_removing(patch, "*.log")
        with pytest.raises(Died):
            RangeFolder(tmp_path / "operator", 2, KeyGroupRange(0, 6), MAX_PARALLELISM).sweep()
    assert list(tmp_path.rglob("CURRENT"))
    assert not list(tmp_path.glob("operator/*/0/db")), "the remains do not look like a database"
    assert serve(KeyGroupRange(0, 6), generation=2).found is None
    assert serve(WHOLE).found is None
    assert not list(tmp_path.rglob("*.aside"))
