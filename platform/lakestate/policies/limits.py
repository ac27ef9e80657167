"""Limits of a stream's checkpoints and states, and the verdicts of the asset checks that use them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from state_engine.errors import JobDefinitionError


@dataclass(frozen=True, kw_only=True)
class CheckLimits:
    """Limits of the asset checks of `<job>/checkpoint`.

    Attributes:
        checkpoint_age: The check fails if the newest checkpoint is older. None for a stream that may be idle.
        state_growth: The check fails if a state has more than this multiple of the rows that it had `growth_over`
            checkpoints ago. None: no limit.
        growth_over: Number of completed checkpoints to look back.
        growth_above_rows: States with fewer rows are not judged, since the states of a new stream have to grow.
        key_group_skew: The check fails if a key group has more than this multiple of the mean rows. None: no limit.
        skew_above_rows: States with fewer rows are not judged, since few keys cannot be spread evenly.
        repeat_after: An unchanged verdict is recorded again after this time; a changed one at once.
    """

    checkpoint_age: timedelta | None = None
    state_growth: float | None = 2.0
    growth_over: int = 20
    growth_above_rows: int = 100_000
    key_group_skew: float | None = 4.0
    skew_above_rows: int = 10_000
    repeat_after: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.checkpoint_age is not None and self.checkpoint_age <= timedelta(0):
            raise _refused("checkpoint_age", self.checkpoint_age, "longer than no time")
        for name in ("state_growth", "key_group_skew"):
            factor = getattr(self, name)
            if factor is not None and factor <= 1:
                raise _refused(name, factor, "above 1, since it is a multiple")
        if self.growth_over < 1:
            raise _refused("growth_over", self.growth_over, "at least 1")


class Verdict(NamedTuple):
    """The result of a check.

    Attributes:
        passed: Whether the limit is kept, or there is none.
        said: A sentence for people.
        measured: The figure that was compared with the limit; None if there was nothing to measure.
        limit: The limit; None without one.
        worst: The state that has this figure, as `<uid>/<state>`; empty without one.
    """

    passed: bool
    said: str
    measured: float | None = None
    limit: float | None = None
    worst: str = ""


class Spread(NamedTuple):
    """How a state's rows are spread over the key groups.

    Attributes:
        rows: Of all key groups.
        skew: Rows of the largest key group, divided by the mean of all key groups; None without rows.
        largest: The key group with most rows; None without rows.
        largest_rows: Its number of rows.
    """

    rows: float
    skew: float | None = None
    largest: int | None = None
    largest_rows: float = 0.0


def spread_of(groups: Sequence[float]) -> Spread:
    """Returns how rows are spread, from the row count of each key group."""
    total = sum(groups)
    if not total:
        return Spread(total)
    most = max(groups)
    return Spread(total, most * len(groups) / total, list(groups).index(most), most)


def judge_age(limits: CheckLimits, age: timedelta | None) -> Verdict:
    """Judges the age of the newest checkpoint; it is None before the first one, which is never late."""
    limit = limits.checkpoint_age
    within = None if limit is None else limit.total_seconds()
    if age is None:
        return Verdict(True, "No checkpoint has completed yet.", limit=within)
    seconds = max(0.0, age.total_seconds())
    text = f"The newest checkpoint is {timedelta(seconds=round(seconds))} old"
    if limit is None:
        return Verdict(True, f"{text}; there is no limit.", seconds)
    return Verdict(age <= limit, f"{text}; at most {limit} is allowed.", seconds, within)


def judge_growth(limits: CheckLimits, rows: Mapping[str, int], before: Mapping[str, int] | None) -> Verdict:
    """Judges how the states have grown.

    Args:
        limits: The limits.
        rows: Rows of each state in the newest checkpoint.
        before: The same `growth_over` checkpoints ago; None if there are fewer.
    """
    limit = limits.state_growth
    if before is None:
        return Verdict(True, f"There are fewer than {limits.growth_over + 1} checkpoints to compare.", limit=limit)
    factors = {
        name: count / max(1, before[name])
        for name, count in rows.items()
        if name in before and count >= limits.growth_above_rows
    }
    if not factors:
        text = f"No state of {limits.growth_above_rows:,} rows or more existed {limits.growth_over} checkpoints ago."
        return Verdict(True, text, limit=limit)
    worst = max(factors, key=lambda name: factors[name])
    text = (
        f"{worst} has {factors[worst]:.2f} times the rows of {limits.growth_over} checkpoints ago: "
        f"{before[worst]:,} → {rows[worst]:,}"
    )
    return _judged(text, factors[worst], limit, worst)


def judge_skew(limits: CheckLimits, spreads: Mapping[str, Spread]) -> Verdict:
    """Judges how the rows of each state are spread over the key groups."""
    limit = limits.key_group_skew
    skews = {
        name: (spread.skew, spread)
        for name, spread in spreads.items()
        if spread.skew is not None and spread.rows >= limits.skew_above_rows
    }
    if not skews:
        return Verdict(True, f"No keyed state has {limits.skew_above_rows:,} rows or more.", limit=limit)
    worst = max(skews, key=lambda name: skews[name][0])
    skew, spread = skews[worst]
    text = f"Key group {spread.largest} of {worst} has {skew:.2f} times the mean: {spread.largest_rows:,.0f} rows"
    return _judged(text, skew, limit, worst)


def _judged(said: str, measured: float, limit: float | None, worst: str) -> Verdict:
    if limit is None:
        return Verdict(True, f"{said}; there is no limit.", measured, None, worst)
    return Verdict(measured <= limit, f"{said}; at most {limit:g} times is allowed.", measured, limit, worst)


def _refused(name: str, value: object, wanted: str) -> JobDefinitionError:
    return JobDefinitionError(
        f"CheckLimits got {name}={value}, which must be {wanted}.", action=f"Correct {name}, or leave it out."
    )


__all__ = ["CheckLimits", "Spread", "Verdict", "judge_age", "judge_growth", "judge_skew", "spread_of"]
