"""Chains, and streams that several operators read."""

from typing import Any

from branches import Branches, add_branches, check_state, expected, times_of
from chained import add_chain, assert_all
from support import (
    COUNTS,
    NEGATIVE,
    TALLY,
    Count,
    Outputs,
    Tally,
    assert_tally,
    table_rows,
    truth,
)

from state_engine.api import CoMapFunction
from state_engine.spark import DeltaSink, MemorySink, StreamJob

from .part import Part, Ran, Start, output


class Chains(Part):
    """Operators that share tasks, have tasks of their own at the second start, and reuse objects at the third."""

    def build(self, job: StreamJob, start: Start) -> None:
        add_chain(self.records(job, start).where("k is not null"), "chain", reuse=start.number == 2)

    def check(self, ran: Ran) -> None:
        assert_all(ran.root, ran.name, [row for row in self.shared.all if row.k is not None], "chain")


class BranchesThatMeet(Part):
    """Operators that several others read, with a state of every shape; three of their outputs are Delta tables."""

    @property
    def tables(self) -> Outputs:
        return Outputs(*(str(self.folder / name) for name in Outputs._fields))

    def build(self, job: StreamJob, start: Start) -> None:
        def sink(output: str) -> Any:
            path = getattr(self.tables, output, None)
            return DeltaSink(path) if path else MemorySink(f"branch-{output}")

        add_branches(self.records(job, start), sink)

    def check(self, ran: Ran) -> None:
        assert_tally(ran.root, ran.name, self.tables, self.shared.all)
        in_memory = {of: output(f"branch-{of}") for of in ("often", "losses", "met")}
        in_tables = {of: table_rows(path) for of, path in self.tables._asdict().items()}
        assert Branches(**in_memory, **in_tables) == expected(self.shared.all)
        check_state(ran.root, ran.name, self.shared.all)


class Sides(CoMapFunction):
    """Shows by which input a record came."""

    def map1(self, value: Any) -> Any:
        return (value.n, "main")

    def map2(self, value: Any) -> Any:
        return (value.n, "aside")


class AStreamAndItself(Part):
    """An operator's output is connected with its side output, and united with itself."""

    def build(self, job: StreamJob, start: Start) -> None:
        keyed = self.records(job, start).key_by("k", order_by=["n"])
        tally = keyed.process(Tally(), TALLY, uid="tally-of-itself")
        met = tally.connect(tally.get_side_output(NEGATIVE)).map(Sides(), "n bigint, side string", uid="met-aside")
        met.sink_to(MemorySink("met-aside"), uid="met-aside-out")
        twice = tally.select("n", "k").union(tally.where("times > 2").select("n", "k"))
        again = twice.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="again")
        again.sink_to(MemorySink("again"), uid="again-out")

    def check(self, ran: Ran) -> None:
        wanted = truth(self.shared.all)
        sides = [(n, "main") for n, *_ in wanted.tally] + [(n, "aside") for n, *_ in wanted.negative]
        assert output("met-aside") == sorted(sides)
        rows = [(n, k) for n, k, _, times, *_ in wanted.tally for _ in range(1 + (times > 2))]
        assert output("again") == times_of(rows)


class ASideOutputAlone(Part):
    """There is no further exchange: the tasks of the first operator write the side output."""

    def build(self, job: StreamJob, start: Start) -> None:
        keyed = self.records(job, start).key_by("k", order_by=["n"])
        tally = keyed.process(Tally(), TALLY, uid="tally-aside")
        tally.sink_to(MemorySink("aside-main"), uid="aside-main")
        losses = tally.get_side_output(NEGATIVE).key_by("k", order_by=["n"])
        losses.process(Count(), COUNTS, uid="aside-losses").sink_to(MemorySink("aside-losses"), uid="aside-losses-out")

    def check(self, ran: Ran) -> None:
        wanted = expected(self.shared.all)
        assert output("aside-main") == wanted.tally
        assert output("aside-losses") == wanted.losses
