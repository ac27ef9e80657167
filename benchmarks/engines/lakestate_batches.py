"""Lakestate's functions over whole batches: as those of `lakestate_functions`, with the same states."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import Longs
from benchmarks.engines.lakestate_functions import EVERY, ITEMS, Notes, count_with_ttl
from state_engine.api import (
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)


class RunningCountOfBatches(KeyedBatchProcessFunction):
    """As `RunningCount`, for all records of an epoch at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> Any:
        each = keys.distinct
        found: Any = self.count.get_many(each)
        before = np.asarray(pc.fill_null(found, 0))
        self.count.put_many(each, before + keys.counts())
        n = pa.array(before[keys.codes] + keys.running_counts())
        return pa.RecordBatch.from_arrays([batch.column("k"), n], names=["k", "n"])


class CountWithTtlOfBatches(RunningCountOfBatches):
    """As `RunningCountOfBatches`, in a value with a time to live of an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(count_with_ttl())


class Lists(NamedTuple):
    """The lists that records go into, key after key: one ends with a record that emits, the next one begins empty.

    Attributes:
        order: The records by key, those of a key in their order.
        of_record: The list of each of these.
        code: The key of each list.
        first: Of each list whether it is the one that its key had before.
        emits: Of each list whether it ended.
    """

    order: Longs
    of_record: Longs
    code: Longs
    first: "np.ndarray[Any, np.dtype[np.bool_]]"
    emits: "np.ndarray[Any, np.dtype[np.bool_]]"


class MapAndListOfBatches(Notes, KeyedBatchProcessFunction):
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
        """Counts items, and returns of each record how many of its item its key has had, with it."""
        _, first, of_record, many = np.unique(
            keys.codes * ITEMS + item, return_index=True, return_inverse=True, return_counts=True
        )
        pairs, items = keys.take(first), pa.array(item[first])
        found: Any = self.counts.get_many(pairs, items)
        before = np.asarray(pc.fill_null(found, 0))
        self.counts.put_many(pairs, items, pa.array(before + many))
        order, places = np.argsort(of_record, kind="stable"), np.empty(len(item), np.int64)
        places[order] = np.arange(len(item)) - np.repeat(np.cumsum(many) - many, many) + 1
        return before[of_record] + places

    def totals(self, keys: Any, lists: Lists, v: Any) -> Longs:
        """Puts values into their lists, and returns the sums of these; only of those that ended they are right."""
        values = v[lists.order]
        sums = np.bincount(lists.of_record, values).astype(np.int64)
        ended = lists.first & lists.emits  # what was kept before is in these, and they are cleared
        cleared = keys.take(keys.first[lists.code[ended]])
        sums[ended] += sums_of_lists(self.values.get_many(cleared))
        self.values.remove_many(cleared)
        left = ~lists.emits[lists.of_record]
        self.values.add_many(keys.take(lists.order[left]), pa.array(values[left]))
        return sums

    def note_many(self, keys: Longs, numbers: Longs) -> None:
        """Adds emitted rows, for which these numbers stand; sums overflow as 64 bits do."""
        self.rows += len(numbers)
        self.sum += int(numbers.sum())
        self.weighted += int((numbers * numbers * keys).sum())


def lists_of(codes: Longs, emits: Any) -> Lists:
    """Returns the lists that records of keys go into; those that emit end theirs."""
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
    found: Longs = sums[ends[1:]] - sums[ends[:-1]]
    return found


__all__ = ["CountWithTtlOfBatches", "MapAndListOfBatches", "RunningCountOfBatches"]
