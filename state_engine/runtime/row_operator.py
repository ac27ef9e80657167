"""An operator instance that calls its function record by record."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa

from state_engine.api.functions import KeyedProcessFunction, ProcessFunction
from state_engine.api.timers import TimeDomain
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import MakeBackend
from state_engine.backends.time import MARGIN
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.contexts import RecordContext
from state_engine.runtime.emitted import Emitted, Rows
from state_engine.runtime.operator import Operator
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import field_readers
from state_engine.serialization.rows import row_maker

_EVENT = TimeDomain.EVENT_TIME


class RowOperator(Operator):
    """As `Operator`, for a function with `process_element`."""

    def __init__(
        self, spec: OperatorSpec, subtask: int, parallelism: int, make_backend: MakeBackend = HeapKeyedStateBackend
    ) -> None:
        super().__init__(spec, subtask, parallelism, make_backend)
        self._called = self.function.verb if isinstance(self.function, Adapter) else "process_element"
        self._record = RecordContext(self.context, self.time, self.runtime.timers)
        self._read_columns = field_readers(spec.input)
        self._make_row = row_maker(spec.input)

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        arrays = batch.columns
        columns = self._read(arrays)
        emitted = self._emitted()
        keys = None
        if self.backend is not None:
            keys = self._keys(columns)
            self.backend.prefetch(keys)
        rows = map(self._make_row, *columns)
        if len(arrays) > len(columns):
            self._timed_loop(keys, arrays[-1].to_pylist(), rows, emitted)
        elif emitted.times is not None:
            self._timed_loop(keys, [None] * batch.num_rows, rows, emitted)
        elif keys is not None:
            self._keyed_loop(keys, rows, emitted)
        else:
            self._loop(rows, emitted)
        return self._outputs(emitted)

    def process_rows(self, records: Rows) -> dict[str, pa.RecordBatch]:
        """As `process`, for an operator without key; the records are the objects that another function gave."""
        emitted = self._emitted()
        times = records.times
        if times is None and emitted.times is not None:
            times = [None] * len(records.rows)
        if times is not None:
            self._timed_loop(None, times, records.rows, emitted)
        else:
            self._loop(records.rows, emitted)
        return self._outputs(emitted)

    def _read(self, arrays: Sequence[Any]) -> list[list[Any]]:
        try:
            return [read(column) for read, column in zip(self._read_columns, arrays, strict=False)]
        except BaseException as error:  # the author's codecs may raise it
            raise self._failed(error, "Reading its records raised") from error

    def _keys(self, columns: Sequence[list[Any]] | Mapping[int, list[Any]]) -> list[Any]:
        if len(self._key_positions) == 1:
            return columns[self._key_positions[0]]
        return list(zip(*itemgetter(*self._key_positions)(columns), strict=True))

    def _keyed_loop(self, keys: list[Any], rows: Iterable[Any], emitted: Emitted) -> None:
        """The row path: per record one row object, one key, one call. Measure before you add anything here."""
        function: KeyedProcessFunction = self.function
        process, record, context = function.process_element, self._record, self.context
        take = emitted.taking(process)
        key: Any = None
        row: Any = None
        try:
            for key, row in zip(keys, rows, strict=True):
                context.entry = key
                result = process(row, record)
                if result is not None:
                    take(result)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", key, row) from error

    def _loop(self, rows: Iterable[Any], emitted: Emitted) -> None:
        function: ProcessFunction = self.function
        process, record = function.process_element, self._record
        take = emitted.taking(process)
        row: Any = None
        try:
            for row in rows:
                result = process(row, record)
                if result is not None:
                    take(result)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", None, row) from error

    def _timed_loop(
        self, keys: list[Any] | None, times: list[int | None], rows: Iterable[Any], emitted: Emitted
    ) -> None:
        """As the two loops above, for records with event times. If the watermark follows them, timers fire between."""
        process, record, context, time = self.function.process_element, self._record, self.context, self.time
        out_of_orderness, timers = self.spec.out_of_orderness, None
        # As in `watermark_after`, without a call per record.
        lag = None if out_of_orderness is None else out_of_orderness + MARGIN
        take = emitted.taking(process) if emitted.times is None else None
        record_keys: Iterable[Any] = repeat(None, len(times)) if keys is None else keys
        key: Any = None
        row: Any = None
        try:
            for key, timestamp, row in zip(record_keys, times, rows, strict=True):
                if lag is not None and timestamp is not None and (watermark := timestamp - lag) > time.watermark:
                    time.watermark = watermark
                    if timers is None:
                        timers = self._timers(_EVENT)
                    if timers is not None and timers.first <= watermark:
                        self._fire_due(timers, _EVENT, watermark, emitted)
                time.timestamp = timestamp
                context.entry = key
                result = process(row, record)
                if result is not None:
                    if take is not None:
                        take(result)
                    else:
                        emitted.add(result, timestamp)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", key, row) from error


__all__ = ["RowOperator"]
