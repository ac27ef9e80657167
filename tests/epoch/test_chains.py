"""Acks of operators that share a task: all links are one attempt, and each reads the subtask with its own number."""

from collections.abc import Callable
from typing import Any

import pytest

from state_engine.epoch.acks import (
    Acknowledged,
    Alignment,
    Answer,
    acknowledge,
    barriers_of_chain,
    digest_of_attempts,
)
from state_engine.epoch.ports import EpochPlan, OperatorPlan, StreamEdge
from state_engine.epoch.watermarks import advance
from state_engine.log.barriers import Barrier, SeenAll
from state_engine.log.records import Ack, Failure

P = 3
FRONT = OperatorPlan(uid="front", parallelism=P, max_parallelism=8)


def operator(uid: str, upstream: str, *, chained: bool = True) -> OperatorPlan:
    return OperatorPlan(
        uid=uid, parallelism=P, max_parallelism=8, edges=(StreamEdge(upstream=upstream, chained=chained),)
    )


A = operator("a", "front", chained=False)
B, C = operator("b", "a"), operator("c", "b")
LAST = operator("last", "c", chained=False)
OPERATORS = (FRONT, A, B, C, LAST)
PLANS = {op.uid: op for op in OPERATORS}
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
    operators=OPERATORS,
)


def ack(uid: str, subtask: int, attempt: str, failure: Failure | None = None) -> Ack:
    return Ack(uid=uid, subtask=subtask, attempt=attempt, records_in=0, records_out=0, failure=failure)


def chain_of(alignment: Alignment, attempt: str, failures: dict[str, Failure]) -> tuple[Barrier, ...]:
    acks = [ack(uid, alignment.subtask, attempt, failures.get(uid)) for uid in "abc"]
    return barriers_of_chain(alignment, acks, PLANS, P)


def play(
    attempt: Callable[[int, int], str] = lambda chain, last: f"chain{chain}",
    front: Callable[[int, int], str] = lambda front, chain: f"front{front}",
    failures: dict[str, Failure] | None = None,
) -> list[Barrier]:
    """Runs `front`, the chain of `a`, `b` and `c`, and `last`.

    Args:
        attempt: The attempt of a subtask of the chain that a subtask of `last` reads.
        front: The attempt of a subtask of `front` that a subtask of the chain reads.
        failures: The failures of operators of the chain, in subtask 1.
    """
    ends = []
    for last in range(P):
        aligned = Alignment("last", last, [C])
        for chain in range(P):
            reads = Alignment("a", chain, [FRONT])
            for n in range(P):
                source = Alignment("front", n).barriers(ack("front", n, front(n, chain)), P)
                reads.add(source[min(chain, 1)])
            barriers = chain_of(reads, attempt(chain, last), failures or {} if chain == 1 else {})
            aligned.add(barriers[last])
        ends += aligned.barriers(ack("last", last, f"last{last}"))
    return ends


def test_one_consistent_set_holds_an_ack_of_every_link() -> None:
    decision = acknowledge(PLAN, play())
    assert decision.answer is Answer.SUCCESS
    assert decision.acks.keys() == PLANS.keys()
    for uid in "abc":
        assert [found.attempt for found in decision.acks[uid]] == ["chain0", "chain1", "chain2"]


def test_full_barriers_name_what_each_link_has_seen() -> None:
    reads = Alignment("a", 2, [FRONT])
    for n in range(P):
        reads.add(Barrier(uid="front", subtask=n, attempt=f"front{n}"))
    full, *slim = chain_of(reads, "x", {})
    assert [(a.uid, a.subtask, a.attempt) for a in full.acks] == [(uid, 2, "x") for uid in "abc"]
    read = [("front", "a", ["front0", "front1", "front2"]), ("a", "b", ["x"]), ("b", "c", ["x"])]
    assert full.seen == ()
    assert [*full.seen_all] == [
        SeenAll(uid=up, by_uid=by, by_subtask=2, digest=digest_of_attempts(attempts)) for up, by, attempts in read
    ]
    assert slim == [Barrier(uid="c", subtask=2, attempt="x")] * 2


def test_a_chained_subtask_is_aligned_with_the_upstream_one_alone() -> None:
    alignment = Alignment("b", 1, [A], chained=True)
    assert alignment.missing == (("a", 1),)
    alignment.add(Barrier(uid="a", subtask=1, attempt="x"))
    assert alignment.aligned


@pytest.mark.parametrize("again", range(P))
def test_two_attempts_of_a_chain_are_inconsistent_whichever_subtask_reads_the_second(again: int) -> None:
    barriers = play(attempt=lambda chain, last: f"chain{chain}" + ("-again" if (chain, last) == (1, again) else ""))
    decision = acknowledge(PLAN, barriers)
    assert decision.answer is Answer.INCONSISTENT
    assert decision.reason == (
        f"Subtask {again or 1} of operator 'last' has read another attempt of operator 'c' than the one whose ack came."
    )


def test_two_attempts_upstream_of_a_chain_are_inconsistent() -> None:
    decision = acknowledge(PLAN, play(front=lambda n, chain: f"front{n}" + ("-again" if (n, chain) == (0, 2) else "")))
    assert decision.answer is Answer.INCONSISTENT
    assert decision.reason == (
        "Subtask 2 of operator 'a' has read another attempt of operator 'front' than the one whose ack came."
    )


def without(uid: str, subtask: int) -> list[Barrier]:
    return [
        Barrier(
            uid=one.uid,
            subtask=one.subtask,
            attempt=one.attempt,
            acks=tuple(a for a in one.acks if (a.uid, a.subtask) != (uid, subtask)),
            seen_all=one.seen_all,
        )
        for one in play()
    ]


@pytest.mark.parametrize("uid", ["a", "b", "c"])
def test_a_missing_ack_of_a_link_is_missed(uid: str) -> None:
    decision = acknowledge(PLAN, without(uid, 1))
    assert decision.answer is Answer.MISSING
    assert decision.reason == f"There is no ack of subtask 1 of operator {uid!r}."


def test_links_of_different_attempts_are_no_chain() -> None:
    changed = [
        Barrier(
            uid=one.uid,
            subtask=one.subtask,
            attempt=one.attempt,
            acks=tuple(ack("b", 1, "other") if (a.uid, a.subtask) == ("b", 1) else a for a in one.acks),
            seen_all=one.seen_all,
        )
        for one in play()
    ]
    decision = acknowledge(PLAN, changed)
    assert decision.answer is Answer.INCONSISTENT
    assert decision.reason == "Subtask 1 of operators 'a' and 'b' is one task, but not one attempt."


def test_the_failure_of_a_link_is_named_and_not_what_followed_from_it() -> None:
    def failure(kind: Any, uid: str) -> Failure:
        return Failure(kind=kind, uid=uid, subtask=1, message=uid)

    found: Acknowledged = acknowledge(
        PLAN,
        play(failures={"a": failure("poison", "a"), "b": failure("user_function", "b"), "c": failure("poison", "c")}),
    )
    assert found.answer is Answer.FAILURE
    assert found.failure == failure("user_function", "b")


def test_a_chain_passes_watermarks_as_exchanges_do() -> None:
    ordered = OperatorPlan(uid="a", parallelism=P, max_parallelism=8, edges=(StreamEdge(out_of_orderness=10),))
    exchanged = operator("b", "a", chained=False)
    began = {"a": 100, "b": 50}
    assert advance([ordered, B], began, {}, {}, 0, 0) == advance([ordered, exchanged], began, {}, {}, 0, 0)
    assert advance([ordered, B], began, {}, {}, 0, 0).watermarks["b"] == 99
