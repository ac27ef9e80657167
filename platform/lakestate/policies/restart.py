"""Decides whether and when a driver that failed is restarted: Flink's restart strategies, by Flink's names.

Flink's keys `restart-strategy.<strategy>.<key>` are the fields here. Flink counts from the submission of a job; here
the count starts when a user last started the job.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, NamedTuple

from state_engine.errors import JobDefinitionError

_MS = timedelta(milliseconds=1)

Jitter = Callable[[int], float]
"""From the time of a failure, in ms, to a number from -1 to 1: always the same one, so that a delay does not change."""


class Failure(NamedTuple):
    """A start of a driver, and its failure. Times are in ms."""

    started_at: int
    failed_at: int


class Restart(NamedTuple):
    """Restart the driver, not before this time, in ms."""

    at: int


class GiveUp(NamedTuple):
    """Do not restart the driver."""

    reason: str


Decision = Restart | GiveUp


def no_jitter(failed_at: int) -> float:
    """Returns 0 for all failures."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class RestartPolicy(ABC):
    """Base of all restart strategies, with the settings for a driver that hangs.

    Attributes:
        hangs_after: A driver hangs if it has neither answered nor sealed an epoch for this long.
        replace_hanging: End a driver that hangs, and treat it as failed. Otherwise it is only reported.
    """

    strategy: ClassVar[str]
    default_strategy: ClassVar[str] = "exponential-delay"  # of settings in YAML that name none, as in Flink

    hangs_after: timedelta = timedelta(minutes=5)
    replace_hanging: bool = False

    def __post_init__(self) -> None:
        check_positive(self, "hangs_after")

    @abstractmethod
    def decide(self, failures: Sequence[Failure], jitter: Jitter = no_jitter) -> Decision:
        """Returns what to do about the newest failure.

        Args:
            failures: All since a user last started the job, oldest first; at least one.
            jitter: Spreads delays, if the strategy does that.
        """


@dataclass(frozen=True, kw_only=True)
class NoRestart(RestartPolicy):
    """`none`: a driver that failed is not restarted."""

    strategy: ClassVar[str] = "none"

    def decide(self, failures: Sequence[Failure], jitter: Jitter = no_jitter) -> Decision:
        return GiveUp("The restart strategy is none.")


@dataclass(frozen=True, kw_only=True)
class FixedDelay(RestartPolicy):
    """`fixed-delay`: at most `attempts` restarts, each after the same delay.

    Attributes:
        attempts: Number of restarts.
        delay: Time between a failure and the restart.
    """

    strategy: ClassVar[str] = "fixed-delay"

    attempts: int = 1
    delay: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "attempts")
        check_not_negative(self, "delay")

    def decide(self, failures: Sequence[Failure], jitter: Jitter = no_jitter) -> Decision:
        if len(failures) > self.attempts:
            return GiveUp(f"{len(failures)} failures; fixed-delay allows {self.attempts} restarts.")
        return Restart(failures[-1].failed_at + _ms(self.delay))


@dataclass(frozen=True, kw_only=True)
class ExponentialDelay(RestartPolicy):
    """`exponential-delay`: each restart after a longer delay, until the job has run long enough without a failure.

    Attributes:
        initial_backoff: The first delay, and the shortest.
        max_backoff: The longest delay.
        backoff_multiplier: Factor from one delay to the next.
        reset_backoff_threshold: After a run of more than this time without a failure, delay and count start anew.
        jitter_factor: The share by which a delay may be shorter or longer.
        attempts_before_reset_backoff: Number of restarts before that reset; None for no limit. Flink has no limit
            unless one is set. Here a restart costs a JVM, so the default is a limit.
    """

    strategy: ClassVar[str] = "exponential-delay"

    initial_backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(minutes=1)
    backoff_multiplier: float = 1.5
    reset_backoff_threshold: timedelta = timedelta(hours=1)
    jitter_factor: float = 0.1
    attempts_before_reset_backoff: int | None = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "initial_backoff", "max_backoff", "reset_backoff_threshold")
        if self.attempts_before_reset_backoff is not None:
            check_positive(self, "attempts_before_reset_backoff")
        if self.max_backoff < self.initial_backoff:
            raise _refused(self, "max_backoff", "must not be less than initial_backoff")
        if self.backoff_multiplier < 1:
            raise _refused(self, "backoff_multiplier", "must be at least 1")
        if not 0 <= self.jitter_factor <= 1:
            raise _refused(self, "jitter_factor", "must be from 0 to 1")

    def decide(self, failures: Sequence[Failure], jitter: Jitter = no_jitter) -> Decision:
        count = 0
        for failure in failures:
            if failure.failed_at - failure.started_at > _ms(self.reset_backoff_threshold):
                count = 0
            count += 1
        limit = self.attempts_before_reset_backoff
        if limit is not None and count > limit:
            return GiveUp(
                f"{count} failures without {self.reset_backoff_threshold} in between; exponential-delay allows "
                f"{limit} restarts."
            )
        failed_at = failures[-1].failed_at
        return Restart(failed_at + self._delay_ms(count, jitter(failed_at)))

    def _delay_ms(self, count: int, spread: float) -> int:
        shortest, longest = _ms(self.initial_backoff), _ms(self.max_backoff)
        delay = float(shortest)
        for _ in range(count - 1):
            delay = min(delay * self.backoff_multiplier, longest)
            if delay == longest:
                break
        return int(max(shortest, min(delay + delay * self.jitter_factor * spread, longest)))


@dataclass(frozen=True, kw_only=True)
class FailureRate(RestartPolicy):
    """`failure-rate`: restarts while an interval has fewer than `max_failures_per_interval` failures, as in Flink.

    Attributes:
        max_failures_per_interval: With this number of failures in an interval the driver is not restarted.
        failure_rate_interval: Length of the interval, which ends with the newest failure.
        delay: Time between a failure and the restart.
    """

    strategy: ClassVar[str] = "failure-rate"

    max_failures_per_interval: int = 1
    failure_rate_interval: timedelta = timedelta(minutes=1)
    delay: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "max_failures_per_interval", "failure_rate_interval")
        check_not_negative(self, "delay")

    def decide(self, failures: Sequence[Failure], jitter: Jitter = no_jitter) -> Decision:
        newest = failures[-1].failed_at
        within = [one for one in failures if newest - one.failed_at <= _ms(self.failure_rate_interval)]
        if len(within) >= self.max_failures_per_interval:
            return GiveUp(
                f"{len(within)} failures within {self.failure_rate_interval}; failure-rate ends a job with "
                f"{self.max_failures_per_interval}."
            )
        return Restart(newest + _ms(self.delay))


STRATEGIES: dict[str, type[RestartPolicy]] = {
    policy.strategy: policy for policy in (NoRestart, FixedDelay, ExponentialDelay, FailureRate)
}
"""The strategies by Flink's names."""


def check_positive(policy: RestartPolicy, *names: str) -> None:
    """Refuses durations and numbers that are not above 0."""
    for name in names:
        value = getattr(policy, name)
        if value <= (timedelta() if isinstance(value, timedelta) else 0):
            raise _refused(policy, name, "must be above 0")


def check_not_negative(policy: RestartPolicy, *names: str) -> None:
    """Refuses durations below 0."""
    for name in names:
        if getattr(policy, name) < timedelta():
            raise _refused(policy, name, "must not be negative")


def _refused(policy: RestartPolicy, name: str, what: str) -> JobDefinitionError:
    return JobDefinitionError(
        f"{name} of the restart strategy {policy.strategy} {what}: {getattr(policy, name)}.",
        action="Give another value.",
    )


def _ms(duration: timedelta) -> int:
    return duration // _MS


__all__ = [
    "STRATEGIES",
    "Decision",
    "ExponentialDelay",
    "Failure",
    "FailureRate",
    "FixedDelay",
    "GiveUp",
    "Jitter",
    "NoRestart",
    "Restart",
    "RestartPolicy",
    "no_jitter",
]
