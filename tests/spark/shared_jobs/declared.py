"""Declared operators: aggregates, deduplication, changelogs and joins."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support import Folders, Input, Record

from state_engine.api import Aggregate, Duration, KeyedProcessFunction, Time, WatermarkStrategy
from state_engine.spark import MemorySink, StreamJob

from .part import Part, Ran, Start, output

AGGREGATES = {
    "records": Aggregate.count(),
    "total": Aggregate.sum("v"),
    "least": Aggregate.min("v"),
    "mean": Aggregate.avg("v"),
    "newest": Aggregate.last("n"),
}


def of_key(rows: Iterable[Record]) -> dict[Any, list[Record]]:
    """Returns the records of each key, in their order."""
    records = defaultdict(list)
    for row in sorted(rows):
        records[row.k].append(row)
    return records


class Aggregates(Part):
    def build(self, job: StreamJob, start: Start) -> None:
        keyed = self.records(job, start).key_by("k", order_by=["n"])
        keyed.aggregate(AGGREGATES, uid="sums").sink_to(MemorySink("sums"), uid="sums-out")

    def check(self, ran: Ran) -> None:
        wanted = {}
        for k, rows in of_key(self.shared.all).items():
            values = [row.v for row in rows]
            total = sum(values)
            wanted[k] = len(rows), total, min(values), total / len(rows), rows[-1].n
        rows = MemorySink("sums").rows()
        assert {row["k"]: tuple(row.values())[1:] for row in sorted(rows, key=lambda row: row["newest"])} == wanted
        epochs = [self.shared.all[first : first + 60] for first in range(0, len(self.shared.all), 60)]
        assert len(rows) == sum(len({row.k for row in epoch}) for epoch in epochs), "one row per key and epoch"
        assert ran.state("sums", "sum_v") == {k: total for k, (_, total, *_) in wanted.items()}
        assert math.fsum(ran.state("sums", "avg_v.sum").values()) == sum(row.v for row in self.shared.all)


class Deduplicated(Part):
    """Duplicates come in other epochs and starts."""

    def build(self, job: StreamJob, start: Start) -> None:
        keyed = self.records(job, start).key_by("k", "sub", order_by=["n"])
        keyed.deduplicate(uid="once").sink_to(MemorySink("once"), uid="once-out")

    def check(self, ran: Ran) -> None:
        first: dict[Any, Record] = {}
        for row in self.shared.all:
            first.setdefault((row.k, row.sub), row)
        assert output("once") == sorted(map(tuple, first.values()))


class TellsTime(KeyedProcessFunction):
    """Emits the event time of each record."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [(ctx.timestamp(), ctx.get_current_key())]


class EventTimesOfRows(Part):
    """An aggregate has the latest event time of its key's records in the epoch; a first record has its own."""

    def build(self, job: StreamJob, start: Start) -> None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(60)).with_timestamp_column("n")
        stream = self.records(job, start).assign_timestamps_and_watermarks(strategy).where("k is not null")
        once = stream.key_by("k", "sub", order_by=["n"]).deduplicate(uid="timed-once")
        sums = once.key_by("k").aggregate({"records": Aggregate.count()}, uid="timed-sums")
        for uid, rows in (("of-once", once), ("of-sums", sums)):
            told = rows.key_by("k").process(TellsTime(), "at bigint, k string", uid=uid)
            told.sink_to(MemorySink(uid), uid=f"{uid}-out")

    def check(self, ran: Ran) -> None:
        first: dict[Any, Record] = {}
        for row in self.shared.all:
            if row.k is not None:
                first.setdefault((row.k, row.sub), row)
        assert output("of-once") == sorted((row.n, row.k) for row in first.values())
        latest: dict[Any, int] = {}
        for row in first.values():
            epoch = row.n // 60
            latest[epoch, row.k] = max(row.n, latest.get((epoch, row.k), 0))
        assert output("of-sums") == sorted((at, k) for (_, k), at in latest.items())


def known(rows: Iterable[dict[str, Any]]) -> dict[Any, tuple[Any, ...]]:
    """Returns the rows that a reader of the changes has at the end, by the first column."""
    held: dict[Any, tuple[Any, ...]] = {}
    for row in rows:
        key, *results, op = row.values()
        if op[0] == "-":
            assert held.pop(key) == tuple(results)
        else:
            assert key not in held
            held[key] = tuple(results)
    return held


class CountedWhereItIs(Part):
    """A changelog that is aggregated by another key.

    For the newest records of all keys: their number per `sub`, and their sum, mean, minimum and latest value.
    """

    def build(self, job: StreamJob, start: Start) -> None:
        newest = self.records(job, start).key_by("k").latest(by="n", changelog=True, uid="newest")
        numbers = {
            "keys": Aggregate.count(), "total": Aggregate.sum("v"), "mean": Aggregate.avg("v"),
            "least": Aggregate.min("v"), "latest": Aggregate.max("n"),
        }  # fmt: skip
        moves = newest.key_by("sub").aggregate(numbers, retract=True, uid="by-sub")
        moves.sink_to(MemorySink("moves"), uid="moves-out")

    def check(self, ran: Ran) -> None:
        newest = {row.k: row for row in self.shared.all}
        of_sub: dict[str, list[Record]] = defaultdict(list)
        for row in newest.values():
            of_sub[row.sub].append(row)
        wanted: dict[Any, tuple[Any, ...]] = {}
        for sub, rows in of_sub.items():
            values = [row.v for row in rows]
            total = sum(values)
            wanted[sub] = len(rows), total, total / len(rows), min(values), max(row.n for row in rows)
        assert known(MemorySink("moves").rows()) == wanted


LOWER, UPPER = -10, 15


class Joined(Part):
    """Orders and shipments, by event time: each record is one of them, some are both. They end with the input."""

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        super().__init__(spark, folder, shared)
        self.folders = Folders(folder, 2)

    def add(self, start: Start) -> None:
        """Adds files with 40 more milliseconds each."""
        for _ in range(start.files):
            first = 1 + max((row.n for row in self.folders.all), default=-1)
            numbers = range(first, first + 40)
            rows = [Record(n, None if n % 13 == 0 else f"k{n * 7 % 5}", f"s{n % 3}", n) for n in numbers]
            self.folders.inputs[0].add([row for row in rows if row.n % 3])
            self.folders.inputs[1].add([row for row in rows if row.n % 4 in (0, 1)])

    def streams(self, job: StreamJob, start: Start) -> list[Any]:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
        orders, shipments = (
            job.from_stream(source.stream(self.spark), bounded=start.ends).assign_timestamps_and_watermarks(strategy)
            for source in self.folders.inputs
        )
        return [
            orders.select("k", "sub", "n as ordered").key_by("k"),
            shipments.select("n as sent", "k as of").key_by("of"),
        ]


class IntervalJoin(Joined):
    def build(self, job: StreamJob, start: Start) -> None:
        orders, shipments = self.streams(job, start)
        near = orders.interval_join(shipments).between(Time.milliseconds(LOWER), Time.milliseconds(UPPER))
        near.join("left", uid="near").sink_to(MemorySink("near"), uid="near-out")

    def check(self, ran: Ran) -> None:
        orders, shipments = (source.all for source in self.folders.inputs)
        names = {row.n: (row.k, row.sub) for row in orders}
        rows = MemorySink("near").rows()
        assert all(names[row["ordered"]] == (row["k"], row["sub"]) for row in rows)
        pairs = {
            (one.n, other.n)
            for one in orders
            for other in shipments
            if one.k is not None and one.k == other.k and one.n + LOWER <= other.n <= one.n + UPPER
        }
        found = Counter((row["ordered"], row["sent"]) for row in rows)
        assert {pair for pair in found if None not in pair} == pairs
        if ran.start.ends:
            alone = [(row.n, None) for row in orders if row.n not in {one for one, _ in pairs}]
            assert found == Counter([*pairs, *alone])
            assert not ran.state("near", "left"), "nothing is left of what is over"


class TemporalJoin(Joined):
    def build(self, job: StreamJob, start: Start) -> None:
        orders, versions = self.streams(job, start)
        joined = orders.temporal_join(versions, "left", uid="versioned")
        joined.sink_to(MemorySink("versioned"), uid="versioned-out")

    def check(self, ran: Ran) -> None:
        rows = [tuple(row.values()) for row in MemorySink("versioned").rows()]
        assert rows
        if not ran.start.ends:
            return
        orders, versions = (source.all for source in self.folders.inputs)
        wanted = []
        for order in orders:
            valid = [v.n for v in versions if v.k == order.k and v.k is not None and v.n <= order.n]
            wanted.append((order.k, order.sub, order.n, max(valid, default=None)))
        assert Counter(rows) == Counter(wanted)
        kept = ran.state("versioned", "versions")  # fails if a key has more than one
        newest_of = {row.k: row.n for row in sorted(versions) if row.k is not None}
        assert {key: version["at"] for key, version in kept.items()} == newest_of
