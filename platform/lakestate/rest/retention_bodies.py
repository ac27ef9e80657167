"""Bodies of retention. Not in Flink; times are in ms, and empty rules keep only the newest checkpoint."""

from typing import Annotated, Literal

import msgspec

from lakestate.rest.bodies import FailureCause, QueueStatus

LISTED = 1_000
"""Maximum number of files that an answer names; the counts and bytes in it cover all files."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class Rules(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Which ones are kept: those that at least one rule keeps. As `Keep` of the library."""

    last: Count = 1
    for_ms: Count = 0
    hourly: Count = 0
    daily: Count = 0
    weekly: Count = 0


class RetentionTrigger(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Requests retention. Without `savepoints` all savepoints are kept.

    With `savepoints`, its rules apply to savepoints of policies; those of users and those with pinned labels are kept.
    """

    checkpoints: Rules
    savepoints: Rules | None = None
    pinned_labels: list[str] = []
    strays: bool = False
    grace_ms: Count = 600_000
    dry_run: bool = False
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class RemovalInfo(msgspec.Struct, kw_only=True):
    """A file that is to be deleted, with its path below the job's root."""

    path: str
    bytes: int
    kind: Literal["savepoint", "manifest", "changes", "output", "base", "state", "restored", "unfinished"]
    reason: str


class RetentionSummary(msgspec.Struct, kw_only=True, rename="kebab"):
    """What retention found, and what it did; a dry run does nothing.

    `oldest_epoch` is the generation and the number of the epoch from which on every epoch is kept, null if all are.
    `waiting` files are condemned; a call after their grace time deletes them. Canonical savepoints among `savepoints`
    are `disposed` of at once, unless they are `in_use`. The `abandoned` folders, which dead writers of savepoints left
    elsewhere, are deleted at once too. `unlisted` savepoints are complete but have no row; they are kept.
    """

    dry_run: bool
    files: int
    bytes: int
    removals: list[RemovalInfo]
    savepoints: list[str]
    checkpoints: list[str]
    oldest_epoch: tuple[int, int] | None
    removed: int = 0
    removed_bytes: int = 0
    spared: int = 0
    waiting: int = 0
    disposed: list[str] = msgspec.field(default_factory=list)
    in_use: list[str] = msgspec.field(default_factory=list)
    abandoned: list[str] = msgspec.field(default_factory=list)
    unlisted: list[str] = msgspec.field(default_factory=list)


class RetentionInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """The result of retention: what it did, or the failure."""

    summary: RetentionSummary | None = None
    failure_cause: FailureCause | None = None


class RetentionResult(msgspec.Struct, kw_only=True):
    """The status of retention, and its result once it has ended."""

    status: QueueStatus
    operation: RetentionInfo | None


__all__ = [
    "LISTED",
    "RemovalInfo",
    "RetentionInfo",
    "RetentionResult",
    "RetentionSummary",
    "RetentionTrigger",
    "Rules",
]
