"""`interval_join`: pairs of records of two streams that have the same key and near event times."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import FiresTogether
from state_engine.runtime.declared.joins import (
    FARTHEST,
    Join,
    Order,
    Records,
    Side,
    event_times,
    some_at_once,
)
from state_engine.runtime.two_inputs import KeyedInput

IntervalJoinType = Literal["inner", "left", "right"]
_JOIN_TYPES: dict[str, int] = {"inner": 0, "left": 1, "right": 2}
_PAIRS = 1 << 20
"""About this number of pairs is made at a time; a slice may have some more."""


class IntervalJoin(Join, FiresTogether):
    """Gives each pair of a record of the first stream and a near record of the second, as soon as both came.

    A record is kept until the watermark shows that no partner can come any more. If its stream also gives records
    without a partner, the record is then compared once with all kept records of the other stream. If it has no partner
    there, it is given alone. So no record stores whether it was given, and no kept record is rewritten for that.

    Args:
        first: The first stream, as it is keyed.
        second: The second stream.
        lower: By how many ms a partner is later than the first stream's record, at least; may be negative.
        upper: By how many ms it is later, at most.
        how: `inner`, or the stream whose records are also given without a partner.
        late_data: Side outputs for late records of the two streams; None if they are dropped.

    Raises:
        JobDefinitionError: The bounds are no interval, `how` is not allowed, or `Join` raises it.
    """

    verb = "interval_join"

    def __init__(
        self,
        first: KeyedInput,
        second: KeyedInput,
        lower: int,
        upper: int,
        how: IntervalJoinType = "inner",
        late_data: tuple[OutputTag | None, OutputTag | None] = (None, None),
    ) -> None:
        if str(how) not in _JOIN_TYPES:
            raise JobDefinitionError(f"interval_join() got how={how!r}.", action="Give 'inner', 'left' or 'right'.")
        _check_bounds(lower, upper)
        super().__init__(first, second, ("left", "right"), _JOIN_TYPES[how])
        _check_tags(*late_data)
        self._lower, self._upper, self._how, self._late_data = lower, upper, how, late_data
        # A record that may be given alone is checked with the watermark at its horizon, and must find all partners.
        self._horizons = (
            upper + (max(0, -lower) if how == "right" else 0),
            -lower + (max(0, upper) if how == "left" else 0),
        )
        self.in_turn = how != "inner"  # the order of rows without a partner must not depend on caches
        self._grid = max((upper - lower) // 2, 1)

    @property
    def argument(self) -> str:
        return self.arguments(between=f"({self._lower} ms, {self._upper} ms)", how=self._how)

    # Records ------------------------------------------------------------------------------------------------------

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        times = event_times(keys)
        watermark = ctx.timer_service().current_watermark()
        outputs, new = [], []
        for side, tag in zip(self.sides, self._late_data, strict=True):
            positions = side.positions(batch)
            late = times[positions] <= watermark
            outputs += self.late(tag, side, keys, batch, positions[late])
            new.append(side.records(keys, batch, side.joinable(batch, positions[~late])))
        outputs += self._pairs(keys.distinct, new[0], new[1], ctx)
        for side, horizon, records in zip(self.sides, self._horizons, new, strict=True):
            self._keep(side, horizon, keys.distinct, records, ctx.timer_service())
        return outputs

    def _pairs(self, each: Keys, left: Records, right: Records, ctx: Any) -> Iterator[Any]:
        """Yields the pairs with at least one new record."""
        one, other = self.sides
        yield from self._joined(left, other.stored(each, np.unique(left.codes)).then(right), ctx)
        yield from self._joined(one.stored(each, np.unique(right.codes)), right, ctx)

    def _joined(self, left: Records, right: Records, ctx: Any) -> Iterator[Any]:
        """Yields rows of all pairs, slice by slice; the time of a row is the later time of its two records."""
        order, (first, end) = self._partners(left, right)
        counts = end - first
        slices = np.cumsum(counts) // _PAIRS
        for part in np.split(np.arange(len(counts)), np.flatnonzero(np.diff(slices)) + 1):
            of_left = np.repeat(part, counts[part])
            within = np.arange(len(of_left)) - np.repeat(np.cumsum(counts[part]) - counts[part], counts[part])
            of_right = order.positions[np.repeat(first[part], counts[part]) + within]
            times = np.maximum(left.times[of_left], right.times[of_right])
            rows = self.rows(left.rows.take(indices(of_left)), right.rows.take(indices(of_right)))
            yield ctx.timed(rows, times)

    def _partners(self, left: Records, right: Records) -> tuple[Order, tuple[Numbers, Numbers]]:
        """Returns an index of the right records, and the range of partners in it for each left record."""
        bounds = left.times + self._lower, left.times + self._upper
        order = Order(right, bounds)
        return order, (order.at_or_after(left.codes, bounds[0]), order.after(left.codes, bounds[1]))

    def _keep(self, side: Side, horizon: int, each: Keys, new: Records, timers: Any) -> None:
        """Keeps records that are needed later, and registers timers for the times when they are no longer needed."""
        needed = new.times + horizon > timers.current_watermark()
        kept = new.take(np.flatnonzero(needed | side.keeps_unmatched))
        side.keep(each, kept)
        self._look_again(horizon, each, kept, timers)

    def _look_again(self, horizon: int, each: Keys, kept: Records, timers: Any) -> None:
        """Registers timers at few times, each for many keys, so records are kept up to half an interval longer."""
        ends = -(-(kept.times + horizon) // self._grid) * self._grid
        timers.register_event_time_timers(each.take(kept.codes), pa.array(ends))

    # Time ---------------------------------------------------------------------------------------------------------

    def fire(self, keys: Keys, ctx: Any) -> Any:
        for some_keys in some_at_once(keys):
            yield from self._end(some_keys, ctx)

    def _end(self, each: Keys, ctx: Any) -> Iterator[Any]:
        """Removes the ended records of some keys; yields those of them that have no partner."""
        timers, service = np.asarray(each.times), ctx.timer_service()
        watermark = service.current_watermark()
        stored = [side.stored(each) for side in self.sides]
        ended = [r.times + horizon <= watermark for r, horizon in zip(stored, self._horizons, strict=True)]
        for side, records, is_ended in zip(self.sides, stored, ended, strict=True):
            if side.keeps_unmatched:
                of_ended = records.take(np.flatnonzero(is_ended))
                alone = of_ended.take(np.flatnonzero(~self._has_partner(side, of_ended, stored)))
                # Not before its own time; nor before the timer's, or it might be late for a downstream operator.
                yield ctx.timed(self.alone(side, alone, each), np.maximum(alone.times, timers[alone.codes]))
        for side, horizon, records, is_ended in zip(self.sides, self._horizons, stored, ended, strict=True):
            touched = np.zeros(len(each), bool)
            touched[records.codes[is_ended]] = True
            remaining = records.take(np.flatnonzero(~is_ended))
            side.replace(each, remaining, touched)
            self._look_again(horizon, each, remaining, service)  # the bounds, and so its timer, may have been different

    def _has_partner(self, side: Side, records: Records, stored: list[Records]) -> Any:
        if side.number == 1:
            _, (first, end) = self._partners(records, stored[1])
            return end > first
        lower, upper = records.times - self._upper, records.times - self._lower
        order = Order(stored[0], (lower, upper))
        return order.after(records.codes, upper) > order.at_or_after(records.codes, lower)


def _check_tags(left: OutputTag | None, right: OutputTag | None) -> None:
    if left is not None and right is not None and left.tag_id == right.tag_id:
        raise JobDefinitionError(
            f"interval_join() got {left!r} for the late records of both streams.",
            action="Give each stream an output of its own.",
        )


def _check_bounds(lower: int, upper: int) -> None:
    if max(abs(lower), abs(upper)) >= FARTHEST:
        raise JobDefinitionError(
            f"interval_join() got the bounds {lower} and {upper} ms.", action=f"Give less than {FARTHEST} ms."
        )
    if lower > upper:
        raise JobDefinitionError(
            f"interval_join() got the bounds {lower} and {upper} ms: no time is between them.",
            action="Give the lower bound first, and a time between them, such as -5 and 10 minutes.",
        )


__all__ = ["IntervalJoin", "IntervalJoinType"]
