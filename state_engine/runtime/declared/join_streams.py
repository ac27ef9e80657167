"""What an author says about an interval join, and what is made of it, without Spark: tests use it too."""

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
    """Two keyed streams whose records meet if their times are near each other: Flink's interval join, by its names.

    `between` says how near, the other methods more about it, and `join` ends with an operator. All raise
    `JobDefinitionError` for what cannot run.

    Args:
        first: The first stream, as it is keyed.
        second: The second one.
        add: Makes an operator of a function and a uid.
    """

    def __init__(self, first: KeyedInput, second: KeyedInput, add: Callable[[Join, str | None], R]) -> None:
        self._first, self._second, self._add = first, second, add
        self._bounds: tuple[int, int] | None = None
        self._exclusive = [0, 0]
        self._late_data: list[OutputTag | None] = [None, None]

    def between(self, lower_bound: Time, upper_bound: Time) -> Self:
        """Says that a record of time `t` meets those of the other stream from `t + lower` up to and with `t + upper`.

        Args:
            lower_bound: Negative, where partners may be earlier.
            upper_bound: Not less than the lower one; negative, where partners are always earlier.
        """
        lower, upper = (as_milliseconds(bound, "A bound of an interval join") for bound in (lower_bound, upper_bound))
        self._bounds = lower, upper
        return self

    def lower_bound_exclusive(self) -> Self:
        """Leaves out records that are exactly at the lower bound."""
        self._exclusive[0] = 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Leaves out records that are exactly at the upper bound."""
        self._exclusive[1] = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Says where records of this stream go that the watermark has passed; without this call they are dropped."""
        self._late_data[0] = checked_late_data("side_output_left_late_data", output_tag, self._first.columns)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """As `side_output_left_late_data`, for the other stream."""
        self._late_data[1] = checked_late_data("side_output_right_late_data", output_tag, self._second.columns)
        return self

    def join(self, how: IntervalJoinType = "inner", *, uid: str | None = None) -> R:
        """Gives a row for each pair, as soon as both are there; its event time is the later one of the two.

        Args:
            how: `left` or `right` also gives the records of that stream which found no partner, with nulls, when the
                watermark says that there will be none.
            uid: Stable name of the operator; its state is found under it.
        """
        if self._bounds is None:
            raise JobDefinitionError(
                "interval_join() got no bounds.", action="Say between(Time.minutes(-5), Time.minutes(10)) in front."
            )
        lower, upper = self._bounds[0] + self._exclusive[0], self._bounds[1] - self._exclusive[1]
        late = self._late_data[0], self._late_data[1]
        return self._add(IntervalJoin(self._first, self._second, lower, upper, how, late), uid)


__all__ = ["IntervalJoinedStreams"]
