"""Keys of several columns and all types, functions without key, and the ways in which a function may return rows."""

from collections import Counter
from typing import Any

from support import COUNTS, Count, counted

from state_engine.api import KeyedProcessFunction, OutputTag, ProcessFunction, Row, Types, ValueStateDescriptor
from state_engine.spark import MemorySink, StreamJob

from .part import Part, Ran, Start, output


class BothColumns(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        assert ctx.get_current_key() == (value.k, value.sub)
        return super().process_element(value, ctx)


class KeyOfTwoColumns(Part):
    """Either column may be null."""

    def build(self, job: StreamJob, start: Start) -> None:
        rows = self.records(job, start).select("n", "k", "nullif(sub, 's1') as sub")
        keyed = rows.key_by("k", "sub", order_by=["n"]).process(BothColumns(), COUNTS, uid="two-columns")
        keyed.sink_to(MemorySink("two-columns"), uid="two-columns-out")

    def check(self, ran: Ran) -> None:
        wanted = Counter((row.k, None if row.sub == "s1" else row.sub) for row in self.shared.all)
        found = ran.rows("two-columns", "count")
        assert {(row["k"], row["sub"]): row["value"] for row in found} == wanted
        assert len(found) == len(wanted)


TYPES = [
    "cast(n % 5 as tinyint)",
    "cast(n % 5 as smallint)",
    "cast(n % 5 as int)",
    "n % 5",
    "n % 2 = 0",
    "cast(concat('b', n % 5) as binary)",
    "date_add(date'2024-01-01', cast(n % 5 as int))",
    "timestamp_seconds(n % 5)",
    "cast(n % 5 as decimal(12,2))",
    "cast(n % 5 as decimal(30,2))",
]


class Total(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        return [(value.n, self.total.value())]


class EveryTypeOfKey(Part):
    """All types are in one key."""

    def build(self, job: StreamJob, start: Start) -> None:
        columns = [f"c{i}" for i in range(len(TYPES))]
        typed = self.records(job, start).select("n", *(f"{k} as {c}" for k, c in zip(TYPES, columns, strict=True)))
        totals = typed.key_by(*columns, order_by=["n"]).process(Total(), "n bigint, total bigint", uid="key-types")
        totals.sink_to(MemorySink("key-types"), uid="key-types-out")

    def check(self, ran: Ran) -> None:
        seen: Counter[int] = Counter()
        wanted = []
        for row in self.shared.all:
            seen[row.n % 10] += 1
            wanted.append((row.n, seen[row.n % 10]))
        assert output("key-types") == wanted


ODD = OutputTag("odd", "n bigint")


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.n % 2:
            yield ODD, (value.n,)
        else:
            yield {"n": value.n, "k": value.k}
            yield Row(value.n, "twice")


class WithoutKeys(Part):
    """A function without key; a keyed one follows."""

    def build(self, job: StreamJob, start: Start) -> None:
        split = self.records(job, start).process(Split(), "n bigint, k string", uid="halves")
        split.get_side_output(ODD).sink_to(MemorySink("odd"), uid="odd-numbers")
        evens = split.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count-evens")
        evens.sink_to(MemorySink("evens"), uid="evens-out")

    def check(self, ran: Ran) -> None:
        assert [n for (n,) in output("odd")] == [row.n for row in self.shared.all if row.n % 2]
        evens = [row.n for row in self.shared.all if row.n % 2 == 0]
        twice = [(row["n"], row["times"]) for row in MemorySink("evens").rows() if row["k"] == "twice"]
        assert sorted(twice) == [(n, times) for times, n in enumerate(evens, 1)]
        assert len(ran.manifest.operators["halves"].acks) == ran.start.parallelism


class Ways(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        [(n, k, count)] = super().process_element(value, ctx)
        match n % 5:
            case 0:
                return iter([(n, k, count)])
            case 1:
                return ((n, k, count),)
            case 2:
                return [{"n": n, "k": k, "times": count}]
            case 3:
                return [Row(n=n, k=k, times=count)]
        return [[n, k, count]]


class Nothing(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        super().process_element(value, ctx)


class WaysToReturnRows(Part):
    """Generators, lists, tuples, dictionaries, rows and nothing."""

    def build(self, job: StreamJob, start: Start) -> None:
        for uid, function in (("ways", Ways()), ("nothing", Nothing())):
            keyed = self.records(job, start).key_by("k", order_by=["n"]).process(function, COUNTS, uid=uid)
            keyed.sink_to(MemorySink(uid), uid=f"{uid}-out")

    def check(self, ran: Ran) -> None:
        wanted = counted(self.shared.all)
        assert output("ways") == wanted
        assert output("nothing") == []
        for uid in ("ways", "nothing"):
            assert ran.state(uid, "count") == {k: times for _, k, times in wanted}
        assert None in ran.state("ways", "count"), "a null key is a key like any"
