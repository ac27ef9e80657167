"""Operators that several others feed: alignment over all of them, and mixed attempts on either edge."""

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from state_engine.epoch.acks import Acknowledged, Alignment, Answer, acknowledge
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan, StreamEdge
from state_engine.log.barriers import Barrier, Seen
from state_engine.log.records import Ack, Failure
from state_engine.testing.simulated import Faults
from state_engine.testing.simulator import Simulation, request

MAX = 8
A = OperatorPlan(uid="a", parallelism=2, max_parallelism=MAX)
B = OperatorPlan(uid="b", parallelism=3, max_parallelism=MAX)
JOIN = OperatorPlan(
    uid="join",
    parallelism=2,
    max_parallelism=MAX,
    edges=(StreamEdge(upstream="a", input=1), StreamEdge(upstream="b", input=2), StreamEdge(input=2)),
)
LAST = OperatorPlan(uid="last", parallelism=4, max_parallelism=MAX, edges=(StreamEdge(upstream="join"),))
PLAN = EpochPlan(
    job="j",
    root="r",
    generation=1,
    epoch=5,
    incarnation="i",
    predecessor="p",
    predecessor_epoch=4,
    predecessor_generation=1,
    processing_time=0,
    operators=(A, B, JOIN, LAST),
)


class Play:
    """One try at PLAN. `reads` says which attempt of (upstream, its subtask) a subtask reads, if not 1."""

    def __init__(self, reads: dict[tuple[str, int, int], str] | None = None, **failures: Failure) -> None:
        self.reads = reads or {}
        self.failures = failures

    def run(self) -> list[Barrier]:
        a, b = list(self.operate(A, [], JOIN.parallelism)), list(self.operate(B, [], JOIN.parallelism))
        joined = list(self.operate(JOIN, [*a, *b], LAST.parallelism))
        return [one[0] for one in self.operate(LAST, joined, 1)]

    def operate(self, op: OperatorPlan, arriving: list[list[Barrier]], following: int) -> Iterator[list[Barrier]]:
        """Yields what each subtask hands on: its barriers, one per downstream subtask."""
        plans = {one.uid: one for one in PLAN.operators}
        for subtask in range(op.parallelism):
            alignment = Alignment(op.uid, subtask, [plans[uid] for uid in op.upstream])
            for barriers in arriving:
                alignment.add(barriers[subtask])
            assert alignment.aligned
            attempts = [self.reads.get((op.uid, subtask, n), "1") for n in range(following)]
            yield [alignment.barriers(self.ack(op, subtask, one), following)[n] for n, one in enumerate(attempts)]

    def ack(self, op: OperatorPlan, subtask: int, attempt: str) -> Ack:
        return Ack(
            uid=op.uid,
            subtask=subtask,
            attempt=f"{op.uid}{subtask}-{attempt}",
            records_in=0,
            records_out=0,
            failure=self.failures.get(f"{op.uid}{subtask}"),
        )

    def decide(self) -> Acknowledged:
        return acknowledge(PLAN, self.run())


def test_sources_are_no_upstream_operator() -> None:
    assert A.upstream == ()
    assert JOIN.upstream == ("a", "b")


def test_acks_of_both_branches_reach_the_driver() -> None:
    decision = Play().decide()
    assert decision.answer is Answer.SUCCESS
    assert {uid: len(acks) for uid, acks in decision.acks.items()} == {"a": 2, "b": 3, "join": 2, "last": 4}


@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize(("uid", "subtask"), [("a", 0), ("a", 1), ("b", 0), ("b", 2)])
def test_two_attempts_on_either_edge_are_inconsistent(uid: str, subtask: int, reader: int) -> None:
    decision = Play({(uid, subtask, reader): "2"}).decide()
    assert decision.answer is Answer.INCONSISTENT
    assert decision.reason == (
        f"Subtask 1 of operator 'join' has read another attempt of operator {uid!r} than the one whose ack came."
    )


def test_a_second_attempt_that_everybody_read_is_fine_on_one_edge_and_on_both() -> None:
    everybody = {("a", 0, n): "2" for n in range(JOIN.parallelism)}
    assert Play(everybody).decide().answer is Answer.SUCCESS
    both = everybody | {("b", 2, n): "2" for n in range(JOIN.parallelism)}
    assert Play(both).decide().acks["b"][2].attempt == "b2-2"


def test_alignment_waits_for_every_subtask_of_both() -> None:
    alignment = Alignment("join", 0, [A, B])
    for uid, subtask in (("b", 0), ("a", 1), ("b", 2)):
        alignment.add(Barrier(uid=uid, subtask=subtask, attempt="1"))
    assert alignment.missing == (("a", 0), ("b", 1))
    alignment.add(Barrier(uid="a", subtask=0, attempt="1"))
    alignment.add(Barrier(uid="b", subtask=1, attempt="1"))
    assert alignment.aligned
    assert [(one.uid, one.by_uid, one.by_subtask) for one in alignment.seen_all] == [("a", "join", 0), ("b", "join", 0)]


@pytest.mark.parametrize(("uid", "subtask"), [("a", 1), ("b", 2)])
def test_who_read_only_one_of_both_is_missing_the_other(uid: str, subtask: int) -> None:
    barriers = [
        replace(
            one,
            seen_all=tuple(seen for seen in one.seen_all if (seen.uid, seen.by_subtask) != (uid, 1)),
            seen=tuple(
                Seen(uid=uid, subtask=n, attempt=f"{uid}{n}-1", by_uid="join", by_subtask=1)
                for n in range({"a": 2, "b": 3}[uid])
                if n != subtask
            ),
        )
        for one in Play().run()
    ]
    decision = acknowledge(PLAN, barriers)
    assert decision.answer is Answer.MISSING
    assert decision.reason == f"Subtask 1 of operator 'join' holds no barrier of {uid!r}, subtask {subtask}."


@pytest.mark.parametrize("where", ["a1", "b2"])
def test_a_failure_on_either_edge_is_reported_and_not_what_it_poisoned(where: str) -> None:
    cause = Failure(kind="user_function", uid=where[0], subtask=int(where[1]), message="it broke")
    poison = Failure(kind="poison", uid="join", subtask=0, message="it broke")
    assert Play(**{where: cause}, join0=poison, join1=poison).decide().failure == cause


CONNECTED = [(2, 3, 2), (1, 2, 4), (3, 1, 3)]


@pytest.mark.parametrize("epoch", [4, 5])  # attempts of `count` are mixed in even epochs, of `odd` in odd ones
@pytest.mark.parametrize("parallelism", CONNECTED, ids=str)
def test_a_mixed_epoch_runs_again_as_a_whole(parallelism: tuple[int, int, int], epoch: int) -> None:
    simulation = Simulation(parallelism=parallelism)
    assert simulation.finish(Faults(mixed={epoch})) == 1
    simulation.verify()
    subtasks, epochs = sum(parallelism), simulation.head.manifest.epoch - 1
    tried_once_more = subtasks + 1  # plus the attempt that was read besides the first one
    assert simulation.world.reached[CrashPoint.E5_ACKED] == subtasks * epochs + tried_once_more


@pytest.mark.parametrize("point", CrashPoint, ids=lambda point: point.name)
def test_a_crash_at_every_point_changes_no_result(point: CrashPoint) -> None:
    simulation = Simulation(parallelism=(2, 3, 2))
    faults = Faults(crashes=[(point, 4), (point, None)])
    simulation.finish(faults)
    simulation.verify()
    target = simulation.world.log.read(1, 5)
    simulation.finish(faults, simulation.restore(target, (1, 2, 4)))
    simulation.verify()
    assert not [one for one in faults.crashes if one[1] is None]


def test_every_start_may_have_other_parallelisms() -> None:
    simulation = Simulation(parallelism=CONNECTED[0])
    choice = random.Random(1)
    for number in range(8):
        simulation.start(request(parallelism=CONNECTED[number % 3])).step()
        simulation.start(request(parallelism=choice.choice(CONNECTED))).idle()
        simulation.verify()
