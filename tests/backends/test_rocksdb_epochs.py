"""A database with many owners: each continues from its manifest, and it is always at one manifest or the next."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from databases_in_turn import ALL, COUNT, ROUTES, TAGS, TOTAL, Turns
from msgspec.structs import replace

from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types
from state_engine.api.timers import TimeDomain
from state_engine.backends.rocksdb import bases
from state_engine.backends.rocksdb.cells import state_range
from state_engine.log.records import FormerType
from state_engine.testing.state_harness import StateHarness


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Turns]:
    made = Turns(tmp_path / "range")
    yield made
    made.close()


def write(harness: StateHarness, number: int) -> None:
    for key in range(number, number + 20):
        harness.state(COUNT, key).update(number)
        harness.state(TAGS, key).add_all([str(number), "x"])
        harness.state(ROUTES, key).put_all({str(number % 3): number, "y": key})
        harness.state(TOTAL, key).add(number)
    for key in range(number, number + 3):
        for descriptor in ALL:
            harness.state(descriptor, key).clear()
    harness.state(ROUTES, number + 5).remove("y")
    harness.state(TAGS, number + 6).update(["new"])


def contents(harness: StateHarness) -> dict[str, Any]:
    keys = range(60)
    content = {
        "count": {k: harness.state(COUNT, k).value() for k in keys},
        "tags": {k: list(harness.state(TAGS, k).get()) for k in keys},
        "routes": {k: list(harness.state(ROUTES, k).items()) for k in keys},
        "total": {k: harness.state(TOTAL, k).get() for k in keys},
    }
    return {**content, "sizes": sorted((s.name, s.rows, s.keys) for s in harness.backend.statistics())}


def test_instance_after_instance_goes_on_where_the_last_one_stopped(place: Turns) -> None:
    for number in range(0, 30, 5):
        harness = place.instance()
        write(harness, number)
        place.seal(harness)
        expected = contents(harness)
        place.made[-1].close()
    assert place.loads == 0, "everything was found in the folder"
    assert contents(place.instance()) == expected
    elsewhere = Turns(place.folder.with_name("elsewhere"))
    elsewhere.epochs = place.epochs
    assert contents(elsewhere.instance()) == expected, "a load from the log gives the same"
    assert elsewhere.loads == 4
    elsewhere.close()


def test_a_database_of_an_older_epoch_is_caught_up(place: Turns) -> None:
    first = place.instance()
    write(first, 0)
    place.seal(first)
    place.made[-1].close()
    elsewhere = Turns(place.folder.with_name("elsewhere"))
    elsewhere.epochs = place.epochs
    other = elsewhere.instance()
    for number in (3, 6):
        write(other, number)
        elsewhere.seal(other)
    assert contents(place.instance()) == contents(other)
    assert place.loads == 0
    elsewhere.close()


def test_what_was_not_committed_is_not_there(place: Turns) -> None:
    harness = place.instance()
    write(harness, 0)
    place.seal(harness)
    expected = contents(harness)
    write(harness, 5)
    harness.backend.freeze(0)
    harness.backend.settle()
    assert contents(harness) != expected
    place.made[-1].close()
    assert contents(place.instance()) == expected


def test_a_state_that_was_not_used_meanwhile_is_loaded_again(place: Turns) -> None:
    harness = place.instance()
    write(harness, 0)
    place.seal(harness)
    place.made[-1].close()
    narrow = StateHarness(place.make, "k bigint")
    backend: Any = narrow.backend
    assert backend.resume() == "t1"
    place.attach(narrow)
    narrow.state(COUNT, 7).update(99)
    store = backend.database.store
    others = [state.number for name, state in store.meta.states.items() if name != "count"]
    place.seal(narrow)
    assert [list(store.scan(*state_range(number))) for number in others] == [[], [], []], "nothing would remove it"
    backend.close()
    later = place.instance()
    assert place.loads == 3, "the states that the other one did not catch up"
    assert later.state(COUNT, 7).value() == 99
    assert list(later.state(TAGS, 7).get()) == ["0", "x"]


def test_a_state_that_went_through_other_types_since_is_loaded_anew(place: Turns) -> None:
    """It has the same type again, but the type in between cut its rows in the log, and not those in the database."""
    first = place.instance()
    first.state(COUNT, 1).update(5)
    place.seal(first)
    first.backend.close()
    [(schema, _)] = place.epochs[0]
    between = (FormerType(until=0, schema_id="was", value="bigint"), FormerType(until=0, schema_id="then", value="int"))
    harness = StateHarness(place.make, "k bigint")
    harness.epochs = place.epochs
    assert harness.backend.resume() == "t1"
    loaded: list[str] = []

    def load(asked: Any) -> Iterable[Any]:
        loaded.append(asked.name)
        return harness.tables(asked)

    harness.backend.attach([replace(schema, former=between)], load)
    assert harness.state(COUNT, 1).value() == 5
    assert loaded == ["count"]


def test_two_instances_take_turns_in_one_database(place: Turns) -> None:
    """Two workers of one host do this: each hands it over when the other one wants it, and has nothing to catch up."""
    one, other = place.instance(), None
    for number in range(6):
        harness = one if number % 2 == 0 else other
        if harness is None:
            harness = other = place.instance()
        else:
            backend: Any = harness.backend
            place.catch_up(harness, int(backend.resume()[1:]))
        write(harness, number)
        place.seal(harness)
        harness.backend.release()  # type: ignore[attr-defined]
    assert other is not None
    assert place.loads == 0
    for harness in (one, other):
        backend = harness.backend
        place.catch_up(harness, int(backend.resume()[1:]))
        content = contents(harness)
        backend.release()
    fresh = Turns(place.folder.with_name("elsewhere"))
    fresh.epochs = place.epochs
    assert contents(fresh.instance()) == content
    fresh.close()


def test_an_epoch_that_failed_leaves_nothing(place: Turns) -> None:
    harness = place.instance()
    write(harness, 0)
    place.seal(harness)
    expected = contents(harness)
    write(harness, 5)
    harness.backend.forget()
    assert contents(harness) == expected


def test_counts_hold_where_nothing_that_was_read_is_remembered(place: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "READ_BYTES", -1)
    harness = place.instance()
    steps: list[tuple[Any, list[Any], int]] = [
        (lambda routes: routes.put("x", 1), ["x"], 1),
        (lambda routes: routes.put("y", 2), ["x", "y"], 2),
        (lambda routes: routes.remove("x"), ["y"], 1),
        (lambda routes: routes.put("y", 3), ["y"], 1),
        (lambda routes: routes.remove("y"), [], 0),
    ]
    for step, keys, rows in steps:
        for key in range(3):
            step(harness.state(ROUTES, key))
            harness.state(TAGS, key).add("more")
        place.seal(harness)
        assert [list(harness.state(ROUTES, key).keys()) for key in range(3)] == [keys] * 3
        sizes = {s.name: (s.rows, s.keys) for s in harness.backend.statistics()}
        assert sizes == {"routes": (3 * rows, 3 * (rows > 0)), "tags": (3 * len(place.epochs), 3)}


def test_timers_are_in_the_database(place: Turns) -> None:
    harness = place.instance()
    backend: Any = harness.backend
    timers = backend.timers(TimeDomain.EVENT_TIME)
    for key in range(5):
        timers.register(key, 10 + key)
    place.seal(harness)
    timers.delete(3, 13)
    timers.register(3, 30)
    place.seal(harness)
    timers.register(4, 40)  # of an epoch that is not sealed
    backend.close()
    later: Any = place.instance().backend
    timers = later.timers(TimeDomain.EVENT_TIME)
    assert place.loads == 0
    assert timers.rows == 5
    assert list(timers.due(100)) == [(10, 0), (11, 1), (12, 2), (14, 4), (30, 3)]


@pytest.mark.parametrize("first", [10, 30])
def test_what_is_frozen_waits_for_its_seal_while_another_has_the_database(place: Turns, first: int) -> None:
    """The other one ended before it had written the sealed changes."""
    harness = place.instance()
    backend: Any = harness.backend
    timers = backend.timers(TimeDomain.EVENT_TIME)
    timers.register(1, first)
    harness.state(COUNT, 1).update(1)
    place.seal(harness)
    timers.delete(1, first)
    timers.register(2, 20)
    timers.register(3, 20)
    harness.state(COUNT, 2).update(2)
    place.epochs.append(backend.freeze(0))
    backend.release()
    other: Any = StateHarness(place.make, "k bigint").backend
    assert other.resume() == "t1"
    other.close()
    assert backend.resume() == "t1"
    backend.settle()
    backend.commit("t2")
    assert (timers.rows, timers.earliest()) == (2, 20)
    backend.close()
    later = place.instance()
    assert later.state(COUNT, 2).value() == 2
    assert list(later.backend.timers(TimeDomain.EVENT_TIME).due(100)) == [(20, 2), (20, 3)]
    assert place.loads == 0


def test_timers_that_another_has_sealed_stay_though_this_one_forgets_its_own_attempt(place: Turns) -> None:
    harness = place.instance()
    backend: Any = harness.backend
    timers = backend.timers(TimeDomain.EVENT_TIME)
    timers.register(1, 10)
    place.seal(harness)
    timers.delete(1, 10)
    timers.register(2, 20)
    place.epochs.append(backend.freeze(0))
    backend.release()
    other = StateHarness(place.make, "k bigint")
    taking: Any = other.backend
    assert taking.resume() == "t1"
    other.epochs = place.epochs
    taking.timers(TimeDomain.EVENT_TIME)
    place.catch_up(other, 1)
    taking.release()
    assert backend.resume() == "t2"
    backend.forget()
    assert timers.rows == 1
    assert list(timers.due(100)) == [(20, 2)]


def test_a_token_that_is_not_wanted_is_discarded_with_the_data(place: Turns) -> None:
    harness = place.instance()
    write(harness, 0)
    place.seal(harness)
    place.made[-1].close()
    fresh = StateHarness(place.make, "k bigint")
    backend: Any = fresh.backend
    assert backend.resume() == "t1"
    backend.state(COUNT)
    backend.start("other")
    fresh.backend.attach([], lambda _: ())
    assert [fresh.state(COUNT, key).value() for key in range(20)] == [None] * 20
    assert fresh.backend.rows == 0
    backend.close()
    again: Any = StateHarness(place.make, "k bigint").backend
    assert again.resume() == "other"


WRITER = """
    import sys
    from pathlib import Path
    from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types, ValueStateDescriptor
    from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
    from state_engine.testing.state_harness import StateHarness

    harness = StateHarness(
        lambda *args: RocksDBKeyedStateBackend(*args, LocalDatabase(Path(sys.argv[1]), Tuning())), "k bigint"
    )
    count = ValueStateDescriptor("count", Types.LONG())
    tags = ListStateDescriptor("tags", Types.LONG())
    routes = MapStateDescriptor("routes", Types.LONG(), Types.LONG())
    backend = harness.backend
    epoch = int(backend.resume() or 0)
    harness.backend.attach([], lambda _: ())
    print("ready", flush=True)
    while True:
        epoch += 1
        for key in range(50):
            harness.state(count, key).update(epoch)
            harness.state(tags, key).add(epoch)
            harness.state(routes, key).put(epoch % 7, epoch)
        backend.freeze(0)
        backend.settle()
        backend.commit(str(epoch))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_instant_leaves_one_epoch_as_a_whole(place: Turns) -> None:
    tags = ListStateDescriptor("tags", Types.LONG())
    routes = MapStateDescriptor("routes", Types.LONG(), Types.LONG())
    seen = 0
    for delay in chain((0.01, 0.13, 0.05, 0.21, 0.02), (0.5, 1.0, 2.0, 4.0, 8.0)):
        if delay >= 0.5 and seen > 3:
            break  # the longer ones are for a busy machine
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(place.folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        harness = StateHarness(place.make, "k bigint")
        backend: Any = harness.backend
        epoch = int(backend.resume() or 0)
        harness.backend.attach([], lambda _: ())
        assert epoch >= seen
        seen = epoch
        for key in range(50):
            assert (harness.state(COUNT, key).value() or 0) == epoch
            assert list(harness.state(tags, key).get()) == list(range(1, epoch + 1))
            assert dict(harness.state(routes, key).items()) == {n % 7: n for n in range(1, epoch + 1)}
        if epoch:
            assert {s.name: s.rows for s in backend.statistics()} == {
                "count": 50,
                "tags": 50 * epoch,
                "routes": 50 * min(7, epoch),
            }
        backend.close()
    assert seen > 3, "the machine is too slow for this test"
