"""Operators with two inputs, keyed and not."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from enrichment import UNKNOWN, check_enriched, enrich
from support import COUNTS, Count, counted

from state_engine.api import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.spark import MemorySink, StreamJob

from .part import OfFolders, Ran, Start, output

PLACES = "n bigint, side string, place bigint"


class Enriched(OfFolders):
    """Orders that wait for the label of their key."""

    files: ClassVar = {0: (2, 0), 1: (1, 2), 2: (1, 1)}

    def build(self, job: StreamJob, start: Start) -> None:
        orders, labels = self.streams(job, start)
        joined = enrich(orders, labels)
        joined.sink_to(MemorySink("enriched"), uid="enriched")
        joined.get_side_output(UNKNOWN).sink_to(MemorySink("unknown"), uid="unknown-labels")

    def check(self, ran: Ran) -> None:
        check_enriched(ran.root, ran.name, self.folders, output("enriched"))
        labels = self.folders.inputs[1].all
        assert len(output("unknown")) == len(labels) - len({row.k for row in labels})


class Sides(KeyedCoProcessFunction):
    """Emits each record's place within its key, over both inputs."""

    def open(self, runtime_context: Any) -> None:
        self.place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def _next(self, n: int, side: str) -> list[Any]:
        place = self.place.value() or 0
        self.place.update(place + 1)
        return [(n, side, place)]

    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return self._next(value.n, "one")

    def process_element2(self, value: Any, ctx: Any) -> list[Any]:
        return self._next(value.number, "two")


class InOrder(OfFolders):
    """Both inputs of an epoch come in one order, and among equals that of input 1 is the first."""

    files: ClassVar = {0: (2, 2), 1: (2, 2)}
    rows = 40

    def build(self, job: StreamJob, start: Start) -> None:
        # The source of input 2 comes first in the batch: only the order puts input 1 before it.
        two, one = self.streams(job, start, per_epoch=2)
        one, two = one.select("n", "n div 7 as at", "sub"), two.select("sub as s", "n as number", "n div 7 as since")
        keyed = one.key_by("sub", order_by=["at"]).connect(two.key_by("s", order_by=["since"]))
        keyed.process(Sides(), PLACES, uid="sides").sink_to(MemorySink("sides"), uid="sides-out")

    def check(self, ran: Ran) -> None:
        subs = {row.n: row.sub for row in self.folders.all}
        rows = MemorySink("sides").rows()
        assert len(rows) == len(self.folders.all)
        epochs = sum(table.num_rows > 0 for table in MemorySink("sides").epochs.values())
        assert epochs == (2 if ran.start.number else 1)
        for sub in set(subs.values()):
            places = sorted((row["place"], row["n"] // 7, row["side"]) for row in rows if subs[row["n"]] == sub)
            assert [place for place, _, _ in places] == list(range(len(places)))
            assert [rest for _, *rest in places] == sorted(rest for _, *rest in places)


class Threshold(KeyedCoProcessFunction):
    """Emits the counts that are above the newest threshold of their key."""

    def open(self, runtime_context: Any) -> None:
        self.threshold = runtime_context.get_state(ValueStateDescriptor("threshold", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [(value.n, value.k, value.times)] if value.times > (self.threshold.value() or 0) else []

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.threshold.update(value.v)


class AboveThresholds(OfFolders):
    """The output of an operator is connected with a source, and a third operator follows."""

    files: ClassVar = {0: (0, 1), 1: (2, 0), 2: (1, 0)}

    def build(self, job: StreamJob, start: Start) -> None:
        events, rules = self.streams(job, start)
        counts = events.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count-events")
        counts.sink_to(MemorySink("threshold-counts"), uid="threshold-counts")
        rules = rules.where("v >= 0").select("v % 3 as v", "k as of")
        passed = counts.where("n % 5 <> 0").with_column("n", "n * 2").connect(rules).key_by("k", ["of"])
        above = passed.process(Threshold(), COUNTS, uid="threshold")
        of_all = above.map(lambda row: (row.n, "all", row.times), COUNTS).key_by("k")
        of_all.process(Count(), COUNTS, uid="count-above").sink_to(MemorySink("above"), uid="above-out")

    def check(self, ran: Ran) -> None:
        held = ran.state("threshold", "threshold")
        assert held.keys() == {row.k for row in self.folders.inputs[1].all if row.v >= 0}
        counts = output("threshold-counts")
        assert counts == counted(self.folders.inputs[0].all)
        wanted = [2 * n for n, k, times in counts if n % 5 and times > held.get(k, 0)]
        rows = output("above")
        assert [n for n, _, _ in rows] == wanted
        assert sorted(times for _, _, times in rows) == [*range(1, len(wanted) + 1)]
        assert ran.state("count-above", "count") == ({"all": len(wanted)} if wanted else {})


class Pairs(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return (value.n, "one", value.v)

    def map2(self, value: Any) -> Any:
        return (value.n, value.sub, 0) if value.n % 2 else None


class CoMapWithoutKey(OfFolders):
    files: ClassVar = {0: (2, 1), 1: (0, 1), 2: (1, 0)}

    def build(self, job: StreamJob, start: Start) -> None:
        one, two = self.streams(job, start)
        pairs = one.select("n", "v").connect(two.select("sub", "n")).map(Pairs(), PLACES, uid="pairs")
        pairs.sink_to(MemorySink("pairs"), uid="pairs-out")

    def check(self, ran: Ran) -> None:
        wanted = [(row.n, "one", row.v) for row in self.folders.inputs[0].all]
        wanted += [(row.n, row.sub, 0) for row in self.folders.inputs[1].all if row.n % 2]
        assert output("pairs") == sorted(wanted)


class Several(CoFlatMapFunction):
    """Keeps the last `n` of input 1, and emits it with each record of input 2."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def flat_map1(self, value: Any) -> None:
        self.last.update(max(value.n, self.last.value() or 0))

    def flat_map2(self, value: Any) -> Iterator[Any]:
        for side in ("a", "b"):
            yield value.n, side, self.last.value()


class CoFlatMapWithState(OfFolders):
    files: ClassVar = {0: (1, 0), 1: (0, 1), 2: (0, 1)}

    def build(self, job: StreamJob, start: Start) -> None:
        one, two = self.streams(job, start)
        several = one.key_by("k").connect(two.key_by("k")).flat_map(Several(), PLACES, uid="several")
        several.sink_to(MemorySink("several"), uid="several-out")

    def check(self, ran: Ran) -> None:
        last: dict[Any, int] = {}
        for row in self.folders.inputs[0].all:
            last[row.k] = max(row.n, last.get(row.k, 0))
        assert output("several") == sorted(
            (row.n, side, last.get(row.k)) for row in self.folders.inputs[1].all for side in "ab"
        )
        assert ran.state("several", "last") == last


class Plain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return [(value.n, "one", ctx.timestamp())]

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield UNKNOWN, (value.n, value.sub)


class CoProcessWithoutKey(OfFolders):
    files: ClassVar = {0: (1, 1), 1: (0, 1), 2: (1, 0)}

    def build(self, job: StreamJob, start: Start) -> None:
        one, two = self.streams(job, start)
        plain = one.connect(two).process(Plain(), PLACES, uid="plain")
        plain.sink_to(MemorySink("plain"), uid="plain-out")
        plain.get_side_output(UNKNOWN).sink_to(MemorySink("plain-two"), uid="plain-two")

    def check(self, ran: Ran) -> None:
        assert output("plain") == [(row.n, "one", None) for row in self.folders.inputs[0].all]
        assert output("plain-two") == [(row.n, row.sub) for row in self.folders.inputs[1].all]
