"""A stream continues from its state after a change of its code: rules, functions, refusals, and the way back."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import Input, Record, newest, run_all, state_of

from state_engine.api import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import StateMigrationError, StateTypeChangedError, UnreadStateError
from state_engine.inspect import list_states, open_job, run_sql
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

FIRST = Types.ROW_NAMED(["times", "last"], [Types.INT(), Types.LONG()])
SECOND = Types.ROW_NAMED(["highest", "count", "last"], [Types.LONG(), Types.LONG(), Types.LONG()])


class Visits(KeyedProcessFunction):
    """Keeps how often a key came, and its last `v`."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(self.describe())

    def describe(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("seen", FIRST)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        seen = self.seen.value()
        times = (seen.times if seen else 0) + 1
        self.seen.update((times, value.v))
        return [(value.n, value.k, times)]


class WithHighest(Visits):
    """The next release: `times` is renamed to `count` and wider, and `highest` is new, with the default -1."""

    def describe(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("seen", SECOND).with_alias("count", "times").with_default("highest", -1)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        seen = self.seen.value()
        count, highest = (seen.count, seen.highest) if seen else (0, -1)
        self.seen.update((max(highest, value.v), count + 1, value.v))
        return [(value.n, value.k, count + 1)]


class AsText(Visits):
    """Another release keeps text; a function converts the first release's values."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.convert = convert

    def describe(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("seen", Types.STRING()).migrate_from(FIRST, self.convert)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        times = int((self.seen.value() or "0").split()[0]) + 1
        self.seen.update(f"{times} times")
        return [(value.n, value.k, times)]


class Narrow(Visits):
    def describe(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("seen", "struct<times:smallint,last:bigint>")


class WithoutLast(Visits):
    """A release that keeps one field less."""

    def describe(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("seen", "struct<times:int>")

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        seen = self.seen.value()
        self.seen.update(((seen.times if seen else 0) + 1,))
        return [(value.n, value.k, self.seen.value().times)]


def counted(rows: Iterable[Record]) -> dict[Any, tuple[int, int, int]]:
    """Returns per key how often it came, its last and its highest value."""
    counts: dict[Any, tuple[int, int, int]] = {}
    for row in sorted(rows):
        times, _, highest = counts.get(row.k, (0, 0, -1))
        counts[row.k] = (times + 1, row.v, max(highest, row.v))
    return counts


class Job:
    """A job, its input, and its store."""

    def __init__(self, spark: Any, folder: Path, name: str, backend: Any = None) -> None:
        self.spark, self.root, self.name, self.backend = spark, folder / "root", name, backend
        self.source = Input(folder / "in").add_many(2, rows=40)
        self.sink = MemorySink(name)

    def run(self, function: KeyedProcessFunction, parallelism: int = 2, **options: Any) -> Any:
        options = {"checkpoint_interval_ms": 10} | options
        job = StreamJob(
            self.name,
            root=str(self.root),
            parallelism=parallelism,
            checkpoint_interval_ms=options.pop("checkpoint_interval_ms"),
            **({"state_backend": self.backend} if self.backend else {}),
        )
        stream = job.from_stream(self.source.stream(self.spark)).key_by("k", order_by=["n"])
        stream.process(function, "n bigint, k string, times bigint", uid="visits").sink_to(self.sink, uid="out")
        return run_all(job, **options)

    def state(self, at: Any = None) -> dict[Any, Any]:
        return state_of(self.root, self.name, "visits", "seen", at=at)

    def check_output(self) -> None:
        seen: dict[Any, int] = {}
        expected = []
        for row in sorted(self.source.all):
            seen[row.k] = seen.get(row.k, 0) + 1
            expected.append((row.n, row.k, seen[row.k]))
        assert sorted(tuple(row.values()) for row in self.sink.rows()) == expected

    def files(self) -> dict[str, int]:
        files = (p for p in (self.root / self.name).rglob("*") if p.is_file() and "_control" not in p.parts)
        return {str(p): p.stat().st_mtime_ns for p in files}


@pytest.mark.long  # `testing/test_harness_evolution.py`; the next test of this file migrates in Spark
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(HashMapStateBackend(), id="heap"),
        pytest.param(EmbeddedRocksDBStateBackend(), id="rocksdb", marks=pytest.mark.long),
    ],
)
def test_the_next_release_goes_on_from_the_state_of_the_first(
    spark, tmp_path: Path, backend: Any, request: pytest.FixtureRequest
) -> None:
    job = Job(spark, tmp_path, f"evolving-{request.node.callspec.id}", backend)
    pin = job.run(Visits()).trigger_savepoint(label="first release")
    first = list(job.source.all)
    old = {k: {"times": times, "last": last} for k, (times, last, _) in counted(first).items()}
    assert job.state() == old

    job.source.add_many(1, rows=40, seed=7)
    job.run(WithHighest(), parallelism=3)
    job.check_output()
    then, now = counted(first), counted(job.source.all)
    later = counted(row for row in job.source.all if row not in set(first))
    new = {
        k: {"highest": later[k][2] if k in later else -1, "count": times, "last": last}
        for k, (times, last, _) in now.items()
    }
    assert job.state() == new
    assert job.state(at=pin) == old
    assert len(then) <= len(now)
    (schema,) = [schema for schema in newest(job.root, job.name).schemas if schema.name == "seen"]
    assert [former.value for former in schema.former] == [FIRST.ddl()]

    pytest.importorskip("duckdb")
    rows = open_job(str(job.root), job.name).checkpoints()
    ids = [row.id for row in rows if row.kind == "checkpoint" and row.status == "completed"]
    total = "select sum(value.times)::bigint as total from visits.seen"
    assert run_sql(str(job.root), job.name, total, at=f"checkpoint:{ids[0]}")["total"][0].as_py() > 0
    live = run_sql(str(job.root), job.name, "select sum(value.count)::bigint as total from visits.seen", live=True)
    assert live["total"].to_pylist() == [len(job.source.all)]

    back = job.run(Visits(), restore=pin.savepoint_id)
    assert [epoch.records for epoch in back.epochs if epoch.kind == "epoch"] == [40]
    job.check_output()
    assert job.state() == {k: {"times": times, "last": last} for k, (times, last, _) in now.items()}
    job.run(WithHighest(), restore=pin.savepoint_id)
    job.check_output()
    assert job.state() == new


def test_a_function_migrates_and_one_that_fails_loses_nothing(spark, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "migrating")
    job.run(Visits())
    old, sealed = job.state(), newest(job.root, job.name)
    job.source.add_many(1, rows=40, seed=7)
    with pytest.raises(StateMigrationError, match=r"'seen' of operator 'visits'.*KeyError.*Key:"):
        job.run(AsText(lambda seen: {}[seen]))
    head = newest(job.root, job.name)
    assert (head.kind, head.epoch) == ("claim", sealed.epoch + 1)
    assert job.state() == old

    job.run(AsText(lambda seen: f"{seen.times} before"), parallelism=3)
    job.check_output()
    touched = {row.k for row in job.source.all[-40:]}
    times = {k: count for k, (count, _, _) in counted(job.source.all).items()}
    assert job.state() == {k: f"{n} {'times' if k in touched else 'before'}" for k, n in times.items()}
    job.source.add_many(1, rows=40, seed=8)
    job.run(AsText(lambda seen: {}[seen]))  # the function is not needed any more
    job.check_output()


@pytest.mark.long  # `testing/test_harness_evolution.py` has what is refused
def test_a_refused_change_leaves_the_store_as_it_was(spark, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "narrowed")
    job.run(Visits())
    before, head = job.files(), newest(job.root, job.name)
    for restore in (None, "latest"):
        with pytest.raises(StateTypeChangedError, match=r"'seen'.*'visits'.*field times was int, is smallint") as no:
            job.run(Narrow(), **({"restore": restore} if restore else {}))
        assert "migrate_from()" in no.value.action
    assert job.files() == before
    assert newest(job.root, job.name) == head
    assert [s.value for s in list_states(str(job.root), job.name)] == [FIRST.ddl()]


def test_a_field_that_is_not_read_any_more_is_named_by_the_start(
    spark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(spark, tmp_path, "shorter")
    job.run(Visits(), strict=True)
    before = job.files()
    with pytest.raises(UnreadStateError, match="last of state 'seen' of operator 'visits'"):
        job.run(WithoutLast(), strict=True)
    assert job.files() == before
    assert "does not read" not in caplog.text
    job.source.add_many(1, rows=40, seed=7)
    job.run(WithoutLast())
    job.check_output()
    assert re.search(
        r"'shorter' does not read last of state 'seen' of operator 'visits' \(\d+ rows, \d+ bytes\)", caplog.text
    )
