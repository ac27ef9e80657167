"""The base of declared aggregates of windows: which records can be in a window, and the rows of windows."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.aggregates import Aggregate
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.api.windows.windows import TimeWindow, TimeWindowSerializer, event_time
from state_engine.backends.batch_keys import EntryKeys, NamespacedKeys, namespaced_keys
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import FiresTogether, renaming, types_of
from state_engine.runtime.declared.comparison import Flags
from state_engine.runtime.declared.named import NamedAggregates
from state_engine.serialization.convert import writer
from state_engine.serialization.types import to_arrow

START, END = "window_start", "window_end"
SERIALIZER = TimeWindowSerializer()
_TEXT = r"^-?\d+/-?\d+$"
"""The form of the texts that it writes."""
_BOUND = Types.INSTANT()
_LEAST, _LARGEST = (
    (bound.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    for bound in (datetime.min, datetime.max)
)  # ms: the range of timestamps that Python can read


class WindowedAggregation(FiresTogether):
    """Keeps aggregates per key and window; gives one row for each when the watermark passes the window's last ms.

    Args:
        key: The key columns that the rows have.
        assigner: Decides which windows a record is in.
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        late_data: Side output for records whose windows are all over; None if they are dropped.

    Attributes:
        assigner: Decides which windows a record is in.
        output: Columns of the rows: the key, start and end of the window, then the results.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, or has the name of another column.
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
        _check(key)
        self._key = tuple(key)
        self._key_types = types_of(key, columns)
        self.assigner = assigner
        self._columns = columns.names
        beside = dict.fromkeys(key, "a key column") | dict.fromkeys((START, END), "a column of the window's bounds")
        self._aggregates = NamedAggregates(aggregates, columns, beside)
        self._late_data = late_data
        types = self._aggregates.types
        self.output = StructType((*key, START, END, *types), (*self._key_types, _BOUND, _BOUND, *types.values()))

    @property
    def argument(self) -> str:
        return f"{self._aggregates}, windows={self.assigner!r}"

    def open(self, runtime_context: RuntimeContext) -> None:
        self._aggregates.open(runtime_context, self)
        self._write_key = [writer(one) for one in self._key_types]

    @abstractmethod
    def _reach(self, earliest: int, latest: int) -> tuple[int, int]:
        """Returns the start of the first window of records between two times, and the end of the last one, in ms."""

    def _event_times(self, keys: Keys) -> Numbers:
        """Returns the event time of each record.

        Raises:
            ValueError: A record has no event time.
            OverflowError: The bounds of a record's windows are no timestamps.
        """
        if keys.times is None or keys.times.null_count:
            event_time(None)
        times = np.asarray(keys.times)
        if len(times):
            earliest, latest = int(times.min()), int(times.max())
            first_start, last_end = self._reach(earliest, latest)
            too_late = max(latest, last_end) > _LARGEST
            if too_late or min(earliest, first_start) < _LEAST:
                raise OverflowError(
                    f"a record's event time is {latest if too_late else earliest} ms: its windows have bounds "
                    "outside the range of timestamps, which is from the year 1 to 9999"
                )
        return times

    def _late(self, batch: pa.RecordBatch, times: Numbers, late: Flags, ctx: Any) -> Any:
        """Returns the side output of records that are in no open window, because all of their windows are over."""
        if self._late_data is None:
            return None
        positions = indices(np.flatnonzero(late))
        return self._late_data, ctx.timed(batch.select(self._columns).take(positions), pa.array(times).take(positions))

    def _fired(self, keys: Keys) -> NamespacedKeys:
        """Returns the keys and windows of timers.

        Raises:
            JobDefinitionError: A timer is that of another function.
        """
        if isinstance(keys, EntryKeys):
            return namespaced_keys(keys.each, self._key_columns, keys.times)
        if not isinstance(keys, NamespacedKeys):
            raise _strange()
        return keys

    def _rows(self, windows: NamespacedKeys, starts: Numbers, ctx: Any) -> Any:
        """Returns a row for each window that is over, and deletes the window's state.

        Args:
            windows: Key and namespace of each window; its time is the window's last ms.
            starts: Starts of the windows, in ms.
            ctx: Adds event times to rows.
        """
        of_own = indices(windows.of_own)
        key_columns = zip(self._key, windows.own.columns, strict=False)  # rows of windows without a key show no key
        rows = {name: column.take(of_own) for name, column in key_columns}
        bounds = {START: starts, END: np.asarray(windows.times) + 1}
        rows |= {name: pa.array(ms * 1000).cast(to_arrow(_BOUND)) for name, ms in bounds.items()}
        table = ctx.timed(pa.table(rows | self._aggregates.take(windows)), windows.times)
        # Sorted, so that the order does not depend on whether a cache was warm. Sorting by columns costs little here.
        return table.sort_by([(name, "ascending") for name in (END, START, *self._key)])

    def _key_columns(self, entries: list[Any]) -> list[Any]:
        if not self._key:
            return [pa.nulls(len(entries), pa.bool_())]
        parts = [entries] if len(self._key) == 1 else [[key[i] for key in entries] for i in range(len(self._key))]
        return [write(part) for write, part in zip(self._write_key, parts, strict=True)]


def texts_of(starts: Numbers, ends: Numbers) -> Any:
    """Returns the namespaces of windows as a column, in the form that `SERIALIZER` writes."""
    bounds: list[Any] = [pa.array(ms).cast(pa.string()) for ms in (starts, ends)]
    return pc.binary_join_element_wise(*bounds, "/")


def checked_texts(windows: NamespacedKeys) -> Any:
    """Returns the namespaces of windows as a column; raises as `bounds_of`, but makes no object for each window."""
    texts = pa.array(windows.namespaces, pa.string())
    if texts.null_count or not pc.all(pc.match_substring_regex(texts, _TEXT)).as_py():
        raise _strange()
    return texts


def bounds_of(windows: NamespacedKeys) -> list[TimeWindow]:
    """Returns the windows of namespaces.

    Raises:
        JobDefinitionError: A namespace is not a window: its timer is that of another function.
    """
    try:
        return [SERIALIZER.deserialize(text) for text in windows.namespaces]  # type: ignore[arg-type]
    except (AttributeError, ValueError):
        raise _strange() from None


def _strange() -> JobDefinitionError:
    return JobDefinitionError(
        "aggregate() of windows found a timer that belongs to no time window: another function had this uid.",
        action="Give the operator another uid.",
    )


def _check(key: Sequence[str]) -> None:
    for name in key:
        if name.lower() in (START, END):
            raise JobDefinitionError(
                f"aggregate() of windows got the key column {name!r}: its rows have the window's bounds by this name.",
                action=renaming(name),
            )


__all__ = ["END", "SERIALIZER", "START", "WindowedAggregation", "bounds_of", "checked_texts", "texts_of"]
