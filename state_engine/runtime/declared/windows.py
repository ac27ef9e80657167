"""`window(...).aggregate({...})`: the aggregates of a key's records in each window, given when the window is over."""

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.aggregates import Aggregate
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType
from state_engine.api.windows import TimeWindow
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.runtime.declared.local import RECORDS, LocalAggregation, Pane, is_partial
from state_engine.runtime.declared.windowed import SERIALIZER, WindowedAggregation, bounds_of

_PAIRS = 1 << 20
"""About this number of pairs of a record and a window is in memory at a time; a slice may have some more."""
_FEW = 1 << 10
"""Count all windows in the range, even empty ones, if they are at most this number more than the records."""


class WindowAggregation(WindowedAggregation):
    """Keeps aggregates per key and window; gives one row for each when the watermark passes the window's last ms.

    State and timers of a window are stored under its key, with its text as namespace, as for row functions.

    Args:
        key: The key columns that the rows have.
        assigner: Decides which windows a record is in.
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        late_data: Side output for records whose windows are all over; None if they are dropped.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, or has the name of another column.
    """

    def __init__(
        self,
        key: Sequence[str],
        assigner: Any,
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        late_data: OutputTag | None = None,
    ) -> None:
        super().__init__(key, assigner, aggregates, columns, late_data)
        self._size, self._slide, self._offset = assigner.lengths
        length = gcd(self._size, self._slide)
        has_few_panes = length in (self._size, self._slide)
        if late_data is None and has_few_panes and self._aggregates.partials is not None:
            pane = Pane(length, self._offset)
            self.local = LocalAggregation(self._key, self._key_types, self._aggregates.partials, pane)

    # Records ------------------------------------------------------------------------------------------------------

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        timers = ctx.timer_service()
        times = self._event_times(keys)
        watermark = timers.current_watermark()  # it does not change within an epoch
        last, counts = self._open(times, watermark)
        for records, starts in self._pairs(last, counts):
            windows = self._windows(keys, records, starts)
            self._aggregates.add(windows, self._taken(batch, records))
            ends = starts[windows.first] + (self._size - 1)
            timers.register_event_time_timers(windows.distinct, pa.array(ends))
        return self._late(batch, times, (counts == 0) & (times <= watermark), ctx)

    def _reach(self, earliest: int, latest: int) -> tuple[int, int]:
        return self._last_start(earliest - self._size) + self._slide, self._last_start(latest) + self._size

    def _last_start(self, times: Any) -> Any:
        """Returns the start of the last window that begins at or before these times."""
        return (times - self._offset) // self._slide * self._slide + self._offset  # `%` takes ten times as long

    def _open(self, times: Numbers, over: int) -> tuple[Numbers, Numbers]:
        """Returns for each record the start of its last window, and the number of its windows that are not over."""
        last = self._last_start(times)
        far = int(np.iinfo(np.int64).max) // 2  # further than any window, where a watermark may be
        earliest = np.maximum(times - self._size, min(max(over - self._size + 1, -far), far))
        return last, np.maximum(-((earliest - last) // self._slide), 0)

    def _pairs(self, last: Numbers, counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Yields pairs of record positions and window starts, slice by slice, in the records' order."""
        if counts.max(initial=0) <= 1:
            positions = np.flatnonzero(counts)
            for start in range(0, len(positions), _PAIRS):
                records = positions[start : start + _PAIRS]
                yield records, last[records]
            return
        slices = np.cumsum(counts) // _PAIRS
        for slice_positions in np.split(np.arange(len(counts)), np.flatnonzero(np.diff(slices)) + 1):
            records = np.repeat(slice_positions, counts[slice_positions])
            if len(records):
                before = np.cumsum(counts[slice_positions]) - counts[slice_positions]
                steps_back = np.arange(len(records)) - np.repeat(before, counts[slice_positions])
                yield records, last[records] - self._slide * steps_back

    def _taken(self, batch: pa.RecordBatch, records: Numbers) -> pa.RecordBatch:
        """Returns the columns to aggregate, with one row for each pair of a record and a window."""
        partials = self._aggregates.partials
        needed = batch.select([RECORDS, *partials] if partials and is_partial(batch) else self._aggregates.inputs)
        all_once = self._size <= self._slide and len(records) == batch.num_rows
        return needed if all_once or not needed.num_columns else needed.take(indices(records))

    def _windows(self, keys: Keys, records: Numbers, starts: Numbers) -> Keys:
        """Returns the keys with windows as namespaces, for the methods of states and timers."""
        distinct, windows = self._numbered(starts)
        texts = [SERIALIZER.serialize(TimeWindow(start, start + self._size)) for start in distinct.tolist()]
        return NamespacedKeys([indices(keys.codes[records]), indices(windows)], keys.distinct, texts)

    def _numbered(self, starts: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the distinct starts in order, and for each window the number of its start among them."""
        least = starts.min()
        numbers = (starts - least) // self._slide
        most = int(numbers.max()) + 1
        if most > len(numbers) + _FEW:  # records far apart
            return np.unique(starts, return_inverse=True)
        present = np.bincount(numbers) > 0
        return least + np.flatnonzero(present) * self._slide, (np.cumsum(present) - 1)[numbers]

    # Windows that are over ----------------------------------------------------------------------------------------

    def fire(self, keys: Keys, ctx: Any) -> Any:
        windows = self._fired(keys)
        starts = np.array([window.start for window in bounds_of(windows)])
        return self._rows(windows, starts[windows.spaces], ctx)


__all__ = ["WindowAggregation"]
