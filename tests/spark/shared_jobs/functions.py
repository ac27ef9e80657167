"""`map`, `flat_map`, `filter`, `reduce` and running aggregations, with and without key; and partitioned tables."""

from collections.abc import Iterator
from typing import Any

from deltalake import DeltaTable
from support import Record

from state_engine.api import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.spark import DeltaSink, MemorySink, StreamJob

from .part import Part, Ran, Start, output


class Numbered(MapFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self.times = runtime_context.get_state(ValueStateDescriptor("times", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.times.update((self.times.value() or 0) + 1)
        return value.n, value.k, self.times.value()


class Repeated(FlatMapFunction):
    """Emits a key's records none, one, two and three times in turn, and numbers them."""

    def flat_map(self, value: Any) -> Iterator[Any]:
        for part in range(value.times % 4):
            yield value.n, value.k, value.times, part


class NotFirst(FilterFunction):
    """Drops records that come twice in a row, and the first record of a key."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def filter(self, value: Any) -> bool:
        before = self.last.value()
        self.last.update(value.part)
        return before is not None and before != value.part


class Joined(ReduceFunction):
    """Combines fields of both records."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1.n, value1.k, max(value1.sub, value2.sub), value1.v + value2.v


class Halved(MapFunction):
    """Halves the value, and emits the task's name."""

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()

    def map(self, value: Any) -> Any:
        return value.n, self.name, value.v // 2


def keyed(stream: Any) -> Any:
    mapped = stream.key_by("k", order_by=["n"]).map(Numbered(), "n bigint, k string, times bigint", uid="number")
    flat = mapped.key_by("k", order_by=["n"]).flat_map(
        Repeated(), "n bigint, k string, times bigint, part bigint", uid="repeat"
    )
    return flat.key_by("k", order_by=["n", "part"]).filter(NotFirst(), uid="not-first")


def without_key(stream: Any) -> Any:
    halved = stream.map(Halved(), "n bigint, name string, half bigint", uid="halve")
    positive = halved.filter(lambda value: value.half > 0, uid="halves-above-0")
    renamed = positive.map(lambda value: (value.n, value.name.upper(), value.half), halved.columns)
    flat = renamed.flat_map(lambda value: [value] * (value.half % 3), halved.columns, uid="repeat-halves")
    return flat.map(lambda value: (value.n, value.name, -value.half), halved.columns, uid="negate")


class KeyedFunctions(Part):
    def build(self, job: StreamJob, start: Start) -> None:
        keyed(self.records(job, start)).sink_to(MemorySink("keyed"), uid="keyed-out")

    def check(self, ran: Ran) -> None:
        times: dict[Any, int] = {}
        last: dict[Any, int] = {}
        wanted = []
        for record in self.shared.all:
            times[record.k] = times.get(record.k, 0) + 1
            for part in range(times[record.k] % 4):
                if last.get(record.k) not in (None, part):
                    wanted.append((record.n, record.k, times[record.k], part))
                last[record.k] = part
        assert output("keyed") == wanted
        assert ran.state("number", "times") == times


class FunctionsWithoutKey(Part):
    def build(self, job: StreamJob, start: Start) -> None:
        without_key(self.records(job, start)).sink_to(MemorySink("without-key"), uid="without-key-out")

    def check(self, ran: Ran) -> None:
        halves = [(r.n, r.v // 2) for r in self.shared.all if r.v // 2 > 0]
        assert output("without-key") == [(n, "HALVE", -half) for n, half in halves for _ in range(half % 3)]


class Reduced(Part):
    def build(self, job: StreamJob, start: Start) -> None:
        reduced = self.records(job, start).key_by("k", order_by=["n"]).reduce(Joined(), uid="reduce")
        reduced.sink_to(MemorySink("reduced"), uid="reduced-out")

    def check(self, ran: Ran) -> None:
        kept: dict[Any, Any] = {}
        wanted = []
        for record in self.shared.all:
            old = kept.get(record.k)
            new = record if old is None else (old[0], old[1], max(old[2], record.sub), old[3] + record.v)
            kept[record.k] = tuple(new)
            wanted.append(kept[record.k])
        assert output("reduced") == sorted(wanted)
        state = ran.rows("reduce", "reduced")
        assert {row["k"]: tuple(row["value"].values()) for row in state} == kept


class RunningAggregations(Part):
    """From the second start on, one of them is another verb: it must not take a sum for a maximum."""

    def build(self, job: StreamJob, start: Start) -> None:
        for uid, verb in {"sum": "sum", "max-by": "max_by", "changed": "max" if start.number else "sum"}.items():
            keyed = self.records(job, start).key_by("k", order_by=["n"])
            getattr(keyed, verb)("v", uid=uid).sink_to(MemorySink(uid), uid=f"{uid}-out")

    def check(self, ran: Ran) -> None:
        def total(old: Record, new: Record) -> Record:
            return old._replace(v=old.v + new.v)

        def first_highest(old: Record, new: Record) -> Record:
            return max(old, new, key=lambda record: record.v)

        def highest(old: Record, new: Record) -> Record:
            return old._replace(v=max(old.v, new.v))

        first = len(self.shared.all) if ran.start.number == 0 else 60  # the second start goes back to it
        before, after = self.shared.all[:first], self.shared.all[first:]
        assert output("sum") == running(total, self.shared.all)
        assert output("max-by") == running(first_highest, self.shared.all)
        assert output("changed") == sorted([*running(total, before), *running(highest, after)])


def running(combine: Any, records: list[Record]) -> list[tuple[Any, ...]]:
    """Returns the output of a running aggregation, in order."""
    kept: dict[Any, Record] = {}
    rows = []
    for record in records:
        kept[record.k] = combine(kept[record.k], record) if record.k in kept else record
        rows.append(tuple(kept[record.k]))
    return sorted(rows)


DIVIDED = "k string, sub string, n bigint, even boolean"


class Each(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k, value.sub, value.n, value.even


class PartitionedTable(Part):
    """A table that is divided by two columns, and a flat one; both read by delta-rs and by Spark."""

    def build(self, job: StreamJob, start: Start) -> None:
        rows = self.records(job, start).select("k", "sub", "n", "n % 2 = 0 AS even")
        each = rows.key_by("k", order_by=["n"]).process(Each(), DIVIDED, uid="each")
        each.sink_to(DeltaSink(str(self.folder / "by"), partition_by=("k", "even")), uid="by")
        each.sink_to(DeltaSink(str(self.folder / "flat")), uid="flat")

    def check(self, ran: Ran) -> None:
        wanted = sorted(((row.k, row.sub, row.n, row.n % 2 == 0) for row in self.shared.all), key=str)
        by, flat = str(self.folder / "by"), str(self.folder / "flat")
        assert DeltaTable(by).metadata().partition_columns == ["k", "even"]
        for path in (by, flat):
            table = DeltaTable(path).to_pyarrow_table().select(["k", "sub", "n", "even"])
            assert sorted(map(tuple, (row.values() for row in table.to_pylist())), key=str) == wanted
        if ran.start.number == 2:
            read = self.spark.read.format("delta").load(by)
            assert sorted(map(tuple, read.select("k", "sub", "n", "even").collect()), key=str) == wanted
            one = next(row.k for row in self.shared.all if row.k is not None)
            chosen = read.where(f"k = '{one}' AND even").select("n").collect()
            assert sorted(row.n for row in chosen) == sorted(n for k, _, n, even in wanted if k == one and even)
