"""Decides when savepoints are taken automatically, and how close to each other. Pure."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, NamedTuple

from state_engine.checkpoint.retention.policy import POLICY
from state_engine.errors import JobDefinitionError

GIB = 1 << 30
MOST_PARTITIONS = 6_250
"""Of the savepoints of a stream: each has 16 partitions of restored state, and Dagster recommends at most 100,000."""

Trigger = Literal[
    "on_new_code_version", "failures_in_a_row", "growth_percent", "every_n_checkpoints", "before_rescale", "cron"
]


def trigger_of_policy(trigger: Trigger) -> str:
    """Returns the trigger that is recorded in a savepoint of a policy: retention may remove such a savepoint."""
    return f"{POLICY}{trigger}"


class Newest(NamedTuple):
    """The newest savepoint of a stream, no matter who took it.

    `checkpoint_id` is that of the newest completed checkpoint at that time, 0 without one. `state_bytes` is the size of
    its state. `code_version` is null if it is not known.
    """

    taken_at_ms: int
    duration_ms: int = 0
    checkpoint_id: int = 0
    state_bytes: int = 0
    code_version: str | None = None


class Look(NamedTuple):
    """The facts that a policy decides by.

    Attributes:
        now_ms: The current time.
        checkpoint_id: Of the newest completed checkpoint; 0 without one.
        state_bytes: Size of its state.
        failed_at_ms: The times at which later checkpoints failed, newest first.
        code_version: Of the job's code that would be started now; null if it is not known.
        known_version: The code version that was seen last; null if none was.
        partitions: How many savepoints Dagster has.
        newest: The newest savepoint.
    """

    now_ms: int
    checkpoint_id: int = 0
    state_bytes: int = 0
    failed_at_ms: tuple[int, ...] = ()
    code_version: str | None = None
    known_version: str | None = None
    partitions: int = 0
    newest: Newest | None = None


class Decision(NamedTuple):
    """What to do, and why. Without a trigger no savepoint is taken."""

    trigger: Trigger | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Spacing:
    """Minimum time between two savepoints: the largest of three times, but never more than `at_most`.

    A savepoint keeps up to the size of the state on disk, and its validation reads that much. So large states get fewer
    savepoints. Savepoints that take long fill no more than a share of the time.

    Attributes:
        at_least: First of the three times; it does not depend on the state.
        per_gib: Second one: multiplied by the GiB of the state.
        busy_percent: Third one: the duration of the last savepoint, multiplied by `100 / busy_percent`.
        at_most: Upper limit for any state.
    """

    at_least: timedelta = timedelta(seconds=30)
    per_gib: timedelta = timedelta(minutes=1)
    busy_percent: float = 10.0
    at_most: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        if min(self.at_least, self.per_gib, self.at_most) < timedelta(0) or not 0 < self.busy_percent <= 100:
            raise JobDefinitionError(
                f"{self} is not a valid spacing of savepoints.",
                action="Give times that are not negative, and a busy_percent above 0 and up to 100.",
            )

    def minimum(self, state_bytes: int, last_duration_ms: int) -> timedelta:
        """Returns the minimum time between the beginnings of two savepoints.

        Args:
            state_bytes: Size of the state.
            last_duration_ms: How long the last savepoint took.
        """
        by_size = self.per_gib * (state_bytes / GIB)
        by_time = timedelta(milliseconds=last_duration_ms) * (100 / self.busy_percent)
        return min(self.at_most, max(self.at_least, by_size, by_time))


@dataclass(frozen=True, kw_only=True)
class SavepointPolicy:
    """When savepoints of a stream are taken automatically. By default never. Users can take them at any time.

    Attributes:
        every_n_checkpoints: When the id of the newest completed checkpoint is this much higher than at the newest
            savepoint; ids of failed checkpoints count.
        growth_percent: When the state has grown by more than this percentage since the newest savepoint.
        on_new_code_version: When the code that would be started now has changed, so that a savepoint of the old code's
            state exists when the new code is deployed.
        failures_in_a_row: When this number of checkpoints failed since the last completed one; once per series of
            failures.
        before_rescale: A run of `<job>/rescaled_state` takes one first.
        record_taken_elsewhere: Savepoints that the command line, REST or the job took become partitions: a run for each
            reads and checks it.
        cron: At these times; a savepoint is requested within a minute of each.
        timezone: Of `cron`, such as `Europe/Berlin`.
        kind: Kind of the savepoints that are taken automatically.
        directory: Where these are stored: a path or address; by default below the job's root.
        look_every: Time between two looks at the triggers, and between two looks for savepoints taken elsewhere.
        spacing: Minimum time between savepoints. A policy takes none earlier; a user gets one, with a warning.
        max_partitions: Maximum number of savepoints of the stream in Dagster; a tenth of it is reserved for users. At
            most 6,250.
    """

    every_n_checkpoints: int | None = None
    growth_percent: float | None = None
    on_new_code_version: bool = False
    failures_in_a_row: int | None = None
    before_rescale: bool = False
    record_taken_elsewhere: bool = False
    cron: str | None = None
    timezone: str = "UTC"
    kind: Literal["native", "canonical"] = "native"
    directory: str | None = None
    look_every: timedelta = timedelta(seconds=30)
    spacing: Spacing = field(default_factory=Spacing)
    max_partitions: int = 1_000

    def __post_init__(self) -> None:
        counts = (self.every_n_checkpoints, self.failures_in_a_row, self.growth_percent, self.max_partitions)
        if any(one is not None and one <= 0 for one in counts):
            raise JobDefinitionError(
                "A savepoint policy has a number that is not above 0.", action="Use None for a trigger not wanted."
            )
        if self.max_partitions > MOST_PARTITIONS:
            raise JobDefinitionError(
                f"max_partitions is {self.max_partitions:,}. Each savepoint has 16 partitions of restored state, and "
                f"more than {MOST_PARTITIONS:,} savepoints exceed the 100,000 partitions per asset that Dagster "
                "recommends at most.",
                action=f"Set max_partitions to {MOST_PARTITIONS:,} or less, and let retention remove savepoints.",
            )

    @property
    def looks(self) -> bool:
        """Whether any of the triggers has to be checked regularly."""
        return self.on_new_code_version or any((self.every_n_checkpoints, self.growth_percent, self.failures_in_a_row))

    def decide(self, look: Look) -> Decision:
        """Decides whether one of the regularly checked triggers wants a savepoint, and whether that is allowed now."""
        due = self._new_code(look) or self._failures(look) or self._growth(look) or self._number(look)
        return self.allow(due, look) if due is not None else Decision(None, "No trigger asks for a savepoint.")

    def allow(self, due: Decision, look: Look) -> Decision:
        """Returns the given decision to take a savepoint, or one not to take it, with the reason."""
        objection = self.too_many(look.partitions, by_policy=True) or self.too_soon(look)
        return due if objection is None else Decision(None, f"{due.reason} {objection}")

    def too_soon(self, look: Look) -> str | None:
        """Returns why the newest savepoint is too recent for another one; null if it is not."""
        if look.newest is None:
            return None
        state_bytes = look.state_bytes or look.newest.state_bytes
        least = self.spacing.minimum(state_bytes, look.newest.duration_ms)
        age = timedelta(milliseconds=max(0, look.now_ms - look.newest.taken_at_ms))
        if age >= least:
            return None
        return (
            f"The newest savepoint is {_seconds(age)} old; for a state of {state_bytes:,} bytes the minimum is "
            f"{_seconds(least)} between savepoints."
        )

    def too_many(self, partitions: int, *, by_policy: bool) -> str | None:
        """Returns why no further savepoint is allowed; null if one is.

        Args:
            partitions: How many savepoints exist.
            by_policy: Whether a policy wants it. A tenth of the limit is reserved for users.
        """
        limit = self.max_partitions - self.max_partitions // 10 if by_policy else self.max_partitions
        if partitions < limit:
            return None
        return f"Dagster has {partitions:,} savepoints of this stream; the limit is {limit:,}."

    def _new_code(self, look: Look) -> Decision | None:
        last, now = look.known_version, look.code_version
        if not self.on_new_code_version or last is None or now is None or last == now:
            return None
        return Decision("on_new_code_version", f"The code version was {last}, and is now {now}.")

    def _failures(self, look: Look) -> Decision | None:
        limit = self.failures_in_a_row
        if limit is None or len(look.failed_at_ms) < limit:
            return None
        since = look.failed_at_ms[-limit]  # the failure with which the limit was reached
        if look.newest is not None and look.newest.taken_at_ms >= since:
            return None
        return Decision("failures_in_a_row", f"{len(look.failed_at_ms)} checkpoints in a row have failed.")

    def _growth(self, look: Look) -> Decision | None:
        if self.growth_percent is None or not look.state_bytes:
            return None
        if look.newest is None:
            return Decision("growth_percent", "There is no savepoint yet to compare the size of the state with.")
        before = look.newest.state_bytes
        if look.state_bytes <= before * (1 + self.growth_percent / 100):
            return None
        return Decision("growth_percent", f"The state has grown from {before:,} to {look.state_bytes:,} bytes.")

    def _number(self, look: Look) -> Decision | None:
        before = look.newest.checkpoint_id if look.newest is not None else 0
        if self.every_n_checkpoints is None or look.checkpoint_id - before < self.every_n_checkpoints:
            return None
        return Decision("every_n_checkpoints", f"{look.checkpoint_id - before} checkpoints since the newest savepoint.")


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():,.0f} s"


__all__ = [
    "Decision",
    "Look",
    "Newest",
    "SavepointPolicy",
    "Spacing",
    "Trigger",
    "trigger_of_policy",
]
