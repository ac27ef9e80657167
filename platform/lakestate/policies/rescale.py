"""When a stream gets another parallelism. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from state_engine.errors import JobDefinitionError


class RescaleLook(NamedTuple):
    """Measurements of a running stream at one time.

    Attributes:
        at_ms: Time of the look.
        parallelism: Subtasks of the operator that has most.
        max_parallelism: Number of its key groups.
        busy: Share of the time since an earlier look in which an epoch was running; null at the first look.
        lag_ms: How far the slowest watermark lags behind the current time; null if no operator has event time.
        source_lag: How many records the stream is behind its sources; null if that is not known.
    """

    at_ms: int
    parallelism: int
    max_parallelism: int
    busy: float | None
    lag_ms: int | None
    source_lag: int | None = None


class RescaleDecision(NamedTuple):
    """The parallelism that a stream should have, or none, and why."""

    parallelism: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class RescalePolicy:
    """When a stream gets another parallelism. By default never automatically.

    A stream gets more subtasks if it is behind while it is busy: its event time lags far behind the current time, or
    it is many records behind its sources (Kafka tells) and will not catch up soon. More subtasks do not help a stream
    that waits for its source. If neither lag is known, set `by_busy_alone` to decide by the busy time alone.

    Attributes:
        action: `off` looks at nothing, `propose` reports what should be done, `act` does it.
        min_parallelism: Never fewer subtasks.
        max_parallelism: Never more subtasks; by default the number of key groups.
        lag_above: More subtasks only with at least this lag.
        lag_below: Fewer subtasks only below this lag.
        source_lag_above: More subtasks also with at least this number of records behind the sources.
        source_lag_below: Fewer subtasks only below this number of records behind the sources.
        catch_up_within: A stream that will have caught up with its sources within this time, if it goes on like this,
            gets no more subtasks.
        busy_above: More subtasks only if the stream is busy for at least this share of the time.
        busy_below: Fewer subtasks only if it is busy for at most this share of the time.
        by_busy_alone: For a stream without a known lag: decide by its share of busy time alone.
        factor: What the parallelism is multiplied or divided by.
        looks: Number of looks in a row that must agree.
        look_every: Time between two looks.
        cooldown: Time after a rescale in which nothing is decided, no matter who requested the rescale.
    """

    action: Literal["off", "propose", "act"] = "off"
    min_parallelism: int = 1
    max_parallelism: int | None = None
    lag_above: timedelta = timedelta(minutes=1)
    lag_below: timedelta = timedelta(seconds=10)
    source_lag_above: int = 100_000
    source_lag_below: int = 10_000
    catch_up_within: timedelta = timedelta(minutes=10)
    busy_above: float = 0.8
    busy_below: float = 0.3
    by_busy_alone: bool = False
    factor: float = 2.0
    looks: int = 3
    look_every: timedelta = timedelta(seconds=30)
    cooldown: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        is_sound = (
            1 <= self.min_parallelism <= (self.max_parallelism or self.min_parallelism)
            and timedelta(0) <= self.lag_below <= self.lag_above
            and 0 <= self.source_lag_below <= self.source_lag_above
            and timedelta(0) <= self.catch_up_within
            and 0 <= self.busy_below < self.busy_above <= 1
            and self.factor > 1
            and self.looks >= 1
        )
        if not is_sound:
            raise JobDefinitionError(
                f"{self} contradicts itself.",
                action="Give 1 <= min_parallelism <= max_parallelism, lag_below <= lag_above, source_lag_below <= "
                "source_lag_above, busy_below < busy_above (both from 0 to 1), a factor above 1, and at least one "
                "look.",
            )

    def decide(self, looks: Sequence[RescaleLook], rescaled_at_ms: int | None = None) -> RescaleDecision:
        """Returns the parallelism that a stream should have.

        Args:
            looks: The newest looks, oldest first.
            rescaled_at_ms: When the stream was last rescaled, if that is known.
        """
        newest = looks[-1] if looks else None
        if newest is None or len(looks) < self.looks:
            return RescaleDecision(None, f"{len(looks)} of {self.looks} looks.")
        since = newest.at_ms - rescaled_at_ms if rescaled_at_ms is not None else None
        if since is not None and since < self.cooldown / timedelta(milliseconds=1):
            return RescaleDecision(None, f"It was rescaled {since / 1000:.0f} s ago, and cools down.")
        seen = looks[-self.looks :]
        catches_up = self._catches_up(seen)
        directions = {self._direction(look, catches_up=catches_up) for look in seen}
        direction = directions.pop() if len(directions) == 1 else 0
        if direction == 0:
            why = "it catches up" if catches_up else "this needs no change"
            return RescaleDecision(None, f"{_told(newest)}; {why}, or has not lasted for {self.looks} looks.")
        wanted = self._bounded(newest, direction)
        if wanted == newest.parallelism:
            return RescaleDecision(None, f"{_told(newest)}, and {wanted} subtasks are the limit.")
        return RescaleDecision(wanted, f"{_told(newest)} at {self.looks} looks in a row.")

    def _catches_up(self, looks: Sequence[RescaleLook]) -> bool:
        """Returns whether the source lag shrinks, since it was largest, so fast that it soon will be gone."""
        leads = [(look.source_lag, look.at_ms) for look in looks if look.source_lag is not None]
        if not leads:
            return False
        (most, since_ms), (now, now_ms) = max(leads), leads[-1]
        if now >= most:
            return False
        return now * (now_ms - since_ms) / (most - now) <= self.catch_up_within / timedelta(milliseconds=1)

    def _direction(self, look: RescaleLook, *, catches_up: bool) -> int:
        """Returns 1 for more subtasks, -1 for fewer, 0 for no change."""
        if look.busy is None:
            return 0
        behind, keeps_up = [], []
        if look.lag_ms is not None:
            lag = timedelta(milliseconds=look.lag_ms)
            behind.append(lag >= self.lag_above and not catches_up)
            keeps_up.append(lag < self.lag_below)
        if look.source_lag is not None:
            behind.append(look.source_lag >= self.source_lag_above and not catches_up)
            keeps_up.append(look.source_lag < self.source_lag_below)
        lags = any(behind) if behind else self.by_busy_alone
        if lags and look.busy >= self.busy_above:
            return 1
        calm = all(keeps_up) if keeps_up else self.by_busy_alone
        return -1 if calm and look.busy <= self.busy_below else 0

    def _bounded(self, look: RescaleLook, direction: int) -> int:
        now = look.parallelism
        wanted = max(now + 1, round(now * self.factor)) if direction > 0 else min(now - 1, int(now / self.factor))
        most = min(self.max_parallelism or look.max_parallelism, look.max_parallelism)
        bounded = max(self.min_parallelism, min(wanted, most))
        return bounded if (bounded - now) * direction > 0 else now


def _told(look: RescaleLook) -> str:
    lag = f"has a lag of {look.lag_ms / 1000:,.1f} s" if look.lag_ms is not None else "has no event time"
    if look.source_lag is not None:
        lag += f", is {look.source_lag:,} records behind its sources"
    busy = f"{look.busy:.0%}" if look.busy is not None else "an unknown share"
    return f"The stream {lag} and is busy for {busy} of the time with {look.parallelism} subtasks"


__all__ = ["RescaleDecision", "RescaleLook", "RescalePolicy"]
