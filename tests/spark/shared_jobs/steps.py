"""Broadcast streams, and steps between operators."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from branches import times_of
from support import COUNTS, Count, Folders, Input, counted

from state_engine.api import CoProcessFunction, ProcessFunction
from state_engine.spark import MemorySink, StreamJob

from .part import Part, Ran, Start, output

SEEN = "n bigint, side string, subtask bigint"


class Where(ProcessFunction):
    """Emits which subtask processes a record."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, "only", self.subtask


class WhereOfTwo(CoProcessFunction):
    """The same, for two inputs."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, "one", self.subtask

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.number, "two", self.subtask


class Broadcasts(Part):
    """Each record goes to every subtask of the next operator: of a union, of an operator, of one of two inputs."""

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        super().__init__(spark, folder, shared)
        self.folders = Folders(folder, 2)
        self.copies: dict[int, int] = {}  # of a record: how many subtasks get it

    def add(self, start: Start) -> None:
        before = len(self.folders.all)
        self.folders.add(*[max(1, 2 - start.number)] * 2)
        self.copies |= dict.fromkeys(range(before, len(self.folders.all)), start.parallelism)

    def build(self, job: StreamJob, start: Start) -> None:
        def streams() -> Iterator[Any]:
            return (job.from_stream(source.stream(self.spark), bounded=start.ends) for source in self.folders.inputs)

        one, two = streams()
        everywhere = one.select("n", "k").union(two.where("v > 0").select("n", "k")).broadcast()
        seen = everywhere.process(Where(), SEEN, uid="everywhere")
        seen.sink_to(MemorySink("everywhere"), uid="everywhere-out")
        again = seen.where("subtask = 0").broadcast().select("n").process(Where(), SEEN, uid="everywhere-again")
        again.sink_to(MemorySink("everywhere-again"), uid="everywhere-again-out")
        one, two = streams()
        both = one.connect(two.select("n as number", "v").broadcast()).process(WhereOfTwo(), SEEN, uid="one-of-two")
        both.sink_to(MemorySink("one-of-two"), uid="one-of-two-out")
        one = next(streams())
        keyed = one.broadcast().key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="taken-back")
        keyed.sink_to(MemorySink("taken-back"), uid="taken-back-out")

    def check(self, ran: Ran) -> None:
        if ran.start.restore:  # what came after the first epoch was read again
            first = {row.n for source in self.folders.inputs for row in source.all[:20]}
            self.copies |= {n: ran.start.parallelism for n in self.copies if n not in first}
        first, second = (source.all for source in self.folders.inputs)
        numbers = sorted([row.n for row in first] + [row.n for row in second if row.v > 0])
        wanted = [(n, "only", subtask) for n in numbers for subtask in range(self.copies[n])]
        assert output("everywhere") == output("everywhere-again") == wanted
        rows = output("one-of-two")
        assert [row[0] for row in rows if row[1] == "one"] == [row.n for row in first]
        assert [row for row in rows if row[1] == "two"] == [
            (row.n, "two", subtask) for row in second for subtask in range(self.copies[row.n])
        ]
        assert output("taken-back") == counted(first), "a key takes it back"


class Between(Part):
    """Steps between two operators, before the first one, and a condition that lets nothing through."""

    def build(self, job: StreamJob, start: Start) -> None:
        first = self.records(job, start).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="before-steps")
        steps = (
            first.where("times % 2 = 0")
            .with_column("half", "times div 2")
            .select("n", "half", "concat('h', half % 3) as k")
            .map(lambda row: (row.n, row.k.upper(), row.half + 1), "n bigint, k string, half bigint")
            .where("k <> 'H9'")
        )
        between = steps.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="behind-steps")
        between.sink_to(MemorySink("between"), uid="between-out")
        front = self.records(job, start).where("v > 50").with_column("k", "sub").select("n", "k")
        front.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="front").sink_to(
            MemorySink("front"), uid="front-out"
        )
        dammed = first.where("times is null").map(lambda row: row, COUNTS).key_by("k")
        dammed.process(Count(), COUNTS, uid="dammed").sink_to(MemorySink("dammed"), uid="dammed-out")

    def check(self, ran: Ran) -> None:
        evens = [(n, f"H{times // 2 % 3}") for n, _, times in counted(self.shared.all) if times % 2 == 0]
        assert output("between") == times_of(evens)
        assert output("front") == counted(row._replace(k=row.sub) for row in self.shared.all if row.v > 50)
        assert output("dammed") == []
        assert len(ran.manifest.operators["dammed"].acks) == ran.start.parallelism
