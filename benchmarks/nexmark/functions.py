"""Row functions over one or two streams."""

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.nexmark.queries import GAP_MS, WINDOW_MS
from state_engine.api import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.windows import TimeWindow, WindowFunction


class SellersAndItems(KeyedCoProcessFunction):
    """Query 3: joins a person with all its auctions, whichever comes first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("state", Types.LONG()))
        self._items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        """Processes an auction."""
        state = self._state.value()
        if state is None:
            self._items.add(value.id)
            return ()
        return ((value.seller, state, value.id),)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        """Processes a person."""
        self._state.update(value.state)
        waiting = [(value.id, value.state, item) for item in self._items.get()]
        if waiting:
            self._items.clear()
        return waiting


class Winners(KeyedCoProcessFunction):
    """Queries 4 and 9: emits the highest bid of each auction, the first of several, when the auction ends.

    Args:
        prices_alone: Whether to emit category and price; otherwise the auction and its bid.
    """

    def __init__(self, *, prices_alone: bool) -> None:
        self._prices_alone = prices_alone

    def open(self, runtime_context: RuntimeContext) -> None:
        self._auction = runtime_context.get_state(
            ValueStateDescriptor("auction", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )
        self._best = runtime_context.get_state(
            ValueStateDescriptor("best", Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
        )

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        """Processes an auction."""
        self._auction.update((value.category, value.expires))
        ctx.timer_service().register_event_time_timer(value.expires)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        """Processes a bid. It comes after its auction, since records are in order of time."""
        auction = self._auction.value()
        if auction is None or value.t > auction[1]:
            return
        best = self._best.value()
        if best is None or value.price > best[1]:
            self._best.update((value.bidder, value.price, value.t))

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        auction, best = self._auction.value(), self._best.value()
        if auction is not None and best is not None:
            yield (auction[0], best[1]) if self._prices_alone else (ctx.get_current_key(), *best)
        self._auction.clear()
        self._best.clear()


class Totals(KeyedProcessFunction):
    """Query 4: emits with each price the sum and number of its category's prices so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        totals = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._totals = runtime_context.get_state(ValueStateDescriptor("totals", totals))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total, n = self._totals.value() or (0, 0)
        self._totals.update((total + value.price, n + 1))
        return ((value.category, total + value.price, n + 1),)


class Counts(AggregateFunction):
    """Query 5: counts the records of a window."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class OfWindow(WindowFunction[int, tuple[int, int, int], int, TimeWindow]):
    """Adds the start of a window and the key to its count."""

    def apply(self, key: int, window: TimeWindow, inputs: Iterable[int]) -> list[tuple[int, int, int]]:
        return [(window.start, key, n) for n in inputs]


class Largest(KeyedProcessFunction):
    """Queries 5 and 7: emits the rows of a key with the largest number, when a time has passed.

    Args:
        column: Column of the number.
        behind: This time is this many ms after the key, which itself is a time.
    """

    def __init__(self, column: str, behind: int) -> None:
        self._column, self._behind = column, behind

    def open(self, runtime_context: RuntimeContext) -> None:
        self._most = runtime_context.get_state(ValueStateDescriptor("most", Types.LONG()))
        rows = Types.TUPLE([Types.LONG()] * (2 if self._column == "n" else 4))
        self._rows = runtime_context.get_list_state(ListStateDescriptor("rows", rows))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        number, most = getattr(value, self._column), self._most.value()
        if most is None:
            ctx.timer_service().register_event_time_timer(ctx.get_current_key() + self._behind)
        if most is None or number > most:
            self._most.update(number)
            self._rows.update([tuple(value)[1:]])
        elif number == most:
            self._rows.add(tuple(value)[1:])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        for row in self._rows.get():
            yield (ctx.get_current_key(), *row)
        self._most.clear()
        self._rows.clear()


class NewSellers(KeyedCoProcessFunction):
    """Query 8: emits a person and a window, as soon as the person and one of its auctions came in that window."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        """Processes a person."""
        return self._process(1, ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        """Processes an auction."""
        return self._process(2, ctx)

    def _process(self, side: int, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        seen = self._seen.value() or 0
        if seen | side == seen:
            return ()
        self._seen.update(seen | side)
        key = ctx.get_current_key()
        if not seen:
            ctx.timer_service().register_event_time_timer(key[1] + WINDOW_MS - 1)
            return ()
        return (key,)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> None:
        self._seen.clear()


class Sessions(KeyedProcessFunction):
    """Query 11: sessions of a bidder's bids: emits the bidder, the session's bounds, and the number of bids."""

    def open(self, runtime_context: RuntimeContext) -> None:
        session = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self._session = runtime_context.get_state(ValueStateDescriptor("session", session))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        t, timers, held = value.t, ctx.timer_service(), self._session.value()
        if held is None:
            self._session.update((t, t, 1))
        else:  # it is not over: its timer would have fired
            start, last, n = held
            timers.delete_event_time_timer(last + GAP_MS)
            self._session.update((start, t, n + 1))
        timers.register_event_time_timer(t + GAP_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        held = self._session.value()
        if held is not None:
            yield (ctx.get_current_key(), held[0], held[1] + GAP_MS, held[2])
        self._session.clear()


class LastBid(KeyedProcessFunction):
    """Query 18: emits the newest record of a key whenever it changes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        bid = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._last = runtime_context.get_state(ValueStateDescriptor("last", bid))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        held = self._last.value()
        if held is not None and held[1] > value.t:
            return ()
        self._last.update((value.price, value.t))
        return (value,)


__all__ = [
    "Counts",
    "Largest",
    "LastBid",
    "NewSellers",
    "OfWindow",
    "SellersAndItems",
    "Sessions",
    "Totals",
    "Winners",
]
