"""When a stream gets another parallelism. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from state_engine.errors import JobDefinitionError


class RescaleLook(NamedTuple):
    """What was seen of a running stream.

    Attributes:
        at_ms: When.
        parallelism: Subtasks of the operator that has most.
        max_parallelism: Its key groups.
        busy: Share of the time since the look before in which an epoch was under way; null at the first look.
        lag_ms: How far the slowest watermark is behind the present; null where no operator has event time.
    """

    at_ms: int
    parallelism: int
    max_parallelism: int
    busy: float | None
    lag_ms: int | None


class RescaleDecision(NamedTuple):
    """The parallelism that a stream should have, or none, and why."""

    parallelism: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class RescalePolicy:
    """When a stream gets another parallelism. By default never by itself.

    A stream lags if its event time is far behind the present although it is busy. One that waits for its source is
    not helped by more subtasks, and without event time nobody knows how far behind a stream is: there being busy has
    to be enough, if that is wanted.

    Attributes:
        action: `off` looks at nothing, `propose` says what should be done, `act` does it.
        min_parallelism: Never fewer.
        max_parallelism: Never more; by default as many as there are key groups.
        lag_above: A lag of so much asks for more subtasks.
        lag_below: Only below this lag fewer may be enough.
        busy_above: More subtasks only if the stream is busy for this share of the time.
        busy_below: Fewer only if it is busy for no more than this share.
        by_busy_alone: Of a stream without event time: take its share of busy time for its lag.
        factor: What the parallelism is multiplied with or divided by.
        looks: So many looks in a row must say the same.
        look_every: Time between two looks.
        cooldown: So long after a rescale nothing is decided, whoever asked for it.
    """

    action: Literal["off", "propose", "act"] = "off"
    min_parallelism: int = 1
    max_parallelism: int | None = None
    lag_above: timedelta = timedelta(minutes=1)
    lag_below: timedelta = timedelta(seconds=10)
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
            and 0 <= self.busy_below < self.busy_above <= 1
            and self.factor > 1
            and self.looks >= 1
        )
        if not is_sound:
            raise JobDefinitionError(
                f"{self} contradicts itself.",
                action="Give 1 <= min_parallelism <= max_parallelism, lag_below <= lag_above, busy_below < busy_above "
                "(both from 0 to 1), a factor above 1, and at least one look.",
            )

    def decide(self, looks: Sequence[RescaleLook], rescaled_at_ms: int | None = None) -> RescaleDecision:
        """Says which parallelism a stream should have.

        Args:
            looks: The newest looks, oldest first.
            rescaled_at_ms: When the stream was rescaled last, as far as anybody knows.
        """
        newest = looks[-1] if looks else None
        if newest is None or len(looks) < self.looks:
            return RescaleDecision(None, f"{len(looks)} of {self.looks} looks.")
        since = newest.at_ms - rescaled_at_ms if rescaled_at_ms is not None else None
        if since is not None and since < self.cooldown / timedelta(milliseconds=1):
            return RescaleDecision(None, f"It was rescaled {since / 1000:.0f} s ago, and cools down.")
        directions = {self._direction(look) for look in looks[-self.looks :]}
        direction = directions.pop() if len(directions) == 1 else 0
        if direction == 0:
            return RescaleDecision(
                None, f"{_told(newest)} is as it should be, or has not lasted for {self.looks} looks."
            )
        wanted = self._bounded(newest, direction)
        if wanted == newest.parallelism:
            return RescaleDecision(None, f"{_told(newest)}, and {wanted} subtasks are the limit.")
        return RescaleDecision(wanted, f"{_told(newest)} at {self.looks} looks in a row.")

    def _direction(self, look: RescaleLook) -> int:
        """1 for more subtasks, -1 for fewer."""
        if look.busy is None:
            return 0
        if look.lag_ms is None:
            lags, keeps_up = self.by_busy_alone, self.by_busy_alone
        else:
            lag = timedelta(milliseconds=look.lag_ms)
            lags, keeps_up = lag >= self.lag_above, lag < self.lag_below
        if lags and look.busy >= self.busy_above:
            return 1
        return -1 if keeps_up and look.busy <= self.busy_below else 0

    def _bounded(self, look: RescaleLook, direction: int) -> int:
        now = look.parallelism
        wanted = max(now + 1, round(now * self.factor)) if direction > 0 else min(now - 1, int(now / self.factor))
        most = min(self.max_parallelism or look.max_parallelism, look.max_parallelism)
        bounded = max(self.min_parallelism, min(wanted, most))
        return bounded if (bounded - now) * direction > 0 else now


def _told(look: RescaleLook) -> str:
    lag = f"is {look.lag_ms / 1000:,.1f} s behind" if look.lag_ms is not None else "has no event time"
    busy = f"{look.busy:.0%}" if look.busy is not None else "an unknown share"
    return f"The stream {lag} and busy for {busy} of the time with {look.parallelism} subtasks"


__all__ = ["RescaleDecision", "RescaleLook", "RescalePolicy"]
