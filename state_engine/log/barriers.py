"""Barriers: what subtasks hand on at the end of an epoch's output. They live for that epoch and are nowhere durable."""

from state_engine.log.records import Ack
from state_engine.serialization.column import Record


class SeenAll(Record, frozen=True, kw_only=True):
    """A downstream subtask has read exactly one attempt of each subtask of operator `uid` that feeds it.

    `digest` is `digest_of_attempts` of these attempts in subtask order. It stands for as many `Seen`, so that what the
    driver collects grows with the number of subtasks and not with its square.
    """

    uid: str
    by_uid: str
    by_subtask: int
    digest: str


class Seen(Record, frozen=True, kw_only=True):
    """A downstream subtask has read this attempt of an upstream subtask, and not exactly one of each (`SeenAll`)."""

    uid: str
    subtask: int
    attempt: str
    by_uid: str
    by_subtask: int


class Barrier(Record, frozen=True, kw_only=True):
    """The mark after the last record of an epoch; full to downstream subtask 0 and to the driver, slim to others.

    `incarnation` and `epoch` name the plan of the attempt; without them a barrier fits any plan.
    """

    uid: str
    subtask: int
    attempt: str
    acks: tuple[Ack, ...] = ()
    seen: tuple[Seen, ...] = ()
    seen_all: tuple[SeenAll, ...] = ()
    incarnation: str = ""
    epoch: int = 0


__all__ = ["Barrier", "Seen", "SeenAll"]
