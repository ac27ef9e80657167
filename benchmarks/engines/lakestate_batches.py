"""Lakestate's vectorised functions, which do the same as those of `lakestate_functions`, with the same states."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import Longs
from benchmarks.engines.lakestate_functions import EVERY, ITEMS, Notes, count_with_ttl, open_session
from state_engine.api import (
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.keys import indices, order_of


class RunningCountOfBatches(KeyedBatchProcessFunction):
    """As `RunningCount`, for all records of an epoch at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> Any:
        each = keys.distinct
        counts: Any = self.count.get_many(each)
        before = np.asarray(pc.fill_null(counts, 0))
        self.count.put_many(each, before + keys.counts())
        n = pa.array(before[keys.codes] + keys.running_counts())
        return pa.RecordBatch.from_arrays([batch.column("k"), n], names=["k", "n"])


class CountWithTtlOfBatches(RunningCountOfBatches):
    """As `RunningCountOfBatches`, in a value with a time to live of an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(count_with_ttl())


class Lists(NamedTuple):
    """The lists to which records are added, key after key: a list ends with a record that emits, the next begins empty.

    Attributes:
        order: Positions of the records sorted by key; the records of a key stay in order.
        of_record: The list of each of these records.
        code: The key of each list.
        first: For each list, whether it is the one that its key had before.
        emits: For each list, whether it ended.
    """

    order: Longs
    of_record: Longs
    code: Longs
    first: "np.ndarray[Any, np.dtype[np.bool_]]"
    emits: "np.ndarray[Any, np.dtype[np.bool_]]"


class NotingOfBatches(Notes, KeyedBatchProcessFunction):
    """Base of vectorised functions that note sums of their emitted rows."""

    def note_many(self, keys: Longs, numbers: Longs) -> None:
        """Adds emitted rows with these numbers; sums overflow in 64 bits."""
        self.rows += len(numbers)
        self.sum += int(numbers.sum())
        self.weighted += int((numbers * numbers * keys).sum())


class MapAndListOfBatches(NotingOfBatches):
    """As `MapAndList`, for all records of an epoch at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.INT(), Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> Any:
        item, v = (np.asarray(batch.column(name)) for name in ("item", "v"))
        n = self.counted(keys, item)
        lists = lists_of(keys.codes, n % EVERY == 0)
        totals = self.totals(keys, lists, v)
        last = lists.order[np.flatnonzero(np.append(np.diff(lists.of_record), 1))][lists.emits]
        k, total = batch.column("k").take(pa.array(last)), totals[lists.emits]
        self.note_many(np.asarray(k), (total + n[last]) * ITEMS + item[last])
        columns = [k, pa.array(item[last]), pa.array(n[last]), pa.array(total)]
        return pa.RecordBatch.from_arrays(columns, names=["k", "item", "n", "total"])

    def counted(self, keys: Any, item: Any) -> Longs:
        """Counts items, and returns for each record the count of its key's item, including this record."""
        _, first, of_record, counts = np.unique(
            keys.codes * ITEMS + item, return_index=True, return_inverse=True, return_counts=True
        )
        pairs, items = keys.take(first), pa.array(item[first])
        stored: Any = self.counts.get_many(pairs, items)
        before = np.asarray(pc.fill_null(stored, 0))
        self.counts.put_many(pairs, items, pa.array(before + counts))
        order, places = np.argsort(of_record, kind="stable"), np.empty(len(item), np.int64)
        places[order] = np.arange(len(item)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        return before[of_record] + places

    def totals(self, keys: Any, lists: Lists, v: Any) -> Longs:
        """Adds values to their lists, and returns the sums of lists; only the sums of ended lists are complete."""
        values = v[lists.order]
        sums = np.bincount(lists.of_record, values).astype(np.int64)
        ended = lists.first & lists.emits  # these include stored values, and are then cleared
        cleared = keys.take(keys.first[lists.code[ended]])
        sums[ended] += sums_of_lists(self.values.get_many(cleared))
        self.values.remove_many(cleared)
        remaining = ~lists.emits[lists.of_record]
        self.values.add_many(keys.take(lists.order[remaining]), pa.array(values[remaining]))
        return sums


def lists_of(codes: Longs, emits: Any) -> Lists:
    """Returns the lists to which records of keys are added; a record that emits ends its list."""
    order = np.argsort(codes, kind="stable")
    code, ends = codes[order], emits[order]
    of_key = np.append(True, code[1:] != code[:-1])
    begins = of_key | np.append(True, ends[:-1])
    starts = np.flatnonzero(begins)
    of_record = np.cumsum(begins) - 1
    return Lists(order, of_record, code[starts], of_key[starts], np.bincount(of_record, ends).astype(bool))


def sums_of_lists(lists: Any) -> Longs:
    """Returns the sum of each list."""
    ends = np.cumsum(np.append(0, np.asarray(pc.list_value_length(lists))))
    sums: Longs = np.cumsum(np.append(0, np.asarray(pc.list_flatten(lists)))).astype(np.int64)
    totals: Longs = sums[ends[1:]] - sums[ends[:-1]]
    return totals


class SessionsOfBatches(NotingOfBatches):
    """As `Sessions`, for all records of an epoch at once."""

    def __init__(self, gap_ms: int) -> None:
        self.gap = gap_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self.session = runtime_context.get_state(open_session())

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> Any:
        """Puts the open session of a key before its records, and splits at pauses."""
        each, t = keys.distinct, np.asarray(batch.column("t"))
        sessions: Any = self.session.get_many(each)
        held = np.flatnonzero(np.asarray(sessions.is_valid()))
        count, last = map(np.asarray, sessions.drop_null().flatten())
        codes = np.concatenate([held, keys.codes])
        order = order_of(codes)  # records of a key stay in order of time
        codes, times = codes[order], np.concatenate([last, t])[order]
        begins = np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(times) > self.gap)))
        ends = np.append(begins[1:], len(codes)) - 1
        n = np.add.reduceat(np.concatenate([count, np.ones_like(t)])[order], begins)
        codes, last_times = codes[ends], times[ends]
        is_open = np.append(np.diff(codes) != 0, True)  # the last session of each key, in the order of `each`
        self.session.put_many(each, both(n[is_open], last_times[is_open]))
        timers = ctx.timer_service()
        timers.delete_event_time_timers(each.take(held), last + self.gap)
        timers.register_event_time_timers(each, last_times[is_open] + self.gap)
        return self.closed(each.take(codes[~is_open]), n[~is_open])

    def on_timers(self, keys: Any, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> Any:
        """Closes sessions; a key has only the timer of its open session."""
        sessions: Any = self.session.get_many(keys)
        self.session.remove_many(keys)
        return self.closed(keys, np.asarray(sessions.flatten()[0]))

    def closed(self, keys: Any, n: Longs) -> Any:
        """Returns the rows of sessions."""
        [k] = keys.columns
        self.note_many(np.asarray(k), n)
        return pa.RecordBatch.from_arrays([k, pa.array(n)], names=["k", "n"])


class WindowsOfBatches(KeyedBatchProcessFunction):
    """Count and sum of each key and window, by the start of the window."""

    def __init__(self, size_ms: int) -> None:
        self.size = size_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        sums = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.windows = runtime_context.get_map_state(MapStateDescriptor("windows", Types.LONG(), sums))

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> None:
        t = np.asarray(keys.times)
        records = pa.table({"code": keys.codes, "start": t - t % self.size, "v": batch.column("v")})
        sums = records.group_by(["code", "start"], use_threads=False).aggregate([("v", "count"), ("v", "sum")])
        code, start, *added = (sums[name].combine_chunks() for name in ("code", "start", "v_count", "v_sum"))
        of_each = keys.distinct.take(code)
        before: Any = self.windows.get_many(of_each, start)
        pairs = zip(before.flatten(), added, strict=True)
        self.windows.put_many(of_each, start, both(*(pc.add(pc.fill_null(old, 0), new) for old, new in pairs)))
        new = np.flatnonzero(np.asarray(before.is_null()))
        ends = pc.add(start.take(indices(new)), self.size - 1)
        ctx.timer_service().register_event_time_timers(of_each.take(new), ends)

    def on_timers(self, keys: Any, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> Any:
        start = pc.subtract(timestamps, self.size - 1)
        windows: Any = self.windows.get_many(keys, start)
        self.windows.remove_many(keys, start)
        columns = [keys.columns[0], start, *windows.flatten()]
        return pa.RecordBatch.from_arrays(columns, names=["k", "window_start", "n", "total"])


def both(first: Any, second: Any) -> Any:
    """Returns pairs, in the form of states with two numbers."""
    return pa.StructArray.from_arrays([pa.array(first), pa.array(second)], names=["f0", "f1"])


__all__ = [
    "CountWithTtlOfBatches",
    "MapAndListOfBatches",
    "RunningCountOfBatches",
    "SessionsOfBatches",
    "WindowsOfBatches",
]
