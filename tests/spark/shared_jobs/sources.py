"""Unions, and sources that are read twice, are of several kinds, or have nothing at first."""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from deltalake import write_deltalake
from support import COUNTS, Count, Input, Totals, counted

from state_engine.spark import MemorySink, StreamJob

from .part import OfFolders, Part, Ran, Start, output


def check_in_order_of_epochs(ran: Ran, sink: str, uid: str, wanted: list[int]) -> None:
    """Checks that each record comes once, and is counted after earlier epochs; the sources decide which those are."""
    epochs = list(MemorySink(sink).epochs.values())
    assert sorted(n for rows in epochs for n in rows["n"].to_pylist()) == wanted
    seen: dict[Any, int] = {}
    for rows in epochs:
        for row in sorted(rows.to_pylist(), key=lambda row: row["n"]):
            seen[row["k"]] = seen.get(row["k"], 0) + 1
            assert row["times"] == seen[row["k"]]
    assert ran.state(uid, "count") == seen


def positions_below(ran: Ran, folder: Path) -> list[str]:
    """Returns the sealed positions of the sources that read below a folder, in the order in which they were added."""
    manifest = ran.manifest
    pairs = zip(manifest.sources, manifest.fingerprints, strict=True)
    return [position.offset for position, fingerprint in pairs if str(folder) in str(fingerprint)]


class UnionOfThree(OfFolders):
    """Before the union each source has another order of columns."""

    files: ClassVar = {0: (2, 2, 1), 1: (0, 1, 1), 2: (1, 0, 1)}

    def build(self, job: StreamJob, start: Start) -> None:
        orders = (("n", "k", "v"), ("v", "n", "k"), ("k", "sub", "v", "n"))
        streams = zip(self.streams(job, start), orders, strict=True)
        first, *others = [stream.select(*order).select("n", "k", "v") for stream, order in streams]
        united = first.union(*others).where("v > -100").key_by("k", order_by=["n"])
        united.process(Count(), COUNTS, uid="united").sink_to(MemorySink("united"), uid="united-out")

    def check(self, ran: Ran) -> None:
        check_in_order_of_epochs(ran, "united", "united", [row.n for row in self.folders.all])
        assert len(positions_below(ran, self.folder)) == 3


class NothingAtFirst(OfFolders):
    """One of two sources has no file at the first start, and no position."""

    files: ClassVar = {0: (1, 0), 1: (0, 1), 2: (1, 1)}

    def build(self, job: StreamJob, start: Start) -> None:
        one, two = self.streams(job, start)
        both = one.union(two).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="late-source")
        both.sink_to(MemorySink("late-source"), uid="late-source-out")

    def check(self, ran: Ran) -> None:
        check_in_order_of_epochs(ran, "late-source", "late-source", [row.n for row in self.folders.all])
        first, second = positions_below(ran, self.folder)
        if ran.start.number == 0:
            assert (first, second) == ('{"logOffset":0}', "-")
        assert (second == "-") == (ran.start.number == 0)


class ReadTwice(Part):
    """One folder that is read twice is two sources."""

    def build(self, job: StreamJob, start: Start) -> None:
        again = self.records(job, start).select("n + 100000 as n", "k", "sub", "v")
        both = self.records(job, start).union(again).key_by("k", order_by=["n"])
        both.process(Count(), COUNTS, uid="read-twice").sink_to(MemorySink("read-twice"), uid="read-twice-out")

    def check(self, ran: Ran) -> None:
        wanted = sorted(row.n + more for row in self.shared.all for more in (0, 100000))
        check_in_order_of_epochs(ran, "read-twice", "read-twice", wanted)


SUMMED = "n bigint, sub string, times bigint"


class UnitedWithAnOperator(OfFolders):
    """Counts source 0, and sums the counts, source 1 and source 2 by `sub`."""

    files: ClassVar = {0: (1, 2, 2), 1: (1, 0, 1), 2: (1, 1, 0)}

    def build(self, job: StreamJob, start: Start) -> None:
        first, second, third = self.streams(job, start)
        counts = first.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="level-counts")
        counts.sink_to(MemorySink("level-counts"), uid="level-counts-out")
        others = second.select("n", "sub", "v as times").union(third.where("v > 10").select("n", "sub", "v as times"))
        both = counts.map(lambda row: (row.n, f"s{row.n % 5}", row.times), SUMMED).union(others).where("n % 3 <> 1")
        totals = both.key_by("sub", order_by=["n"])
        totals.process(Totals(), "n bigint, sub string, total bigint", uid="level-totals").sink_to(
            MemorySink("level-totals"), uid="level-totals-out"
        )

    def check(self, ran: Ran) -> None:
        first, second, third = (source.all for source in self.folders.inputs)
        counts = counted(first)
        assert output("level-counts") == counts
        summed = [(n, f"s{n % 5}", times) for n, _, times in counts]
        summed += [(row.n, row.sub, row.v) for row in second]
        summed += [(row.n, row.sub, row.v) for row in third if row.v > 10]
        summed = [row for row in summed if row[0] % 3 != 1]
        assert [row[:2] for row in output("level-totals")] == [row[:2] for row in sorted(summed)]
        totals: dict[str, int] = {}
        for _, sub, times in summed:
            totals[sub] = totals.get(sub, 0) + times
        assert ran.state("level-totals", "total", key="sub") == totals
        assert ran.state("level-counts", "count") == {k: times for _, k, times in counts}


class SeveralKinds(OfFolders):
    """Folders of files and a Delta table in one union."""

    files: ClassVar = {0: (1, 1), 1: (0, 1), 2: (1, 0)}

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        super().__init__(spark, folder, shared)
        self.table = str(folder / "table")
        self.written: list[int] = []

    def add(self, start: Start) -> None:
        super().add(start)
        rows = [{"n": 100_000 + len(self.written) + i, "k": f"k{i % 5}"} for i in range(10)]
        write_deltalake(self.table, pa.Table.from_pylist(rows), mode="append")
        self.written.extend(row["n"] for row in rows)

    def build(self, job: StreamJob, start: Start) -> None:
        one, two = (source.stream(self.spark) for source in self.folders.inputs)
        table = self.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(self.table)
        files = job.from_stream(one, bounded=start.ends).select("n", "k")
        delta = job.from_stream(table, bounded=start.ends)
        others = job.from_stream(two, bounded=start.ends).select("n", "k")
        counts = files.union(delta, others).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="kinds")
        counts.sink_to(MemorySink("kinds"), uid="kinds-out")

    def check(self, ran: Ran) -> None:
        check_in_order_of_epochs(ran, "kinds", "kinds", sorted([*(row.n for row in self.folders.all), *self.written]))
        kinds = [one.kind.lower() for one in ran.manifest.fingerprints if str(self.folder) in str(one)]
        found = [next(name for name in ("delta", "parquet") if name in kind) for kind in kinds]
        assert found == ["parquet", "delta", "parquet"]
