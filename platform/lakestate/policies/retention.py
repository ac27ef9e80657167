"""What is kept of a stream, and when the rest is deleted. Pure."""

from dataclasses import dataclass, field

from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy


def _kept() -> RetentionPolicy:
    return RetentionPolicy(checkpoints=Keep(last=3, daily=7), savepoints=Keep(last=10, daily=7, weekly=4))


@dataclass(frozen=True, kw_only=True)
class StreamRetention:
    """What runs of `<job>/retention` keep, and when these and runs of `<job>/compaction` start automatically.

    Attributes:
        policy: What is kept. By default: the last 3 checkpoints, and one for each of 7 days. Of the savepoints that a
            policy took: the last 10, and one for each of 7 days and of 4 weeks. Savepoints of users are always kept.
        cron: When retention runs, in `timezone`; None: only when a user materialises it.
        compaction_cron: The same for compaction.
        timezone: Time zone of both, such as `Europe/Berlin`.
    """

    policy: RetentionPolicy = field(default_factory=_kept)
    cron: str | None = None
    compaction_cron: str | None = None
    timezone: str = "UTC"


__all__ = ["StreamRetention"]
