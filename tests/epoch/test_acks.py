"""Rule R: the driver seals only if all downstream subtasks name the same attempt of each upstream subtask."""

from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.epoch.acks import Acknowledged, Alignment, Answer, acknowledge, digest_of_attempts
from state_engine.epoch.ports import EpochPlan, OperatorPlan, StreamEdge
from state_engine.log.barriers import Barrier, Seen, SeenAll
from state_engine.log.records import Ack, Failure

A = OperatorPlan(uid="a", parallelism=2, max_parallelism=8)
B = OperatorPlan(uid="b", parallelism=3, max_parallelism=8, edges=(StreamEdge(upstream="a"),))
C = OperatorPlan(uid="c", parallelism=2, max_parallelism=8, edges=(StreamEdge(upstream="b"),))


def plan_of(*operators: OperatorPlan) -> EpochPlan:
    return EpochPlan(
        job="j",
        root="r",
        generation=1,
        epoch=5,
        incarnation="i",
        predecessor="p",
        predecessor_epoch=4,
        predecessor_generation=1,
        processing_time=0,
        operators=operators,
    )


PLAN = plan_of(A, B, C)


def ack(uid: str, subtask: int, attempt: str = "1", **fields: Any) -> Ack:
    return Ack(uid=uid, subtask=subtask, attempt=f"{uid}{subtask}-{attempt}", records_in=0, records_out=0, **fields)


def play(
    reads: dict[tuple[str, int, int], str] | None = None, plan: EpochPlan = PLAN, **failures: Failure
) -> list[Barrier]:
    """Runs a plan's operators. `reads` says which attempt of (upstream, its subtask) a subtask reads, if not 1."""
    reads = reads or {}
    plans = {op.uid: op for op in plan.operators}
    consumers = {uid: op.parallelism for op in plan.operators for uid in op.upstream}
    sent: dict[str, list[list[Barrier]]] = {}
    for op in plan.operators:
        following = consumers.get(op.uid, 1)
        leaving: list[list[Barrier]] = [[] for _ in range(following)]
        for subtask in range(op.parallelism):
            alignment = Alignment(op.uid, subtask, [plans[uid] for uid in op.upstream])
            for uid in op.upstream:
                for barrier in sent[uid][subtask]:
                    alignment.add(barrier)
            assert alignment.aligned
            failure = failures.get(f"{op.uid}{subtask}")
            for n in range(following):
                attempt = reads.get((op.uid, subtask, n), "1")
                mine = alignment.barriers(ack(op.uid, subtask, attempt, failure=failure), following)
                leaving[n].append(mine[n])
        sent[op.uid] = leaving
    return sent[plan.operators[-1].uid][0]


def decide(barriers: list[Barrier]) -> Acknowledged:
    return acknowledge(PLAN, barriers)


def test_one_attempt_of_each_is_a_success() -> None:
    decision = decide(list(reversed(play())))
    assert decision.answer is Answer.SUCCESS
    assert {uid: [one.subtask for one in acks] for uid, acks in decision.acks.items()} == {
        "a": [0, 1],
        "b": [0, 1, 2],
        "c": [0, 1],
    }
    assert decision.acks["b"][2].attempt == "b2-1"


def test_the_same_barrier_twice_is_one_barrier() -> None:
    barriers = play()
    assert decide(barriers + barriers) == decide(barriers)


@pytest.mark.parametrize("uid", ["a", "b"])
@pytest.mark.parametrize("subtask", [0, 1])
@pytest.mark.parametrize("reader", [0, 1])
def test_two_downstream_subtasks_that_read_two_attempts_are_inconsistent(uid: str, subtask: int, reader: int) -> None:
    decision = decide(play({(uid, subtask, reader): "2"}))
    assert decision.answer is Answer.INCONSISTENT
    # acks come through subtask 0, so it is always subtask 1 that differs from them
    by = {"a": "b", "b": "c"}[uid]
    assert decision.reason == (
        f"Subtask 1 of operator {by!r} has read another attempt of operator {uid!r} than the one whose ack came."
    )
    assert not decision.acks


def test_all_downstream_subtasks_on_the_second_attempt_are_consistent() -> None:
    decision = decide(play({("a", 1, n): "2" for n in range(3)}))
    assert decision.answer is Answer.SUCCESS
    assert decision.acks["a"][1].attempt == "a1-2"


def test_one_subtask_that_read_two_attempts_does_not_hide_it() -> None:
    alignment = Alignment("b", 0, [A])
    for attempt in ("1", "1", "2"):
        alignment.add(Barrier(uid="a", subtask=0, attempt=attempt))
    assert alignment.missing == (("a", 1),)
    assert not alignment.aligned
    assert [one.attempt for one in alignment.seen] == ["1", "2"]
    alignment.add(Barrier(uid="a", subtask=1, attempt="1"))
    assert alignment.aligned
    assert [(one.subtask, one.attempt) for one in alignment.seen] == [(0, "1"), (0, "2"), (1, "1")]
    assert alignment.seen_all == ()


def test_one_attempt_of_each_upstream_subtask_is_told_by_one_digest() -> None:
    alignment = Alignment("b", 2, [A])
    for subtask, attempt in ((1, "y"), (0, "x"), (1, "y")):
        alignment.add(Barrier(uid="a", subtask=subtask, attempt=attempt))
    assert alignment.seen == ()
    assert alignment.seen_all == (SeenAll(uid="a", by_uid="b", by_subtask=2, digest=digest_of_attempts(["x", "y"])),)
    assert len({digest_of_attempts(attempts) for attempts in (["x", "y"], ["y", "x"], ["xy"], ["x"], [])}) == 5


@pytest.mark.parametrize("parallelism", [1, 4, 16])
def test_what_reaches_the_driver_grows_with_the_number_of_subtasks_and_not_with_its_square(parallelism: int) -> None:
    operators = tuple(replace(op, parallelism=parallelism, max_parallelism=16) for op in (A, B, C))
    barriers = play(plan=plan_of(*operators))
    acks = [len(barrier.acks) for barrier in barriers]
    assert acks == [3 * parallelism - (parallelism - 1), *([1] * (parallelism - 1))]
    assert sum(len(barrier.seen) + len(barrier.seen_all) for barrier in barriers) == 2 * parallelism
    assert acknowledge(plan_of(*operators), barriers).answer is Answer.SUCCESS


def test_two_attempts_of_the_last_operator_are_inconsistent() -> None:
    barriers = play()
    other = replace(barriers[1], attempt="c1-2", acks=(ack("c", 1, "2"),))
    decision = decide([*barriers, other])
    assert decision.answer is Answer.INCONSISTENT
    assert decision.reason == "Attempts c1-1, c1-2 of subtask 1 of operator 'c' were both read."


def of(place: tuple[str, int], attempt: str = "1") -> Barrier:
    [barrier] = Alignment("a", 0, place=place).barriers(ack("a", 0, attempt))
    return barrier


ALONE = plan_of(OperatorPlan(uid="a", parallelism=1, max_parallelism=8))
OTHER_PLACES = [("i", 4), ("i", 6), ("another", 5)]


@pytest.mark.parametrize("place", OTHER_PLACES)
def test_an_ack_of_another_epoch_or_driver_is_passed_over(place: tuple[str, int]) -> None:
    late, right = of(place, "late"), of(("i", 5))
    assert acknowledge(ALONE, [late]).answer is Answer.MISSING
    decision = acknowledge(ALONE, [late, right, late])
    assert decision == Acknowledged(Answer.SUCCESS, {"a": (ack("a", 0),)})


@pytest.mark.parametrize("place", OTHER_PLACES)
def test_a_subtask_passes_over_a_barrier_of_another_epoch_or_driver(place: tuple[str, int]) -> None:
    alignment = Alignment("b", 0, [ALONE.operators[0]], place=("i", 5))
    alignment.add(of(place, "late"))
    assert (alignment.aligned, alignment.seen) == (False, ())
    alignment.add(of(("i", 5)))
    assert alignment.aligned
    assert [seen.digest for seen in alignment.seen_all] == [digest_of_attempts(["a0-1"])]


def test_a_barrier_names_the_plan_that_its_attempt_was_given() -> None:
    for barrier in Alignment("a", 0, place=("i", 5)).barriers(ack("a", 0), 3):
        assert (barrier.incarnation, barrier.epoch) == ("i", 5)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_barrier_is_missing(lost: int) -> None:
    barriers = play()
    del barriers[lost]
    decision = decide(barriers)
    assert decision.answer is Answer.MISSING
    assert "no ack of subtask" in decision.reason


def test_nothing_at_all_is_missing() -> None:
    assert decide([]).answer is Answer.MISSING


def test_a_subtask_that_did_not_read_all_of_its_upstream_is_missing() -> None:
    first, second = play()
    assert [(one.uid, one.by_subtask) for one in second.seen_all] == [("b", 1)]
    seen = tuple(Seen(uid="b", subtask=n, attempt=f"b{n}-1", by_uid="c", by_subtask=1) for n in range(2))
    blind = replace(second, seen_all=(), seen=seen)
    decision = decide([first, blind])
    assert decision.answer is Answer.MISSING
    assert decision.reason == "Subtask 1 of operator 'c' holds no barrier of 'b', subtask 2."


def test_a_subtask_beyond_the_plan_is_inconsistent() -> None:
    stale = Seen(uid="b", subtask=7, attempt="x", by_uid="c", by_subtask=0)
    barriers = [*play(), Barrier(uid="c", subtask=0, attempt="c0-1", seen=(stale,))]
    assert decide(barriers).answer is Answer.INCONSISTENT


def failure(kind: Any, uid: str) -> Failure:
    return Failure(kind=kind, uid=uid, subtask=0, message=f"{kind} in {uid}")


def test_a_failure_travels_as_data_and_the_one_nearest_to_the_source_is_reported() -> None:
    decision = decide(play(b2=failure("user_function", "b"), c0=failure("output_type", "c"), a0=failure("poison", "a")))
    assert decision.answer is Answer.FAILURE
    assert decision.failure == failure("user_function", "b")


def test_poison_alone_is_reported_too() -> None:
    assert decide(play(c1=failure("poison", "c"))).reason == "poison in c"


def test_a_barrier_from_elsewhere_is_a_broken_route() -> None:
    with pytest.raises(ValueError, match="does not feed"):
        Alignment("b", 0, [A]).add(Barrier(uid="c", subtask=0, attempt="1"))
    with pytest.raises(ValueError, match="does not feed"):
        Alignment("a", 0).add(Barrier(uid="a", subtask=0, attempt="1"))


def test_a_job_without_operators_has_nothing_to_wait_for() -> None:
    assert acknowledge(plan_of(), []) == Acknowledged(Answer.SUCCESS, {})
