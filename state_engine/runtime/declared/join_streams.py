"""The author's API for an interval join; it makes the operator's function without Spark, so tests use it too."""

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from state_engine.api.durations import Time, as_milliseconds
from state_engine.api.output_tag import OutputTag
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.interval_join import IntervalJoin, IntervalJoinType
from state_engine.runtime.declared.joins import Join
from state_engine.runtime.outputs import checked_late_data
from state_engine.runtime.two_inputs import KeyedInput

R = TypeVar("R")


class IntervalJoinedStreams(Generic[R]):
    """Two keyed streams that are joined by near event times: Flink's interval join, with its method names.

    `between` sets the interval, other methods set details, and `join` makes the operator. All raise
    `JobDefinitionError` for what cannot run.

    Args:
        first: The first stream, as it is keyed.
        second: The second stream.
        add: Makes an operator from a function and a uid.
    """

    def __init__(self, first: KeyedInput, second: KeyedInput, add: Callable[[Join, str | None], R]) -> None:
        self._first, self._second, self._add = first, second, add
        self._bounds: tuple[int, int] | None = None
        self._exclusive = [0, 0]
        self._late_data: list[OutputTag | None] = [None, None]

    def between(self, lower_bound: Time, upper_bound: Time) -> Self:
        """Joins a record of time `t` with those of the other stream from `t + lower` to `t + upper`, both included.

        Args:
            lower_bound: Negative, if partners may be earlier.
            upper_bound: Not less than the lower bound; negative, if partners are always earlier.
        """
        lower, upper = (as_milliseconds(bound, "A bound of an interval join") for bound in (lower_bound, upper_bound))
        self._bounds = lower, upper
        return self

    def lower_bound_exclusive(self) -> Self:
        """Excludes records that are exactly at the lower bound."""
        self._exclusive[0] = 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Excludes records that are exactly at the upper bound."""
        self._exclusive[1] = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Sends records of this stream that the watermark has passed to a side output; by default they are dropped."""
        self._late_data[0] = checked_late_data("side_output_left_late_data", output_tag, self._first.columns)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """As `side_output_left_late_data`, for the other stream."""
        self._late_data[1] = checked_late_data("side_output_right_late_data", output_tag, self._second.columns)
        return self

    def join(self, how: IntervalJoinType = "inner", *, uid: str | None = None) -> R:
        """Gives a row for each pair as soon as both records came; its event time is the later one of the two.

        Args:
            how: `left` or `right` also gives the records of that stream that have no partner, with nulls, when the
                watermark shows that none can come.
            uid: Stable name of the operator; its state is found under it.
        """
        if self._bounds is None:
            raise JobDefinitionError(
                "interval_join() got no bounds.", action="Call between(Time.minutes(-5), Time.minutes(10)) first."
            )
        lower, upper = self._bounds[0] + self._exclusive[0], self._bounds[1] - self._exclusive[1]
        late = self._late_data[0], self._late_data[1]
        return self._add(IntervalJoin(self._first, self._second, lower, upper, how, late), uid)


__all__ = ["IntervalJoinedStreams"]
