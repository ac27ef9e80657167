"""Contexts of functions that take batches of records or timers: the clocks, and timers of many keys."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.functions import KeyedBatchProcessFunction
from state_engine.api.keys import Keys, Numbers
from state_engine.api.timers import BatchTimerService, TimeDomain
from state_engine.backends.time import OperatorTime
from state_engine.runtime.emitted import EVENT_TIME


class BatchTimers(BatchTimerService):
    """Registers and deletes timers of many keys.

    Args:
        time: The operator's clocks.
        tables: Gives the timers of a clock.
    """

    def __init__(self, time: OperatorTime, tables: Any) -> None:
        self._time = time
        self._tables = tables

    def current_processing_time(self) -> int:
        return self._time.processing_time

    def current_watermark(self) -> int:
        return self._time.watermark

    def register_processing_time_timers(self, keys: Keys, timestamps: Any) -> None:
        self._register(TimeDomain.PROCESSING_TIME, keys, timestamps)

    def register_event_time_timers(self, keys: Keys, timestamps: Any) -> None:
        self._register(TimeDomain.EVENT_TIME, keys, timestamps)

    def delete_processing_time_timers(self, keys: Keys, timestamps: Any) -> None:
        self._delete(TimeDomain.PROCESSING_TIME, keys, timestamps)

    def delete_event_time_timers(self, keys: Keys, timestamps: Any) -> None:
        self._delete(TimeDomain.EVENT_TIME, keys, timestamps)

    def _register(self, domain: TimeDomain, keys: Keys, timestamps: Any) -> None:
        self._tables(domain).register_keys(*_timers(keys, timestamps))

    def _delete(self, domain: TimeDomain, keys: Keys, timestamps: Any) -> None:
        self._tables(domain).delete_keys(*_timers(keys, timestamps))


def _timers(keys: Keys, timestamps: Any) -> tuple[Keys, Numbers]:
    """Returns keys and their times, without the keys whose time is null."""
    times = _milliseconds("timers", timestamps, len(keys))
    if times.null_count:
        keys, times = keys.take(np.flatnonzero(np.asarray(pc.is_valid(times)))), times.drop_null()
    return keys, np.asarray(times)


class BatchContext(KeyedBatchProcessFunction.Context):
    """The context of a batch of records."""

    def __init__(self, timers: BatchTimers) -> None:
        self._timers = timers

    def timer_service(self) -> BatchTimerService:
        return self._timers

    def timed(self, rows: Any, times: Any) -> pa.Table:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        given = pa.nulls(table.num_rows) if times is None else times
        return table.append_column(EVENT_TIME, _milliseconds("event times", given, table.num_rows))


class TimersContext(BatchContext, KeyedBatchProcessFunction.OnTimersContext):
    """The context of a batch of timers.

    Attributes:
        domain: The clock of the timers.
    """

    def __init__(self, timers: BatchTimers) -> None:
        super().__init__(timers)
        self.domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        return self.domain


def _milliseconds(what: str, given: Any, count: int) -> Any:
    """Returns times as an Arrow array of 64-bit integers; raises for a wrong type or number of them."""
    array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    array = array if isinstance(array, pa.Array) else pa.array(array)
    if not (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        raise TypeError(f"{what} got a column of {array.type}, not integers of milliseconds")
    if len(array) != count:
        raise ValueError(f"{what} got {len(array)} timestamps for {count} rows")
    return array.cast(pa.int64())


__all__ = ["BatchContext", "BatchTimers", "TimersContext"]
