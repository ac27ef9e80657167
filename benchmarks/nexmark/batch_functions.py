"""Vectorised functions. Two streams are merged into one: columns of the other stream are null."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import Longs
from benchmarks.nexmark.queries import GAP_MS, SLIDE_MS, WINDOW_MS
from state_engine.api import (
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueState,
    ValueStateDescriptor,
)
from state_engine.api.keys import Keys, indices

NONE = -1
"""Used for null in columns where all numbers are larger."""


def longs(column: Any, null: int = NONE) -> Longs:
    """Returns a column of integers, with null replaced."""
    filled: Longs = pc.fill_null(column, null).to_numpy(zero_copy_only=False)
    return filled


def there(column: Any) -> Any:
    """Returns the positions with a value, and those that are null."""
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid), np.flatnonzero(~valid)


def number(context: RuntimeContext, name: str) -> ValueState[int]:
    """Returns a state of one number per key."""
    return context.get_state(ValueStateDescriptor(name, Types.LONG()))


class SellersAndItems(KeyedBatchProcessFunction):
    """Query 3: joins persons (with a `state`) and auctions (with an `item`) of a seller, whichever comes first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = number(runtime_context, "state")
        self._items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> pa.Table:
        people, items = there(batch.column("state"))
        of_people, of_items, item = keys.take(people), keys.take(items), batch.column("item").take(indices(items))
        self._state.put_many(of_people, batch.column("state").take(indices(people)))
        joined, waiting = there(states := self._state.get_many(of_items))
        self._items.add_many(of_items.take(waiting), item.take(indices(waiting)))
        sold = pa.table([of_items.columns[0], states, item], names=["seller", "state", "item"]).take(indices(joined))
        return pa.concat_tables([sold, self._waiting(of_people)])

    def _waiting(self, people: Keys) -> pa.Table:
        """Returns and removes the auctions that came before their persons."""
        items = self._items.get_many(people)
        self._items.remove_many(people)
        owners = pc.list_parent_indices(items)
        columns = [people.columns[0].take(owners), self._state.get_many(people).take(owners), pc.list_flatten(items)]
        return pa.table(columns, names=["seller", "state", "item"])


class Winners(KeyedBatchProcessFunction):
    """Queries 4 and 9: joins auctions (with an `expires`) and bids; emits each highest bid when the auction ends."""

    def __init__(self, *, prices_alone: bool) -> None:
        self._prices_alone = prices_alone

    def open(self, runtime_context: RuntimeContext) -> None:
        names = ("expires", "category", "price") if self._prices_alone else ("expires", "bidder", "price", "t")
        self._states = {name: number(runtime_context, name) for name in names}

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> None:
        auctions, bids = there(batch.column("expires"))
        of_auctions, expires = keys.take(auctions), batch.column("expires").take(indices(auctions))
        self._states["expires"].put_many(of_auctions, expires)
        ctx.timer_service().register_event_time_timers(of_auctions, expires)
        if self._prices_alone:
            self._states["category"].put_many(of_auctions, batch.column("category").take(indices(auctions)))
        in_time = longs(batch.column("t"))[bids] <= longs(self._states["expires"].get_many(keys.take(bids)))
        self._bid(keys, batch, bids[in_time])

    def _bid(self, keys: Keys, batch: pa.RecordBatch, bids: Longs) -> None:
        """Stores the highest of these bids, which are in order of time, if it is above the stored one."""
        prices = longs(batch.column("price"))
        order = bids[np.lexsort((-prices[bids], keys.codes[bids]))]
        codes = keys.codes[order]
        best = order[np.flatnonzero(np.diff(codes, prepend=NONE))]
        best = best[prices[best] > longs(self._states["price"].get_many(keys.take(best)))]
        of_best = keys.take(best)
        for name in ("price",) if self._prices_alone else ("bidder", "price", "t"):
            self._states[name].put_many(of_best, batch.column(name).take(indices(best)))

    def on_timers(self, keys: Keys, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> pa.Table:
        won, _ = there(self._states["price"].get_many(keys))
        names = ("category", "price") if self._prices_alone else ("bidder", "price", "t")
        rows = {} if self._prices_alone else {"auction": keys.columns[0].take(indices(won))}
        rows |= {name: self._states[name].get_many(keys.take(won)) for name in names}
        for state in self._states.values():
            state.remove_many(keys)
        return ctx.timed(pa.table(rows), timestamps.take(indices(won)))


class Totals(KeyedBatchProcessFunction):
    """Query 4: emits sum and number of a category's prices so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total, self._n = number(runtime_context, "total"), number(runtime_context, "n")

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> pa.Table:
        each = keys.distinct
        total = pa.array(longs(self._total.get_many(each), 0) + keys.sums(batch.column("price")))
        n = pa.array(longs(self._n.get_many(each), 0) + keys.counts())
        self._total.put_many(each, total)
        self._n.put_many(each, n)
        return pa.table([each.columns[0], total, n], names=["category", "total", "n"])


class Counts(KeyedBatchProcessFunction):
    """Query 5: emits a key's count in each window when it is over; a map has the counts by the window's start."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> None:
        """Counts the records of each slide, and adds the counts to all windows of the slide."""
        t, back = np.asarray(keys.times), np.arange(0, WINDOW_MS, SLIDE_MS)
        code, start, n = added(keys.codes, t - t % SLIDE_MS, np.ones_like(t))
        starts_of_each = np.subtract.outer(start, back).ravel()
        code, start, n = added(np.repeat(code, len(back)), starts_of_each, np.repeat(n, len(back)))
        of_each, starts = keys.distinct.take(code), pa.array(start)
        before = longs(self._counts.get_many(of_each, starts), 0)
        self._counts.put_many(of_each, starts, pa.array(before + n))
        new = np.flatnonzero(before == 0)
        ctx.timer_service().register_event_time_timers(of_each.take(new), start[new] + WINDOW_MS - 1)

    def on_timers(self, keys: Keys, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> pa.Table:
        starts = pc.subtract(timestamps, WINDOW_MS - 1)
        n = self._counts.get_many(keys, starts)
        self._counts.remove_many(keys, starts)
        return ctx.timed(pa.table([starts, keys.columns[0], n], names=["start", "auction", "n"]), timestamps)


def added(codes: Longs, starts: Longs, n: Longs) -> list[Longs]:
    """Returns each pair of a key and a start once, with the sum of its numbers."""
    numbers = pa.table([pa.array(column) for column in (codes, starts, n)], names=["code", "start", "n"])
    sums = numbers.group_by(["code", "start"], use_threads=False).aggregate([("n", "sum")])
    return [np.asarray(sums[name]) for name in ("code", "start", "n_sum")]


class Largest(KeyedBatchProcessFunction):
    """Queries 5 and 7: emits the rows of a window with the largest number, when the window is over.

    Args:
        column: Column of the number.
        columns: Columns of the rows; the first one is the start of the window, which is the key.
    """

    def __init__(self, column: str, columns: Sequence[str]) -> None:
        self._column, self._columns = column, columns

    def open(self, runtime_context: RuntimeContext) -> None:
        self._most = number(runtime_context, "most")
        rows = ListStateDescriptor("rows", Types.TUPLE([Types.LONG()] * (len(self._columns) - 1)))
        self._rows = runtime_context.get_list_state(rows)

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> None:
        numbers, windows = longs(batch.column(self._column)), keys.distinct
        before = longs(self._most.get_many(windows))
        most = before.copy()
        np.maximum.at(most, keys.codes, numbers)
        self._most.put_many(windows, pa.array(most))
        self._rows.remove_many(windows.take(np.flatnonzero(most > before)))
        kept = np.flatnonzero(numbers == most[keys.codes])
        fields = [batch.column(name).take(indices(kept)) for name in self._columns[1:]]
        rows = pa.StructArray.from_arrays(fields, names=[f"f{place}" for place in range(len(fields))])
        self._rows.add_many(keys.take(kept), rows)
        new = windows.take(np.flatnonzero(before == NONE))
        ctx.timer_service().register_event_time_timers(new, pc.add(new.columns[0], WINDOW_MS - 1))

    def on_timers(self, keys: Keys, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> pa.Table:
        rows: Any = self._rows.get_many(keys)
        starts = keys.columns[0].take(pc.list_parent_indices(rows))
        for state in (self._most, self._rows):
            state.remove_many(keys)
        fields: Any = pc.list_flatten(rows)
        return pa.table([starts, *fields.flatten()], names=list(self._columns))


class NewSellers(KeyedBatchProcessFunction):
    """Query 8: emits a person and a window, as soon as records of both sides (`side` 1 and 2) came in that window."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = number(runtime_context, "seen")

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> pa.Table:
        each = keys.distinct
        before = longs(self._seen.get_many(each), 0)
        seen = before.copy()
        np.bitwise_or.at(seen, keys.codes, np.asarray(batch.column("side")))
        self._seen.put_many(each, pa.array(seen))
        first = each.take(np.flatnonzero(before == 0))
        ctx.timer_service().register_event_time_timers(first, pc.add(first.columns[1], WINDOW_MS - 1))
        return pa.table(each.take(np.flatnonzero((seen == 3) & (before != 3))).columns, names=["id", "start"])

    def on_timers(self, keys: Keys, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> None:
        self._seen.remove_many(keys)


class Sessions(KeyedBatchProcessFunction):
    """Query 11: sessions of a bidder's bids: emits the bidder, the session's bounds, and the number of bids."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._start, self._n = number(runtime_context, "start"), number(runtime_context, "n")
        self._states = [self._start, number(runtime_context, "last"), self._n]

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> pa.Table:
        """Puts the open session of a key before its records, and splits at pauses."""
        each, t = keys.distinct, longs(batch.column("t"))
        held, _ = there(self._start.get_many(each))
        of_held = each.take(held)
        old_start, old_last, old_n = (longs(state.get_many(of_held)) for state in self._states)
        ctx.timer_service().delete_event_time_timers(of_held, pa.array(old_last + GAP_MS))
        codes = np.concatenate([held, keys.codes])
        order = np.argsort(codes, kind="stable")  # records of a key stay in order of time
        codes, n = codes[order], np.concatenate([old_n, np.ones(len(t), np.int64)])[order]
        start, last = np.concatenate([old_start, t])[order], np.concatenate([old_last, t])[order]
        begins = np.diff(codes, prepend=NONE) != 0
        begins[1:] |= start[1:] - last[:-1] > GAP_MS
        first = np.flatnonzero(begins)
        sessions = start[first], last[np.append(first[1:], len(t) + len(held)) - 1], np.add.reduceat(n, first)
        open_ones = np.diff(codes[first], append=NONE) != 0  # one for each key, in their order
        self._keep(each, [numbers[open_ones] for numbers in sessions], ctx)
        closed = each.take(codes[first][~open_ones])
        start, last, n = (numbers[~open_ones] for numbers in sessions)
        return pa.table([closed.columns[0], start, last + GAP_MS, n], names=["bidder", "start", "ends", "n"])

    def _keep(self, keys: Keys, sessions: list[Longs], ctx: KeyedBatchProcessFunction.Context) -> None:
        """Stores the newest session of each key, and registers its timer."""
        for state, numbers in zip(self._states, sessions, strict=True):
            state.put_many(keys, pa.array(numbers))
        ctx.timer_service().register_event_time_timers(keys, pa.array(sessions[1] + GAP_MS))

    def on_timers(self, keys: Keys, timestamps: Any, ctx: KeyedBatchProcessFunction.OnTimersContext) -> pa.Table:
        columns = [keys.columns[0], self._start.get_many(keys), timestamps, self._n.get_many(keys)]
        for state in self._states:
            state.remove_many(keys)
        return pa.table(columns, names=["bidder", "start", "ends", "n"])


class LastBids(KeyedBatchProcessFunction):
    """Query 18: emits the newest record of each key, in each epoch in which it changes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._price, self._t = number(runtime_context, "price"), number(runtime_context, "t")

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: KeyedBatchProcessFunction.Context) -> Any:
        last = keys.last  # records are in order of time
        newer = last[longs(batch.column("t"))[last] >= longs(self._t.get_many(keys.distinct))]
        of_newer, rows = keys.take(newer), batch.take(indices(newer))
        self._price.put_many(of_newer, rows.column("price"))
        self._t.put_many(of_newer, rows.column("t"))
        return rows


__all__ = ["Counts", "Largest", "LastBids", "NewSellers", "SellersAndItems", "Sessions", "Totals", "Winners"]
