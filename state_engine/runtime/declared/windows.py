"""`window(...).aggregate({...})`: what the records of a key come to in each window, once the window is over."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.aggregates import Aggregate
from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType, Types
from state_engine.api.windows import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from state_engine.api.windows.windows import TimeWindowSerializer, event_time
from state_engine.backends.keys import NamespacedKeys
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import DescriptorT, FiresTogether, renaming, types_of
from state_engine.runtime.declared.comparison import Flags
from state_engine.runtime.declared.local import RECORDS, LocalAggregation, Pane, is_partial
from state_engine.runtime.declared.named import NamedAggregates
from state_engine.serialization.convert import writer
from state_engine.serialization.types import to_arrow

START, END = "window_start", "window_end"
_BOUND = Types.INSTANT()
_SERIALIZER = TimeWindowSerializer()
_LEAST, _LARGEST = (
    (bound.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    for bound in (datetime.min, datetime.max)
)  # ms: what a timestamp can be that Python reads
_PAIRS = 1 << 20
"""So many pairs of a record and a window are at hand at once, and some more."""


class WindowAggregation(FiresTogether):
    """Keeps aggregates per key and window; gives one row of each when the watermark passes the window's last ms.

    State and timers of a window stand under its key with its text as namespace, as those of row functions do.

    Args:
        key: The key columns that the rows have.
        assigner: Which windows a record is in.
        aggregates: By the name of the result.
        columns: Of the records.
        late_data: Where records go whose windows are all over; None if they are dropped.

    Attributes:
        output: Columns of the rows: the key, start and end of the window, then the results.

    Raises:
        JobDefinitionError: An aggregate cannot be made of these columns, or has the name of another column; windows of
            this kind are not there by columns.
    """

    verb = "aggregate"
    in_turn = False

    def __init__(
        self,
        key: Sequence[str],
        assigner: Any,
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        late_data: OutputTag | None = None,
    ) -> None:
        super().__init__(None)
        _check(key, assigner)
        self._key = tuple(key)
        self._key_types = types_of(key, columns)
        self._assigner = assigner
        self._size, self._slide, self._offset = assigner.lengths
        self._columns = columns.names
        beside = dict.fromkeys(key, "a key column") | dict.fromkeys((START, END), "a column of the window's bounds")
        self._aggregates = NamedAggregates(aggregates, columns, beside)
        self._late_data = late_data
        length = gcd(self._size, self._slide)
        has_few_panes = length in (self._size, self._slide)
        if late_data is None and has_few_panes and self._aggregates.partials is not None:
            pane = Pane(length, self._offset)
            self.local = LocalAggregation(self._key, self._key_types, self._aggregates.partials, pane)
        types = self._aggregates.types
        self.output = StructType((*key, START, END, *types), (*self._key_types, _BOUND, _BOUND, *types.values()))

    @property
    def argument(self) -> str:
        return f"{self._aggregates}, windows={self._assigner!r}"

    def kept(self, descriptor: DescriptorT) -> DescriptorT:
        if isinstance(descriptor, ValueStateDescriptor):
            descriptor.by_namespace = True
        return super().kept(descriptor)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._aggregates.open(runtime_context, self)
        self._write_key = [writer(one) for one in self._key_types]

    # Records ------------------------------------------------------------------------------------------------------

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        timers = ctx.timer_service()
        times = self._event_times(keys)
        over = timers.current_watermark()  # it stands still within an epoch
        last, counts = self._open(times, over)
        for records, starts in self._pairs(last, counts):
            windows = self._windows(keys, records, starts)
            self._aggregates.add(windows, self._taken(batch, records))
            ends = starts[windows.first] + (self._size - 1)
            timers.register_event_time_timers(windows.distinct, pa.array(ends))
        return self._late(batch, times, (counts == 0) & (times <= over), ctx)

    def _event_times(self, keys: Keys) -> Numbers:
        """Returns the event time of each record.

        Raises:
            ValueError: One has none.
            OverflowError: The bounds of its windows are no timestamps.
        """
        if keys.times is None or keys.times.null_count:
            event_time(None)
        times = np.asarray(keys.times)
        if len(times):
            earliest, latest = int(times.min()), int(times.max())
            first_start = self._last_start(earliest - self._size) + self._slide
            last_end = self._last_start(latest) + self._size
            too_late = max(latest, last_end) > _LARGEST
            if too_late or min(earliest, first_start) < _LEAST:
                raise OverflowError(
                    f"a record's event time is {latest if too_late else earliest} ms: its windows have no bounds that "
                    "a timestamp can be, from the year 1 to 9999"
                )
        return times

    def _last_start(self, times: Any) -> Any:
        """Returns the start of the last window that begins at these times, or before them."""
        return times - (times - self._offset) % self._slide

    def _open(self, times: Numbers, over: int) -> tuple[Numbers, Numbers]:
        """Returns of each record the start of its last window, and how many windows up to that are not over."""
        last = self._last_start(times)
        far = int(np.iinfo(np.int64).max) // 2  # as a watermark may be: it is further off than any window
        behind = np.maximum(times - self._size, min(max(over - self._size + 1, -far), far))
        return last, np.maximum(-((behind - last) // self._slide), 0)

    def _pairs(self, last: Numbers, counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
        """Yields positions of records and starts of their windows, slice by slice, in the records' order."""
        slices = np.cumsum(counts) // _PAIRS
        for at in np.split(np.arange(len(counts)), np.flatnonzero(np.diff(slices)) + 1):
            records = np.repeat(at, counts[at])
            if len(records):
                before = np.cumsum(counts[at]) - counts[at]
                back = np.arange(len(records)) - np.repeat(before, counts[at])
                yield records, last[records] - self._slide * back

    def _taken(self, batch: pa.RecordBatch, records: Numbers) -> pa.RecordBatch:
        """Returns what is aggregated of records, each as often as it is in a window."""
        partials = self._aggregates.partials
        needed = batch.select([RECORDS, *partials] if partials and is_partial(batch) else self._aggregates.inputs)
        all_once = self._size <= self._slide and len(records) == batch.num_rows
        return needed if all_once or not needed.num_columns else needed.take(indices(records))

    def _windows(self, keys: Keys, records: Numbers, starts: Numbers) -> Keys:
        """Returns keys with windows as their namespaces, for the methods of states and timers."""
        distinct, windows = np.unique(starts, return_inverse=True)
        texts = [_SERIALIZER.serialize(TimeWindow(start, start + self._size)) for start in distinct.tolist()]
        return NamespacedKeys([indices(keys.codes[records]), indices(windows)], keys.entries, texts)

    def _late(self, batch: pa.RecordBatch, times: Numbers, late: Flags, ctx: Any) -> Any:
        """Returns the records that no window took because all of theirs are over."""
        if self._late_data is None:
            return None
        positions = indices(np.flatnonzero(late))
        return self._late_data, ctx.timed(batch.select(self._columns).take(positions), pa.array(times).take(positions))

    # Windows that are over ----------------------------------------------------------------------------------------

    def fire(self, keys: Keys, ctx: Any) -> Any:
        entries = keys.entries
        starts = _starts(entries)
        numbers = {text: number for number, text in enumerate(starts)}
        windows = np.array([numbers[entry.namespace] for entry in entries])
        own = [entry.key for entry in entries]
        rows = dict(zip(self._key, self._key_columns(own), strict=True))
        bounds = {START: np.array(list(starts.values()))[windows], END: np.asarray(keys.times) + 1}
        rows |= {name: pa.array(ms * 1000).cast(to_arrow(_BOUND)) for name, ms in bounds.items()}
        of_windows = NamespacedKeys([indices(np.arange(len(own))), indices(windows)], own, list(starts))
        given = ctx.timed(pa.table(rows | self._aggregates.take(of_windows)), keys.times)
        # As far as nobody can tell from their order whether a cache was warm: sorted here, by columns, it costs little.
        return given.sort_by([(name, "ascending") for name in (END, START, *self._key)])

    def _key_columns(self, entries: list[Any]) -> list[Any]:
        parts = [entries] if len(self._key) == 1 else [[key[i] for key in entries] for i in range(len(self._key))]
        return [write(part) for write, part in zip(self._write_key, parts, strict=True)]


def _starts(entries: list[Any]) -> dict[str, int]:
    """Returns the windows that entries are in, which timers were there for, by their texts, and the start of each.

    Raises:
        JobDefinitionError: It is the timer of another function.
    """
    try:
        texts = dict.fromkeys(entry.namespace for entry in entries)
        return {text: _SERIALIZER.deserialize(text).start for text in texts}
    except (AttributeError, ValueError):
        raise JobDefinitionError(
            "aggregate() of windows found a timer that is of no window of time: another function had this uid.",
            action="Give the operator another uid.",
        ) from None


def _check(key: Sequence[str], assigner: Any) -> None:
    if type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows):
        raise JobDefinitionError(
            f"aggregate() by columns got {assigner!r}.",
            action="Give TumblingEventTimeWindows or SlidingEventTimeWindows, or an AggregateFunction in place of the "
            "aggregates: it takes all windows.",
        )
    for name in key:
        if name.lower() in (START, END):
            raise JobDefinitionError(
                f"aggregate() of windows got the key column {name!r}: its rows have the window's bounds by this name.",
                action=renaming(name),
            )


__all__ = ["END", "START", "WindowAggregation"]
