"""Bodies of retention. Not in Flink; times are in ms, and empty rules keep the newest checkpoint alone."""

from typing import Annotated, Literal

import msgspec

from lakestate.rest.bodies import FailureCause, QueueStatus

LISTED = 1_000
"""So many files are named in an answer; their number and bytes are those of all."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class Rules(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Which are kept: all that any rule wants. As `Keep` of the library."""

    last: Count = 1
    for_ms: Count = 0
    hourly: Count = 0
    daily: Count = 0
    weekly: Count = 0


class RetentionTrigger(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Asks for retention. Without `savepoints` all of them stay; with it, those that people took, and those pinned."""

    checkpoints: Rules
    savepoints: Rules | None = None
    pinned_labels: list[str] = []
    strays: bool = False
    grace_ms: Count = 600_000
    dry_run: bool = False
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class RemovalInfo(msgspec.Struct, kw_only=True):
    """A file that goes, its path below the job's root."""

    path: str
    bytes: int
    kind: Literal["savepoint", "manifest", "changes", "output", "base", "state", "restored", "unfinished"]
    reason: str


class RetentionSummary(msgspec.Struct, kw_only=True, rename="kebab"):
    """What was found, and what was done; nothing is done in a dry run.

    `oldest_epoch` is the generation and the number of the epoch from which on every epoch stays, null if all do.
    `waiting` files are condemned; a call after their grace time deletes them. Canonical savepoints among `savepoints`
    are `disposed` of at once, unless they are `in_use`; so are the `abandoned` folders that dead writers of savepoints
    left elsewhere. `unlisted` savepoints are complete and have no row; they stay.
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
    """How retention ended: what it did, or why it did not."""

    summary: RetentionSummary | None = None
    failure_cause: FailureCause | None = None


class RetentionResult(msgspec.Struct, kw_only=True):
    """Retention under way, or its end."""

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
