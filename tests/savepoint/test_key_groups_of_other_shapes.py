"""Restored key groups and keys where state is not plain: windows' namespaces, forks, lists with nulls, raw state."""

import datetime
import random
from pathlib import Path
from typing import Any

import pytest
from group_jobs import ALL, COUNT, group_of, job_with_history, name, states_of
from msgspec.structs import replace

from state_engine.backends.schemas import raw_keyed_schema
from state_engine.epoch import carry
from state_engine.epoch.look import newest
from state_engine.errors import RestoreError
from state_engine.inspect import read_state
from state_engine.inspect.diff import diff_states
from state_engine.log.ops import Op
from state_engine.log.records import OperatorEpoch
from state_engine.savepoint import restore_key_groups, trigger_savepoint
from state_engine.testing.changes import Change, append, model_of, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

PANE = state("windows", "pane", "k string", "bigint")
ROWS = state("windows", "rows", "k string", "string", shape="list")
MERGED = state("windows", "merged", "k string", "string", shape="map", user_key="string")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def in_window(change: Change, window: str) -> Change:
    return change._replace(namespace=window)


def windows(rng: random.Random) -> dict[Any, list[Change]]:
    def some(make: Any) -> list[Change]:
        return [in_window(make(rng.choice("abc")), rng.choice(["w1", "w2", "w3"])) for _ in range(10)]

    return {
        name(PANE): some(lambda k: put(k, rng.randrange(9))),
        name(ROWS): some(lambda k: rng.choice([append(k, None), append(k, "x"), Change(Op.CLEAR, (k,))])),
        name(MERGED): some(lambda k: put(k, rng.choice([None, "y"]), user_key=rng.choice("uv"))),
    }


@pytest.mark.parametrize("seed", range(8))
def test_all_windows_of_a_key_move_and_none_of_another(root: str, seed: int) -> None:
    rng = random.Random(seed)
    schemas = (PANE, ROWS, MERGED)
    job = JobBuilder(root, "windows", schemas)
    for _ in range(4):
        job.epoch(windows(rng))
    source, keys = rng.randint(1, 3), rng.sample("abc", rng.randint(1, 2))
    restore_key_groups(root, "windows", f"epoch:1/{source}", keys=keys, clock=ManualClock())
    for schema in schemas:
        was, now = job.models[1, source][name(schema)], job.model[name(schema)]
        wanted = {e: v for e, v in now.items() if e[0][0] not in keys}
        wanted |= {e: v for e, v in was.items() if e[0][0] in keys}
        assert states_of(root, "windows", [schema]) == {name(schema): {e: v for e, v in wanted.items() if v != []}}


def test_the_diff_of_both_epochs_names_nothing_but_the_chosen_groups(root: str) -> None:
    job = job_with_history(root, random.Random(21))
    before = job.head
    restore_key_groups(root, "flights", "epoch:1/1", [2, 3, 11])
    diffs = list(diff_states(root, "flights", before, newest(job.log), examples=1000))
    assert {(one.uid, one.state) for one in diffs} == {name(schema) for schema in ALL}
    assert any(not one.is_equal for one in diffs)
    for one in diffs:
        (schema,) = [s for s in ALL if name(s) == (one.uid, one.state)]
        keys = [(tuple(example.entry[column.name] for column in schema.key), None, None) for example in one.examples]
        assert {group_of(schema, entry) for entry in keys} <= {2, 3, 11}


def test_a_fork_takes_groups_from_the_job_that_it_began_from_and_from_itself(root: str) -> None:
    job = job_with_history(root, random.Random(22))
    fork = job.fork("fork")
    at_fork = states_of(root, "fork")
    assert at_fork == job.model
    changed = fork.epoch({name(COUNT): [put(f"N{n}", 1000 + n) for n in range(12)]})
    restore_key_groups(root, "fork", f"epoch:1/{changed.manifest.epoch - 1}", [(0, 6)])
    wanted = {e: v for e, v in at_fork[name(COUNT)].items() if group_of(COUNT, e) <= 6}
    wanted |= {e: v for e, v in fork.model[name(COUNT)].items() if group_of(COUNT, e) > 6}
    assert states_of(root, "fork", [COUNT]) == {name(COUNT): wanted}


def test_groups_come_from_a_canonical_savepoint_that_was_moved(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    job = job_with_history(root, random.Random(23))
    savepoint = trigger_savepoint(root, "flights", kind="canonical", directory=str(tmp_path / "out"))
    written = Path(str(savepoint.directory))  # type: ignore[union-attr]
    moved = written.rename(tmp_path / "moved")
    at_savepoint = states_of(root, "flights")
    job.epoch({name(COUNT): [put(f"N{n}", 1000 + n) for n in range(12)]})
    report = restore_key_groups(root, "flights", str(moved), [(0, 6)], uids=["aircraft"])
    assert report.source.savepoint_id == savepoint.savepoint_id
    wanted = {e: v for e, v in at_savepoint[name(COUNT)].items() if group_of(COUNT, e) <= 6}
    wanted |= {e: v for e, v in job.model[name(COUNT)].items() if group_of(COUNT, e) > 6}
    assert states_of(root, "flights", [COUNT]) == {name(COUNT): wanted}


def test_raw_state_moves_with_its_key_groups(root: str) -> None:
    raw = raw_keyed_schema("aircraft")
    job = JobBuilder(root, "flights", (raw, COUNT))
    storage_rows(job, {1: b"one", 2: b"two"})
    storage_rows(job, {1: b"eins", 2: b"zwei", 3: b"drei"})
    restore_key_groups(root, "flights", "epoch:1/1", [1, 3], uids=["aircraft"])
    rows = read_state(root, "flights", "aircraft", raw.name).to_pylist()
    assert {row["key_group"]: row["value"] for row in rows} == {1: b"one", 2: b"zwei"}


def storage_rows(job: JobBuilder, values: dict[int, bytes]) -> None:
    """Seals an epoch in which operator and count have rows, the raw ones by key group."""
    job._group = lambda schema, change: change.group if change.group >= 0 else 0  # type: ignore[method-assign]
    job.epoch({("aircraft", "_raw_keyed_state"): [Change(Op.PUT, (), v, group=g) for g, v in values.items()]})


def test_text_is_converted_to_values_of_other_types(root: str) -> None:
    """Keys may come as text, from JSON or a command line."""
    day = state("days", "count", "day date, number int, at timestamp", "bigint")
    at = datetime.datetime(2026, 7, 11, 8, tzinfo=datetime.UTC)
    first, second = (datetime.date(2026, 7, 11), 5, at), (datetime.date(2026, 7, 12), 5, at)
    job = JobBuilder(root, "days", (day,))
    job.epoch({name(day): [put(first, 1), put(second, 1)]})
    job.epoch({name(day): [put(first, 2), put(second, 2)]})
    restore_key_groups(root, "days", "epoch:1/1", keys=[("2026-07-11", "5", "2026-07-11T08:00:00Z")])
    assert states_of(root, "days", [day]) == {name(day): {(first, None, None): 1, (second, None, None): 2}}
    for wrong in (("2026-07-32", 5, at), ("2026-07-11", "five", at), ("2026-07-11", 5.5, at)):
        with pytest.raises(RestoreError, match="is no key of operator 'days'"):
            restore_key_groups(root, "days", "epoch:1/1", keys=[wrong])


def test_an_operator_that_never_had_state_takes_that_of_the_source(root: str) -> None:
    """The job has the operator, without any state yet; the source has state of it."""
    job = JobBuilder(root, "flights", (COUNT,))
    job.epoch({name(COUNT): [put("N1", 1), put("N2", 2)]})
    other = JobBuilder(root, "young", (COUNT,))
    other.schemas = ()
    head = other.epoch()
    claim = carry.carried(head, "claim", incarnation="0" * 32, number=1, now_ms=0)
    operators = {"aircraft": OperatorEpoch(parallelism=2, max_parallelism=13)}
    other.log.put(replace(claim, operators=operators, keys={"aircraft": COUNT.key}))
    pin = trigger_savepoint(root, "flights")
    restore_key_groups(root, "young", f"flights/{pin.savepoint_id}", [(0, 12)], uids=["aircraft"])
    live = read_state(root, "young", *name(COUNT))
    assert model_of(COUNT, live) == job.rows(*name(COUNT))
    sealed = newest(other.log)
    assert sealed is not None
    assert sealed.manifest.operators["aircraft"].since == sealed.manifest.epoch
