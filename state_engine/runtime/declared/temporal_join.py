"""`temporal_join`: each record of one stream with the version of its key in another stream at the record's time."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import FiresTogether
from state_engine.runtime.declared.joins import Join, Order, Records, event_times, some_at_once
from state_engine.runtime.two_inputs import KeyedInput

TemporalJoinType = Literal["inner", "left"]
_JOIN_TYPES: dict[str, int] = {"inner": 0, "left": 1}
_LAST = int(np.iinfo(np.int64).max)  # the watermark after the end of the input


class TemporalJoin(Join, FiresTogether):
    """Gives each record of the first stream with the version of its key that was valid at its time.

    The records of the second stream are versions. A version is valid from its time until the time of the key's next
    version. A record waits until the watermark passes its time; by then all versions up to it are known. For each key,
    the newest version that the watermark has passed is kept, and all later ones.

    Args:
        first: The first stream, as it is keyed.
        second: The stream of versions.
        how: `inner`, or `left` if records without a version are also given.
        late_data: Side output for late records of the first stream; None if they are dropped.

    Raises:
        JobDefinitionError: `how` is not allowed, or `Join` raises it.
    """

    verb = "temporal_join"

    def __init__(
        self, first: KeyedInput, second: KeyedInput, how: TemporalJoinType = "inner", late_data: OutputTag | None = None
    ) -> None:
        if str(how) not in _JOIN_TYPES:
            raise JobDefinitionError(f"temporal_join() got how={how!r}.", action="Give 'inner' or 'left'.")
        super().__init__(first, second, ("waiting", "versions"), _JOIN_TYPES[how])
        self._how, self._late_data = how, late_data

    @property
    def argument(self) -> str:
        return self.arguments(how=self._how)

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        times, each, timers = event_times(keys), keys.distinct, ctx.timer_service()
        watermark = timers.current_watermark()
        one, other = self.sides
        positions = one.positions(batch)
        late = times[positions] <= watermark
        waiting = one.records(keys, batch, one.joinable(batch, positions[~late]))
        versions = other.records(keys, batch, other.joinable(batch, other.positions(batch)))
        one.keep(each, waiting)
        other.keep(each, versions)
        # A late version is valid for records that still wait; it only needs one more timer.
        _look_again(each, waiting.codes, waiting.times, timers)
        _look_again(each, versions.codes, np.maximum(versions.times, min(watermark + 1, _LAST)), timers)
        return self.late(self._late_data, one, keys, batch, positions[late])

    def fire(self, keys: Keys, ctx: Any) -> Any:
        for some_keys in some_at_once(keys):
            yield from self._give(some_keys, ctx)

    def _give(self, each: Keys, ctx: Any) -> Iterator[Any]:
        """Yields the due records of some keys; removes records and versions that are not needed any more."""
        timers = ctx.timer_service()
        watermark = timers.current_watermark()
        waiting, versions = (side.stored(each) for side in self.sides)
        order = Order(versions, [waiting.times, np.array([watermark])])
        due = waiting.times <= watermark
        yield from self._versioned(waiting.take(np.flatnonzero(due)), versions, order, each, ctx)
        self._forget(each, waiting, due, versions, order, watermark)
        _look_again(each, waiting.codes[~due], waiting.times[~due], timers)
        to_come = versions.times > watermark
        _look_again(each, versions.codes[to_come], versions.times[to_come], timers)

    def _versioned(self, records: Records, versions: Records, order: Order, each: Keys, ctx: Any) -> Iterator[Any]:
        """Yields records with their versions; then, for a left join, records without a version."""
        version_positions = _valid_at(order, versions, records.codes, records.times)
        with_version = np.flatnonzero(version_positions >= 0)
        matched = records.take(with_version)
        rows = self.rows(matched.rows, versions.rows.take(indices(version_positions[with_version])))
        yield ctx.timed(rows, pa.array(matched.times))
        if self.sides[0].keeps_unmatched:
            alone = records.take(np.flatnonzero(version_positions < 0))
            yield ctx.timed(self.alone(self.sides[0], alone, each), pa.array(alone.times))

    def _forget(self, each: Keys, waiting: Records, due: Any, versions: Records, order: Order, over: int) -> None:
        """Removes the records that were given, and the versions that no record needs any more."""
        one, other = self.sides
        touched = np.zeros(len(each), bool)
        touched[waiting.codes[due]] = True
        one.replace(each, waiting.take(np.flatnonzero(~due)), touched)
        newest = _valid_at(order, versions, np.arange(len(each)), np.full(len(each), over))
        kept = versions.times > over
        kept[newest[newest >= 0]] = True
        outdated = np.zeros(len(each), bool)
        outdated[versions.codes[~kept]] = True
        other.replace(each, versions.take(np.flatnonzero(kept)), outdated)


def _valid_at(order: Order, versions: Records, codes: Numbers, times: Numbers) -> Numbers:
    """Returns the position of each key's newest version at a time (of equal times, the last to come); -1 for none."""
    before = order.after(codes, times) - 1
    if not len(order.positions):
        return before
    positions = order.positions[before]  # for -1 it is the last one, which is of another key or later
    return np.where((before >= 0) & (versions.codes[positions] == codes), positions, -1)


def _look_again(each: Keys, codes: Numbers, times: Numbers, timers: Any) -> None:
    """Registers a timer for each key at the earliest of its times."""
    if len(codes):
        numbers, first = np.unique(codes, return_inverse=True)
        earliest = np.full(len(numbers), _LAST)
        np.minimum.at(earliest, first, times)
        timers.register_event_time_timers(each.take(numbers), pa.array(earliest))


__all__ = ["TemporalJoin", "TemporalJoinType"]
