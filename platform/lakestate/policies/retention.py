"""What is kept of a stream, and when the rest is cleared away. Pure."""

from dataclasses import dataclass, field

from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy


def _kept() -> RetentionPolicy:
    return RetentionPolicy(checkpoints=Keep(last=3, daily=7), savepoints=Keep(last=10, daily=7, weekly=4))


@dataclass(frozen=True, kw_only=True)
class StreamRetention:
    """What runs of `<job>/retention` keep, and when these and runs of `<job>/compaction` begin by themselves.

    Attributes:
        policy: What is kept. By default the last 3 checkpoints and one of each of 7 days; of the savepoints that a
            policy made the last 10, one of each of 7 days and of 4 weeks. Savepoints of people always stay.
        cron: When retention runs, in the time zone of the schedule; None: only when somebody materialises it.
        compaction_cron: The same for compaction.
        timezone: Time zone of both, such as `Europe/Berlin`.
    """

    policy: RetentionPolicy = field(default_factory=_kept)
    cron: str | None = None
    compaction_cron: str | None = None
    timezone: str = "UTC"


__all__ = ["StreamRetention"]
