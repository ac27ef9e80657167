"""Decides how much of a job's history is kept. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from state_engine.checkpoint.table import CheckpointRow
from state_engine.errors import JobDefinitionError
from state_engine.log.lineage import contains
from state_engine.log.records import Manifest

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
_MONDAY_MS = 3 * DAY_MS  # 1 January 1970 was a Thursday

GRACE_MS = 600_000
"""How long condemned files stay by default: ten minutes."""

UNFINISHED_MS = DAY_MS
"""How long a canonical savepoint may take to be written; after that, what is left of an unfinished one is deleted."""

POLICY = "policy:"
"""Prefix of the trigger of a savepoint that a policy made, such as `policy:nightly`."""


def made_by_policy(trigger: str) -> bool:
    """Returns whether a policy may remove a savepoint: only one that a policy made, never one of a user."""
    return trigger.startswith(POLICY)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Selects which of a series of points in time are kept: all that any of the rules keeps.

    Attributes:
        last: Keeps the newest `last` ones.
        for_ms: Keeps those of the last `for_ms` milliseconds.
        hourly: Keeps the newest one of each of the newest `hourly` hours (UTC) that have any.
        daily: The same for days.
        weekly: The same for weeks, from Monday.
    """

    last: int = 1
    for_ms: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0

    def __post_init__(self) -> None:
        if min(self.last, self.for_ms, self.hourly, self.daily, self.weekly) < 0:
            raise JobDefinitionError(f"{self} has a negative number.", action="Use 0 for a rule that is not wanted.")

    def recent(self, times_ms: Sequence[int], now_ms: int) -> set[int]:
        """Returns the indices that `last` and `for_ms` keep; a later index is newer, whatever the clock said."""
        count = len(times_ms)
        last = set(range(max(0, count - self.last), count))
        return last | {n for n in range(count) if self.for_ms and times_ms[n] > now_ms - self.for_ms}

    def sparse(self, times_ms: Sequence[int]) -> set[int]:
        """Returns the indices that the rules per hour, day and week keep."""
        indices: set[int] = set()
        rules = ((self.hourly, HOUR_MS, 0), (self.daily, DAY_MS, 0), (self.weekly, WEEK_MS, _MONDAY_MS))
        for count, length, offset in rules:
            buckets: dict[int, int] = {}
            for n in reversed(range(len(times_ms))):
                if len(buckets) < count:
                    buckets.setdefault((times_ms[n] + offset) // length, n)
            indices |= set(buckets.values())
        return indices


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """What retention keeps of one job.

    Take the oldest checkpoint that `checkpoints.last` or `checkpoints.for_ms` keeps: every epoch from there on can be
    restored. Of the checkpoints per hour, day and week only the checkpoints themselves can be restored.

    Attributes:
        checkpoints: Completed checkpoints; at least the newest one always stays (Flink's
            `state.checkpoints.num-retained` is `last`). None keeps them all, and every epoch.
        savepoints: Savepoints that a policy made (`made_by_policy`); None keeps them all. Other savepoints always stay.
        pinned_labels: Labels, or patterns such as `before-*`, of savepoints that stay whatever the rules say; these do
            not count for the rules.
        strays: Whether to delete files of epochs that stay if no manifest and no checkpoint names them: those of
            attempts that died. To find them, all manifests are read.
        grace_ms: Files are deleted no earlier than this long after they were condemned.
    """

    checkpoints: Keep | None = Keep(last=1)
    savepoints: Keep | None = None
    pinned_labels: tuple[str, ...] = ()
    strays: bool = False
    grace_ms: int = GRACE_MS

    def __post_init__(self) -> None:
        if self.checkpoints is not None and self.checkpoints.last < 1:
            raise JobDefinitionError(
                "A retention policy keeps no checkpoint at all.", action="Set checkpoints.last to 1 or more."
            )
        if self.grace_ms < 0:
            raise JobDefinitionError("The grace time of a retention policy is negative.", action="Use 0 or more.")

    @property
    def rules(self) -> frozenset[str]:
        """The rules by which files are deleted, namely `checkpoints`, `savepoints`, `strays`."""
        enabled = {
            "checkpoints": self.checkpoints is not None,
            "savepoints": self.savepoints is not None,
            "strays": self.strays,
        }
        return frozenset(rule for rule, is_enabled in enabled.items() if is_enabled)

    def pins(self, label: str) -> bool:
        """Returns whether a savepoint with this label stays whatever the rules say."""
        return any(fnmatchcase(label, pattern) for pattern in self.pinned_labels)


class Retained(NamedTuple):
    """Which completed checkpoints stay.

    From `start` on every epoch of the current lineage stays, and so do the checkpoints among them (`recent`, `start`
    included). `start` is None when there is no checkpoint to begin with. `others` stay without the epochs around them.
    """

    start: CheckpointRow | None
    recent: tuple[CheckpointRow, ...]
    others: tuple[CheckpointRow, ...]


def retained_checkpoints(
    policy: RetentionPolicy, rows: Iterable[CheckpointRow], head: Manifest, now_ms: int
) -> Retained:
    """Decides which checkpoints stay.

    Checkpoints of epochs that a restore abandoned stay as long as they are newer than `start`: until `last` newer ones
    have completed, or longer because of `for_ms`. So a restore that was a mistake can be undone.

    Args:
        policy: What to keep.
        rows: Completed checkpoints with manifests that exist.
        head: The newest sealed epoch.
        now_ms: The present.
    """
    by_id = sorted(rows, key=lambda row: row.checkpoint_id or 0)
    current = [r for r in by_id if r.epoch <= head.epoch and contains(head.lineage, r.generation, r.epoch)]
    if policy.checkpoints is None or not current:
        return Retained(None, (), tuple(by_id))
    times = [row.completed_at for row in current]
    recent = policy.checkpoints.recent(times, now_ms)
    start = current[min(recent)]
    sparse = [current[n] for n in sorted(policy.checkpoints.sparse(times)) if n < min(recent)]
    on_lineage = {(row.generation, row.epoch) for row in current}
    abandoned = [
        row
        for row in by_id
        if (row.generation, row.epoch) not in on_lineage and (row.checkpoint_id or 0) > (start.checkpoint_id or 0)
    ]
    return Retained(start, tuple(current[min(recent) :]), (*sparse, *abandoned))


def expendable_savepoints(policy: RetentionPolicy, rows: Iterable[CheckpointRow], now_ms: int) -> set[str]:
    """Returns the ids of the savepoints that the policy does not keep.

    Args:
        policy: What to keep.
        rows: Rows of completed savepoints that exist.
        now_ms: The present.
    """
    if policy.savepoints is None:
        return set()
    ruled = (row for row in rows if made_by_policy(row.trigger) and not policy.pins(row.label))
    candidates = sorted(ruled, key=lambda row: (row.completed_at, row.id))
    times = [row.completed_at for row in candidates]
    kept = policy.savepoints.recent(times, now_ms) | policy.savepoints.sparse(times)
    return {row.id for n, row in enumerate(candidates) if n not in kept}


__all__ = [
    "DAY_MS",
    "GRACE_MS",
    "HOUR_MS",
    "POLICY",
    "UNFINISHED_MS",
    "WEEK_MS",
    "Keep",
    "Retained",
    "RetentionPolicy",
    "expendable_savepoints",
    "made_by_policy",
    "retained_checkpoints",
]
