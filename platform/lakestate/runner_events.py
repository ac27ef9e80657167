"""The events by which a runner reports on its job: one JSON object per line, with its type in `event`.

A reader must skip lines that it cannot read, so that events can be added.
"""

import msgspec

from lakestate.plain_json import encode_plain
from state_engine.causes import LONGEST_CAUSE, LONGEST_REPORT, message_of
from state_engine.errors import LakestateError
from state_engine.text import UNDECODABLE, shorten


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events."""


class Started(Event, frozen=True, tag="started"):
    """The query runs. `epoch` is the newest sealed one, which is the claim of this start."""

    job: str
    generation: int
    epoch: int


class EpochSealed(Event, frozen=True, tag="epoch"):
    """An epoch is sealed and its output committed.

    `keys` and `state_rows` are sums over all operators as of the epoch before. `spark_jobs` counts since the start.
    """

    epoch: int
    records: int
    seconds: float
    keys: int
    state_rows: int
    spark_jobs: int


class CheckpointCompleted(Event, frozen=True, tag="checkpoint"):
    """The state up to `epoch` is in the state tables."""

    checkpoint_id: int
    epoch: int


class Finished(Event, frozen=True, tag="finished"):
    """The job ended as requested: the input is exhausted (`available_now`), or it was told to stop.

    `by_signal` is true if a signal ended the process, such as at the shutdown of the machine. It is false if the job
    itself ended, on a user's request or with its input.
    """

    stopped: bool
    epoch: int
    spark_jobs: int
    by_signal: bool = False


class Failed(Event, frozen=True, tag="failed"):
    """The job, or its start, failed. `error` is the name of the error's class."""

    error: str
    message: str
    action: str


AnyEvent = Started | EpochSealed | CheckpointCompleted | Finished | Failed

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def failed(error: BaseException) -> Failed:
    """Returns the event for a job, or a start, that failed with an exception of any type and message."""
    action = error.action if isinstance(error, LakestateError) else "Look at the log of the runner."
    return Failed(
        error=type(error).__name__,
        message=shorten(message_of(error), LONGEST_REPORT),
        action=shorten(action, LONGEST_CAUSE),
    )


def encode_event(event: AnyEvent) -> bytes:
    """Returns the event as a line."""
    return encode_plain(event) + b"\n"


def decode_event(line: bytes) -> AnyEvent | None:
    """Returns the event of a line; None if this release knows no such event."""
    try:
        return _decoder.decode(line)
    except UNDECODABLE:
        return None


__all__ = [
    "AnyEvent",
    "CheckpointCompleted",
    "EpochSealed",
    "Event",
    "Failed",
    "Finished",
    "Started",
    "decode_event",
    "encode_event",
    "failed",
]
