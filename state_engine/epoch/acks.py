"""Barriers and acks (E5, E6): alignment in a downstream subtask, and the driver's decision.

Every upstream subtask ends its output with one barrier per downstream subtask. The driver seals only if all downstream
subtasks name the same attempt of each upstream subtask. Files on disk prove nothing: an ack reaches the driver only
inside barriers, through the subtasks that have read its output. If several operators read one operator, its ack comes
through each of them, and counts once.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import xxhash
from msgspec.structs import replace

from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.log.barriers import Barrier, Seen, SeenAll
from state_engine.log.records import Ack, Failure

Acks = dict[tuple[str, int, str], Ack]
"""Acks by operator, subtask and attempt."""


Place = tuple[str, int]
"""Incarnation and epoch of a plan."""

ANY_PLACE: Place = ("", 0)


class Alignment:
    """Collects the upstream barriers of one downstream subtask in one epoch (E5).

    Nothing is dropped: a second attempt of one upstream subtask is kept and appears in `seen`, so that the driver can
    refuse the epoch. The same barrier twice is one barrier. An operator that only sources feed is aligned from the
    start.

    Args:
        uid: Operator of the downstream subtask.
        subtask: Its number.
        upstream: The operators that feed it, through any of its inputs.
        chained: Whether it reads only the upstream subtask with its own number, in one task with it.
        place: Incarnation and epoch of the plan. A barrier of another plan is ignored: it comes late.
    """

    def __init__(
        self,
        uid: str,
        subtask: int,
        upstream: Sequence[OperatorPlan] = (),
        *,
        chained: bool = False,
        place: Place = ANY_PLACE,
    ) -> None:
        self.uid = uid
        self.subtask = subtask
        self.place = place
        self._expected = {op.uid: (subtask,) if chained else range(op.parallelism) for op in upstream}
        self._attempts: dict[tuple[str, int, str], None] = {}
        self._acks: Acks = {}
        self._carried_seen: dict[Seen, None] = {}
        self._carried_seen_all: dict[SeenAll, None] = {}

    def add(self, barrier: Barrier) -> None:
        """Takes one barrier.

        Raises:
            ValueError: The barrier is not from an operator that feeds this one; the routing is broken.
        """
        if barrier.uid not in self._expected:
            raise ValueError(f"A barrier of operator {barrier.uid!r} reached {self.uid!r}, which it does not feed.")
        if not _is_of(barrier, self.place):
            return
        self._attempts[barrier.uid, barrier.subtask, barrier.attempt] = None
        _collect(self._acks, barrier.acks)
        self._carried_seen.update(dict.fromkeys(barrier.seen))
        self._carried_seen_all.update(dict.fromkeys(barrier.seen_all))

    @property
    def missing(self) -> tuple[tuple[str, int], ...]:
        """Upstream subtasks without a barrier: their operator and number, in order."""
        present = {(uid, subtask) for uid, subtask, _ in self._attempts}
        expected = ((uid, n) for uid, subtasks in self._expected.items() for n in subtasks)
        return tuple(one for one in expected if one not in present)

    @property
    def aligned(self) -> bool:
        """Whether a barrier of every subtask of every upstream operator has arrived."""
        return not self.missing

    @property
    def seen(self) -> tuple[Seen, ...]:
        """Every attempt that this subtask has read of operators that `seen_all` does not name, in order."""
        whole = {one.uid for one in self.seen_all}
        return tuple(
            Seen(uid=uid, subtask=subtask, attempt=attempt, by_uid=self.uid, by_subtask=self.subtask)
            for uid, subtask, attempt in sorted(self._attempts)
            if uid not in whole
        )

    @property
    def seen_all(self) -> tuple[SeenAll, ...]:
        """The upstream operators of which this subtask has read exactly one attempt of each subtask."""
        read: dict[str, list[tuple[int, str]]] = {uid: [] for uid in self._expected}
        for uid, subtask, attempt in sorted(self._attempts):
            read[uid].append((subtask, attempt))
        return tuple(
            SeenAll(
                uid=uid,
                by_uid=self.uid,
                by_subtask=self.subtask,
                digest=digest_of_attempts(attempt for _, attempt in read[uid]),
            )
            for uid, subtasks in self._expected.items()
            if [subtask for subtask, _ in read[uid]] == list(subtasks)
        )

    def barriers(self, ack: Ack, downstream: int = 1) -> tuple[Barrier, ...]:
        """Returns the barriers that end this subtask's own output, one per downstream subtask.

        The first one, to downstream subtask 0 or to the driver, is full: it carries this subtask's ack, what it has
        seen, and all that reached it from the upstream operators. The others only name the attempt.

        Args:
            ack: What this attempt did.
            downstream: Parallelism of the next operator; 1 after the last operator, where the driver listens.
        """
        full = Barrier(
            uid=self.uid,
            subtask=self.subtask,
            attempt=ack.attempt,
            acks=(*self._acks.values(), ack),
            seen=(*self._carried_seen, *self.seen),
            seen_all=(*self._carried_seen_all, *self.seen_all),
            incarnation=self.place[0],
            epoch=self.place[1],
        )
        slim = replace(full, acks=(), seen=(), seen_all=())
        return (full, *(slim for _ in range(downstream - 1)))


def barriers_of_chain(
    first: Alignment, acks: Sequence[Ack], plans: Mapping[str, OperatorPlan], downstream: int = 1
) -> tuple[Barrier, ...]:
    """Returns the barriers that end the output of a chain: those of its last operator, which has read all upstream.

    Args:
        first: What the first operator's subtask has read.
        acks: What the attempt did, operator by operator, in the order of the chain.
        plans: The operators of the epoch, by uid.
        downstream: Parallelism of the operator after the chain; 1 where the driver listens.
    """
    alignment = first
    for ack, next_ack in pairwise(acks):
        following = Alignment(next_ack.uid, next_ack.subtask, [plans[ack.uid]], chained=True, place=first.place)
        following.add(alignment.barriers(ack)[0])
        alignment = following
    return alignment.barriers(acks[-1], downstream)


def digest_of_attempts(attempts: Iterable[str]) -> str:
    """Returns what a `SeenAll` says of attempts in subtask order: 32 hex digits."""
    return xxhash.xxh3_128_hexdigest("\n".join(attempts).encode())


def _is_of(barrier: Barrier, place: Place) -> bool:
    """Whether a barrier belongs to a plan: barriers that an earlier epoch or driver sent do not."""
    sent_in = barrier.incarnation, barrier.epoch
    return sent_in == place or ANY_PLACE in (sent_in, place)


class Answer(Enum):
    """What the driver decides about one attempt at an epoch (E6)."""

    SUCCESS = "there is exactly one consistent set of acks"
    INCONSISTENT = "two attempts of one subtask were read; the epoch runs again as a whole"
    MISSING = "a subtask sent no barrier; the epoch runs again as a whole"
    FAILURE = "a subtask reports a failure as data"


class Acknowledged(NamedTuple):
    """The driver's decision. `acks` holds each operator's acks in subtask order, with SUCCESS only."""

    answer: Answer
    acks: dict[str, tuple[Ack, ...]]
    reason: str = ""
    failure: Failure | None = None


def _collect(known: Acks, acks: Iterable[Ack]) -> None:
    """Adds acks. Of two copies of one ack, the one with a failure stays: a `map` on its way may have added it."""
    for ack in acks:
        key = ack.uid, ack.subtask, ack.attempt
        if key not in known or known[key].failure is None:
            known[key] = ack


Attempts = dict[tuple[str, int], set[str]]
Digests = dict[tuple[str, int, str], set[str]]
"""What readers say in `SeenAll`: digests by the reader's operator and subtask, and the operator that it has read."""


def acknowledge(plan: EpochPlan, barriers: Sequence[Barrier]) -> Acknowledged:
    """Decides whether the barriers of the last operators prove one consistent set of acks (E6).

    Args:
        plan: The plan that the tasks were given.
        barriers: All full barriers that reached the driver, in any order; repetitions of one barrier are fine, and
            late ones of other plans are ignored.
    """
    barriers = [barrier for barrier in barriers if _is_of(barrier, (plan.incarnation, plan.epoch))]
    acks: Acks = {}
    for barrier in barriers:
        _collect(acks, barrier.acks)
    if failure := first_failure(plan, acks.values()):
        return Acknowledged(Answer.FAILURE, {}, failure.message, failure)
    attempts: Attempts = {}
    for uid, subtask, attempt in acks:
        attempts.setdefault((uid, subtask), set()).add(attempt)
    for barrier in barriers:
        attempts.setdefault((barrier.uid, barrier.subtask), set()).add(barrier.attempt)
    seen = {seen for barrier in barriers for seen in barrier.seen}
    for seen_attempt in seen:
        attempts.setdefault((seen_attempt.uid, seen_attempt.subtask), set()).add(seen_attempt.attempt)
    digests: Digests = {}
    for barrier in barriers:
        for one in barrier.seen_all:
            digests.setdefault((one.by_uid, one.by_subtask, one.uid), set()).add(one.digest)
    if reason := _inconsistency(plan, attempts):
        return Acknowledged(Answer.INCONSISTENT, {}, reason)
    if reason := _absence(plan, {key[:2] for key in acks}, seen, digests):
        return Acknowledged(Answer.MISSING, {}, reason)
    by_subtask = {(uid, subtask): ack for (uid, subtask, _), ack in acks.items()}
    by_operator = {op.uid: tuple(by_subtask[op.uid, n] for n in range(op.parallelism)) for op in plan.operators}
    if reason := _disagreement(plan, by_operator, digests):
        return Acknowledged(Answer.INCONSISTENT, {}, reason)
    return Acknowledged(Answer.SUCCESS, by_operator)


def first_failure(plan: EpochPlan, acks: Iterable[Ack]) -> Failure | None:
    """Returns the failure nearest to the source; `poison` (a consequence of another one) only if there is no other."""
    order = {op.uid: n for n, op in enumerate(plan.operators)}
    failures = [ack.failure for ack in acks if ack.failure is not None]
    return min(
        failures,
        key=lambda failure: (failure.kind == "poison", order.get(failure.uid, len(order)), failure.subtask),
        default=None,
    )


def _inconsistency(plan: EpochPlan, attempts: Attempts) -> str:
    """Names a subtask of which two attempts were read, or that the plan does not have."""
    parallelism = {op.uid: op.parallelism for op in plan.operators}
    for (uid, subtask), names in sorted(attempts.items()):
        if subtask >= parallelism.get(uid, 0):
            return f"Subtask {subtask} of operator {uid!r} is not part of the plan of epoch {plan.epoch}."
        if len(names) > 1:
            return f"Attempts {', '.join(sorted(names))} of subtask {subtask} of operator {uid!r} were both read."
    return ""


def _absence(plan: EpochPlan, acked: set[tuple[str, int]], seen: set[Seen], digests: Digests) -> str:
    """Names a subtask without an ack, or one that did not read all of its upstream."""
    read = {(one.by_uid, one.by_subtask, one.uid, one.subtask) for one in seen}
    parallelism = {op.uid: op.parallelism for op in plan.operators}
    for op in plan.operators:
        for n in range(op.parallelism):
            if (op.uid, n) not in acked:
                return f"There is no ack of subtask {n} of operator {op.uid!r}."
            for upstream in op.upstream:
                if (op.uid, n, upstream) in digests:
                    continue
                for up in (n,) if op.chained else range(parallelism[upstream]):
                    if (op.uid, n, upstream, up) not in read:
                        return f"Subtask {n} of operator {op.uid!r} holds no barrier of {upstream!r}, subtask {up}."
    return ""


def _disagreement(plan: EpochPlan, acks: Mapping[str, Sequence[Ack]], digests: Digests) -> str:
    """Names a subtask that has read another attempt than the one whose ack came, or whose chain is not one attempt."""
    for op in plan.operators:
        for upstream in op.upstream:
            attempts = [ack.attempt for ack in acks[upstream]]
            of_all = digest_of_attempts(attempts)
            for n in range(op.parallelism):
                if op.chained and acks[op.uid][n].attempt != attempts[n]:
                    return f"Subtask {n} of operators {upstream!r} and {op.uid!r} is one task, but not one attempt."
                right = digest_of_attempts([attempts[n]]) if op.chained else of_all
                if digests.get((op.uid, n, upstream), {right}) != {right}:
                    return (
                        f"Subtask {n} of operator {op.uid!r} has read another attempt of operator {upstream!r} than "
                        "the one whose ack came."
                    )
    return ""


__all__ = [
    "Acknowledged",
    "Alignment",
    "Answer",
    "acknowledge",
    "barriers_of_chain",
    "digest_of_attempts",
    "first_failure",
]
