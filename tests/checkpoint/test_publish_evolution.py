"""The type of a state changes between checkpoints: tables, restores, savepoints and SQL."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from state_engine.api import Types
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.compatibility import merge_schemas
from state_engine.epoch.crash_points import CrashPoint
from state_engine.inspect import list_states, read_state, run_sql
from state_engine.log.evolution import types_of
from state_engine.log.records import DeclaredChanges, StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.serialization.evolution import encode_default
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.changes import Change, append, model_of, put, reset_group, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock

OLD = state("aircraft", "last", "tailnum string", "struct<minutes:int,origin:string>")
LEGS = state("aircraft", "legs", "tailnum string", "int", shape="list")
NEW = replace(
    OLD,
    schema_id="aircraft.last.2",
    value="struct<origin:string,delay:bigint,cause:string>",
    declared=DeclaredChanges(
        aliases={"delay": ("minutes",)}, defaults={"cause": encode_default(Types.STRING(), "unknown")}
    ),
)
LONG_LEGS = replace(LEGS, schema_id="aircraft.legs.2", value="bigint")
LAST, LEG = ("aircraft", "last"), ("aircraft", "legs")
Rows = Mapping[tuple[str, str], list[Change]]


class Job:
    """A job with Delta tables; its function changes the types of its states."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.log = JobBuilder(self.root, "flights", [OLD, LEGS])
        self.checkpoints = 0

    def epoch(self, changes: Rows | None = None) -> Any:
        return self.log.epoch(changes)

    def change(self, *found: StateSchema) -> None:
        """Gives states these types from the next epoch on, and changes the model by the rules of evolution."""
        assert self.log.head is not None
        before = {schema.name: schema.schema_id for schema in self.log.schemas}
        self.log.schemas = merge_schemas(self.log.schemas, found, self.log.head.manifest.epoch)
        model = self.log.model
        for schema in found:
            if schema.value == NEW.value and before[schema.name] != schema.schema_id:
                model[LAST] = {
                    entry: {"origin": v["origin"], "delay": v["minutes"], "cause": "unknown"}
                    for entry, v in model[LAST].items()
                }

    def publish(self, changes: Rows | None = None) -> Any:
        """Seals an epoch with a checkpoint; the next manifest adopts it. Returns the base."""
        self.checkpoints += 1
        publisher = CheckpointPublisher(self.log.storage, "flights", clock=ManualClock(), ids=CountingIds())
        publisher.finish(self.log.head) if self.log.head is not None else None
        publisher.begin(self.log.epoch(changes, checkpoint_id=self.checkpoints))
        reference = publisher.completed()
        assert reference is not None, publisher._world.rows.rows()[-1]
        self.log.adopt(reference)
        return read_base(self.log.storage, reference)

    def check(self, at: Any = None) -> None:
        """Reads every state as of an epoch, as a restore does, and compares it with the model of that epoch."""
        stored = at or self.log.head
        for schema in stored.manifest.schemas:
            live = read_state(self.root, "flights", schema.uid, schema.name, at=stored)
            assert model_of(schema, live) == self.log.rows(schema.uid, schema.name, stored)

    def columns(self) -> list[str]:
        (value,) = [f for f in DeltaTable(f"{self.root}/flights/aircraft/last").schema().fields if f.name == "value"]
        return [field.name for field in value.type.fields]  # type: ignore[union-attr]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "root")


def old(minutes: int) -> dict[str, Any]:
    return {"minutes": minutes, "origin": "JFK"}


def new(minutes: int) -> dict[str, Any]:
    return {"origin": "EWR", "delay": minutes + (1 << 40), "cause": "wind"}


def test_published_before_and_after_the_change(job: Job) -> None:
    first = job.epoch({LAST: [put("a", old(1)), put("b", old(2))], LEG: [append("a", 1)]})
    base = job.publish({LAST: [put("c", old(3))]})
    second = job.log.head
    assert job.columns() == ["minutes", "origin"]
    third = job.epoch({LAST: [put("d", old(4))]})
    job.change(NEW, LONG_LEGS)
    job.epoch({LAST: [put("a", new(5))], LEG: [append("a", 1 << 40)]})
    job.check()
    assert {file.schema_id for file in base.files} == {OLD.schema_id, LEGS.schema_id}

    base = job.publish({LAST: [put("e", new(6))]})
    assert job.columns() == ["origin", "delay", "cause"]
    assert {file.schema_id for file in base.files} == {NEW.schema_id, LONG_LEGS.schema_id}
    job.check()
    incremental = job.publish({LAST: [put("f", new(7))]})
    assert not incremental.full, "a type that stayed costs nothing"
    job.check()
    for earlier in (first, second, third):
        job.check(earlier)


def test_only_the_state_that_changed_is_folded_from_scratch(job: Job) -> None:
    job.publish({LAST: [put("a", old(1))], LEG: [append("a", 1)]})
    job.change(NEW)
    job.publish({LAST: [put("b", new(2))], LEG: [append("a", 2)]})
    rows = CheckpointPublisher(job.log.storage, "flights")._world.rows.rows()
    assert {s.state: (s.full, s.reason) for s in rows[-1].states} == {
        "last": (True, "its type changed"),
        "legs": (False, ""),
    }
    job.check()


class Crashed(BaseException):
    """The process has died."""


class CrashAt:
    """Raises at a crash point of a publish."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self._point:
            raise Crashed


@pytest.mark.parametrize("point", [point for point in CrashPoint if point.where == "publisher"], ids=str)
def test_a_publish_of_a_new_type_is_finished_after_any_crash(job: Job, point: CrashPoint) -> None:
    job.publish({LAST: [put("a", old(1))], LEG: [append("a", 1)]})
    job.change(NEW, LONG_LEGS)
    sealed = job.log.epoch({LAST: [put("b", new(2))], LEG: [append("a", 2)]}, checkpoint_id=2)
    with pytest.raises(Crashed):
        CheckpointPublisher(job.log.storage, "flights", clock=ManualClock(), crash=CrashAt(point)).begin(sealed)
    job.check()
    again = CheckpointPublisher(job.log.storage, "flights", clock=ManualClock())
    reference = again.finish(sealed)
    assert reference is not None
    assert reference.epoch == sealed.manifest.epoch
    job.log.adopt(reference)
    job.epoch({LAST: [put("c", new(3))]})
    job.check()
    assert job.columns() == ["origin", "delay", "cause"]


def test_a_state_without_rows_changes_its_table_too(job: Job) -> None:
    job.publish({LAST: [put("a", old(1))]})
    job.publish({LAST: [reset_group(group) for group in range(13)]})
    job.change(replace(OLD, schema_id="empty", value="struct<minutes:int>"))
    job.publish()
    assert job.columns() == ["minutes"]
    job.change(NEW)
    job.publish()
    assert job.columns() == ["origin", "delay", "cause"]
    job.publish({LAST: [put("a", new(1))]})
    job.check()


def test_timestamps_without_time_zone_may_come(job: Job) -> None:
    job.log = JobBuilder(job.root, "flights", [state("aircraft", "last", "tailnum string", "struct<day:date>")])
    day = datetime.date(2024, 5, 1)
    job.publish({LAST: [put("a", {"day": day})]})
    job.log.schemas = merge_schemas(
        job.log.schemas, [replace(OLD, schema_id="ntz", value="struct<day:timestamp_ntz>")], 1
    )
    job.log.model[LAST] = {k: {"day": datetime.datetime(2024, 5, 1)} for k in job.log.model[LAST]}
    base = job.publish({LAST: [put("b", {"day": datetime.datetime(2024, 5, 2, 3)})]})
    job.check()
    job.publish({LAST: [put("c", {"day": None})]})
    job.check()
    assert base.full


def test_back_to_an_older_epoch_with_the_older_code(job: Job) -> None:
    before = job.publish({LAST: [put("a", old(1))]})
    target = job.log.head
    job.change(NEW)
    job.publish({LAST: [put("a", new(5))]})
    schemas = job.log.schemas
    assert target is not None
    job.log.schemas = target.manifest.schemas
    job.log.restore(target)
    assert types_of(job.log.schemas[0]) == (OLD.value,)
    job.publish({LAST: [put("b", old(2))]})
    assert job.columns() == ["minutes", "origin"]
    job.check()
    # and with the newer one
    job.log.schemas = target.manifest.schemas
    job.log.restore(target)
    job.change(NEW)
    job.publish({LAST: [put("b", new(2))]})
    assert job.columns() == ["origin", "delay", "cause"]
    assert schemas[0].value == job.log.schemas[0].value
    job.check()
    assert before.epoch == 1


def test_back_to_the_older_type_at_the_newest_epoch(job: Job) -> None:
    """Removing a field again is a change like any other; values of that time have lost it for good."""
    wider = replace(OLD, schema_id="wider", value="struct<minutes:int,origin:string,gate:int>")
    job.publish({LAST: [put("a", old(1))]})
    job.change(wider)
    job.epoch({LAST: [put("b", old(2) | {"gate": 7})]})
    job.change(OLD)
    job.log.model[LAST] = {k: old(v["minutes"]) for k, v in job.log.model[LAST].items()}
    job.epoch({LAST: [put("c", old(3))]})
    job.check()
    job.change(wider)
    job.log.model[LAST] = {k: v | {"gate": None} for k, v in job.log.model[LAST].items()}
    job.epoch({LAST: [put("d", old(4) | {"gate": 8})]})
    job.check()
    job.publish()
    job.check()
    assert types_of(job.log.schemas[0]) == (OLD.value, wider.value, OLD.value, wider.value)


def test_a_fork_reads_the_other_jobs_rows_in_its_own_type(job: Job) -> None:
    job.publish({LAST: [put("a", old(1))]})
    job.epoch({LAST: [put("b", old(2))]})
    fork = Job(Path(job.root))
    fork.log = job.log.fork("copy")
    fork.change(NEW)
    publisher = CheckpointPublisher(
        fork.log.storage, "copy", clock=ManualClock(), ids=CountingIds(), open_job=lambda _: job.log.storage
    )
    sealed = fork.log.epoch({LAST: [put("c", new(3))]}, checkpoint_id=1)
    publisher.begin(sealed)
    reference = publisher.completed()
    assert reference is not None
    live = load_groups(
        [Segment(fork.log.storage, read_base(fork.log.storage, reference), ())], fork.log.schemas[0], 0, 12
    )
    assert model_of(fork.log.schemas[0], live) == fork.log.rows(*LAST)
    job.check()


def test_a_savepoint_keeps_the_type_of_its_epoch(job: Job) -> None:
    job.publish({LAST: [put("a", old(1))]})
    job.epoch({LAST: [put("b", old(2))]})
    pin = trigger_savepoint(job.root, "flights", clock=ManualClock(), ids=CountingIds())
    job.change(NEW)
    job.publish({LAST: [put("a", new(5))]})
    read = read_state(job.root, "flights", "aircraft", "last", at=pin)
    assert {row["tailnum"]: row["value"] for row in read.to_pylist()} == {"a": old(1), "b": old(2)}
    assert [s.value for s in list_states(job.root, "flights", at=pin)] == [OLD.value, LEGS.value]
    assert [s.value for s in list_states(job.root, "flights")] == [NEW.value, LEGS.value]


def test_sql_has_the_type_of_the_epoch(job: Job) -> None:
    pytest.importorskip("duckdb")
    job.publish({LAST: [put("a", old(1))]})
    job.change(NEW)
    job.publish({LAST: [put("b", new(5))]})
    now = run_sql(
        job.root, "flights", "select tailnum, value.delay as d, value.cause as c from aircraft.last order by 1"
    )
    assert now.to_pylist() == [
        {"tailnum": "a", "d": 1, "c": "unknown"},
        {"tailnum": "b", "d": 5 + (1 << 40), "c": "wind"},
    ]
    then = run_sql(job.root, "flights", "select value.minutes as m from aircraft.last", at="checkpoint:1")
    assert then.to_pylist() == [{"m": 1}]


def test_rows_from_before_a_function_are_read_no_more(job: Job) -> None:
    job.publish({LAST: [put("a", old(1)), put("b", old(2))]})
    job.epoch({LAST: [put("c", old(3))]})
    text = replace(OLD, schema_id="text", value="string", declared=DeclaredChanges(migrates_from=(OLD.value,)))
    job.change(text)
    resets = [reset_group(group) for group in range(13)]
    migrated = job.epoch({LAST: [*resets, put("a", "1"), put("b", "2"), put("c", "3")]})
    job.check()
    job.epoch({LAST: [put("d", "4")]})
    job.publish({LAST: [put("a", "10")]})
    job.check()
    job.check(migrated)
