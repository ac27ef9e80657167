"""Operators with several downstream operators, and several last operators: an ack comes several times, counts once.

```
 first ┬─> left ──┬─> meet (last)
       ├─> right ─┘
       └─> aside (last)
```
"""

import pytest
from msgspec.structs import replace

from state_engine.epoch.acks import Acknowledged, Alignment, Answer, acknowledge
from state_engine.epoch.ports import EpochPlan, OperatorPlan, StreamEdge
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack, Failure

FED = {"first": (), "left": ("first",), "right": ("first",), "aside": ("first",), "meet": ("left", "right")}
OPERATORS = tuple(
    OperatorPlan(
        uid=uid,
        parallelism=2,
        max_parallelism=8,
        edges=tuple(StreamEdge(upstream=one, input=n) for n, one in enumerate(upstream, 1)) or (StreamEdge(),),
    )
    for uid, upstream in FED.items()
)
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
LAST = ("aside", "meet")
Reads = dict[tuple[str, int, str, int], str]


class Play:
    """One try at PLAN.

    Args:
        reads: Which attempt of an upstream subtask a downstream subtask reads, if not attempt 1.
        mapped: By upstream and downstream operator: what a `map` between them does to the barriers that pass.
    """

    def __init__(self, reads: Reads | None = None, mapped: dict[tuple[str, str], Failure] | None = None) -> None:
        self.reads = reads or {}
        self.mapped = mapped or {}
        self.left: dict[tuple[str, int, str], tuple[Barrier, ...]] = {}

    def run(self) -> list[Barrier]:
        for operator in OPERATORS:
            for subtask in range(operator.parallelism):
                alignment = Alignment(operator.uid, subtask, [o for o in OPERATORS if o.uid in operator.upstream])
                for uid in operator.upstream:
                    for number in range(2):
                        alignment.add(self.read(uid, number, operator.uid, subtask))
                assert alignment.aligned
                for attempt in "12":
                    ack = Ack(
                        uid=operator.uid, subtask=subtask, attempt=f"{attempt}", records_in=0, records_out=subtask
                    )
                    self.left[operator.uid, subtask, attempt] = alignment.barriers(ack, 2)
        return [self.left[uid, subtask, "1"][0] for uid in LAST for subtask in range(2)]

    def read(self, uid: str, number: int, by: str, subtask: int) -> Barrier:
        barrier = self.left[uid, number, self.reads.get((uid, number, by, subtask), "1")][subtask]
        failure = self.mapped.get((uid, by))
        acks = [replace(ack, failure=failure) if failure and ack.uid == uid else ack for ack in barrier.acks]
        return replace(barrier, acks=tuple(acks))

    def decide(self) -> Acknowledged:
        return acknowledge(PLAN, self.run())


def test_an_ack_by_several_ways_counts_once() -> None:
    decision = Play().decide()
    assert decision.answer is Answer.SUCCESS
    assert {uid: [ack.records_out for ack in acks] for uid, acks in decision.acks.items()} == {
        uid: [0, 1] for uid in FED
    }


@pytest.mark.parametrize("reader", [("left", 0), ("left", 1), ("right", 0), ("aside", 0), ("aside", 1)])
def test_two_readers_of_two_attempts_are_inconsistent(reader: tuple[str, int]) -> None:
    decision = Play({("first", 1, *reader): "2"}).decide()
    assert decision.answer is Answer.INCONSISTENT
    uid, subtask = reader
    assert decision.reason == (
        f"Subtask 1 of operator {uid!r} has read another attempt of operator 'first' than the one whose ack came."
        if subtask == 1
        else "Attempts 1, 2 of subtask 1 of operator 'first' were both read."
    )


def test_a_second_attempt_that_every_reader_has_read_is_fine() -> None:
    readers = [(uid, n) for uid in ("left", "right", "aside") for n in range(2)]
    decision = Play({("first", 0, *reader): "2" for reader in readers}).decide()
    assert decision.answer is Answer.SUCCESS
    assert decision.acks["first"][0].attempt == "2"


@pytest.mark.parametrize(("end", "missing"), [("aside", "aside"), ("meet", "left")])
def test_an_end_that_says_nothing_is_missing_and_so_is_what_only_it_has_read(end: str, missing: str) -> None:
    decision = acknowledge(PLAN, [barrier for barrier in Play().run() if barrier.uid != end])
    assert decision.answer is Answer.MISSING
    assert decision.reason == f"There is no ack of subtask 0 of operator {missing!r}."


@pytest.mark.parametrize("reader", ["left", "right", "aside"])
def test_a_failure_that_comes_by_one_way_only_is_reported(reader: str) -> None:
    """A `map` before one reader puts the failure into the upstream operator's ack; on other ways that ack is clean."""
    failure = Failure(kind="user_function", uid="first", subtask=0, message="the map broke")
    decision = Play(mapped={("first", reader): failure}).decide()
    assert (decision.answer, decision.failure) == (Answer.FAILURE, failure)
    assert acknowledge(PLAN, Play(mapped={("first", reader): failure}).run()[::-1]).failure == failure
