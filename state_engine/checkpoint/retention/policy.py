"""How much of a job's history is kept. Pure."""

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
"""How long a canonical savepoint may take to be written; what is left of one that died goes then."""

POLICY = "policy:"
"""What the trigger of a savepoint begins with that a policy made, such as `policy:nightly`."""


def made_by_policy(trigger: str) -> bool:
    """Says whether a policy may remove a savepoint: only one that a policy made, never that of a person."""
    return trigger.startswith(POLICY)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Which of a row of points in time are kept: all that any of the rules wants.

    Attributes:
        last: The newest so many.
        for_ms: Those of so many milliseconds.
        hourly: The newest one of each of the newest so many hours (UTC) that have any.
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
        """Returns the indices that `last` and `for_ms` want; a later index is newer, whatever the clock said."""
        count = len(times_ms)
        last = set(range(max(0, count - self.last), count))
        return last | {n for n in range(count) if self.for_ms and times_ms[n] > now_ms - self.for_ms}

    def sparse(self, times_ms: Sequence[int]) -> set[int]:
        """Returns the indices that the rules per hour, day and week want."""
        found: set[int] = set()
        rules = ((self.hourly, HOUR_MS, 0), (self.daily, DAY_MS, 0), (self.weekly, WEEK_MS, _MONDAY_MS))
        for count, length, offset in rules:
            buckets: dict[int, int] = {}
            for n in reversed(range(len(times_ms))):
                if len(buckets) < count:
                    buckets.setdefault((times_ms[n] + offset) // length, n)
            found |= set(buckets.values())
        return found


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """What retention keeps of one job.

    Every epoch from the oldest checkpoint on that `checkpoints.last` or `checkpoints.for_ms` wants can be restored;
    of the checkpoints per hour, day and week only these themselves.

    Attributes:
        checkpoints: Completed checkpoints; at least the newest one always stays (Flink's
            `state.checkpoints.num-retained` is `last`). None keeps them all, and every epoch.
        savepoints: Savepoints that a policy made (`made_by_policy`); None keeps them all. Other savepoints always stay.
        pinned_labels: Labels, or patterns such as `before-*`, of savepoints that stay whatever the rules say; these do
            not count for the rules.
        strays: Whether files of epochs that stay go if no manifest and no checkpoint names them: those of attempts that
            died. To find them all manifests are read.
        grace_ms: Files are deleted no earlier than so long after they were condemned.
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
        """The rules that let something go: `checkpoints`, `savepoints`, `strays`."""
        wanted = {
            "checkpoints": self.checkpoints is not None,
            "savepoints": self.savepoints is not None,
            "strays": self.strays,
        }
        return frozenset(rule for rule, is_wanted in wanted.items() if is_wanted)

    def pins(self, label: str) -> bool:
        """Says whether a savepoint of this label stays whatever the rules say."""
        return any(fnmatchcase(label, pattern) for pattern in self.pinned_labels)


class Retained(NamedTuple):
    """Which completed checkpoints stay.

    From `start` on every epoch of the current lineage stays, and so do the checkpoints among them (`recent`, `start`
    included); None when there is no checkpoint to begin with. `others` stay by themselves.
    """

    start: CheckpointRow | None
    recent: tuple[CheckpointRow, ...]
    others: tuple[CheckpointRow, ...]


def retained_checkpoints(
    policy: RetentionPolicy, rows: Iterable[CheckpointRow], head: Manifest, now_ms: int
) -> Retained:
    """Decides which checkpoints stay.

    Those of epochs that a restore abandoned stay until as many newer ones as `last` says have completed, so that a
    restore that was a mistake can be taken back.

    Args:
        policy: What is wanted.
        rows: Completed checkpoints whose manifests are there.
        head: The newest sealed epoch.
        now_ms: The present.
    """
    by_id = sorted(rows, key=lambda row: row.checkpoint_id or 0)
    mine = [r for r in by_id if r.epoch <= head.epoch and contains(head.lineage, r.generation, r.epoch)]
    if policy.checkpoints is None or not mine:
        return Retained(None, (), tuple(by_id))
    times = [row.completed_at for row in mine]
    recent = policy.checkpoints.recent(times, now_ms)
    start = mine[min(recent)]
    sparse = [mine[n] for n in sorted(policy.checkpoints.sparse(times)) if n < min(recent)]
    on_lineage = {(row.generation, row.epoch) for row in mine}
    abandoned = [
        row
        for row in by_id
        if (row.generation, row.epoch) not in on_lineage and (row.checkpoint_id or 0) > (start.checkpoint_id or 0)
    ]
    return Retained(start, tuple(mine[min(recent) :]), (*sparse, *abandoned))


def expendable_savepoints(policy: RetentionPolicy, rows: Iterable[CheckpointRow], now_ms: int) -> set[str]:
    """Returns the ids of the savepoints that the policy lets go.

    Args:
        policy: What is wanted.
        rows: Rows of completed savepoints that are there.
        now_ms: The present.
    """
    if policy.savepoints is None:
        return set()
    ruled = (row for row in rows if made_by_policy(row.trigger) and not policy.pins(row.label))
    own = sorted(ruled, key=lambda row: (row.completed_at, row.id))
    times = [row.completed_at for row in own]
    kept = policy.savepoints.recent(times, now_ms) | policy.savepoints.sparse(times)
    return {row.id for n, row in enumerate(own) if n not in kept}


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
