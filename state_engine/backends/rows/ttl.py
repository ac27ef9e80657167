"""States with a time to live: decorators of states over stamped values. The clock is injected.

Semantics are Flink's (`TtlValueState`, `TtlListState`, `TtlMapState`, `TtlReduceFunction`, `TtlAggregateFunction`),
with two exceptions. `is_empty` of a map does not count expired entries, because a fresh load may not have them any
more. A read of a value with unknown last access sets this time, whatever the update type.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.api.types import TypeInformation
from state_engine.backends.keys import KeyContext
from state_engine.backends.rows.states import FoldedValue, StoredValueState, map_rows, reducer, row_state
from state_engine.backends.stamps import Stamped
from state_engine.backends.stores.dicts import MISSING
from state_engine.backends.ttl_rules import ProcessingTimeRules, TtlRules
from state_engine.iterating import whole
from state_engine.serialization.finished import finished_type
from state_engine.serialization.mutability import conformer


class _Ttl:
    """The common base of decorated states.

    Args:
        original: The state over stamped values.
        rules: Of its time to live.
        accessed: Called before each access, to clean up; None if that is off.
    """

    __slots__ = ("_accessed", "_original", "_rules")

    def __init__(self, original: Any, rules: TtlRules, accessed: Callable[..., None] | None) -> None:
        self._original = original
        self._rules = rules
        self._accessed = accessed

    def bind(self) -> None:
        """Takes the table's current dicts."""
        self._original.bind()

    def clear(self) -> None:
        self._access()
        self._original.clear()

    def _access(self) -> None:
        if self._accessed is not None:
            self._accessed()


class TtlValueState(_Ttl, ValueState[Any]):
    """One value per key that may expire."""

    __slots__ = ()

    def value(self) -> Any:
        if self._accessed is not None:
            self._accessed()
        stamped = self._original.value()
        if stamped is None:
            return None
        value, last_access = stamped
        rules = self._rules
        if rules.expired(last_access):
            self._original.clear()
            return value if rules.returns_expired else None
        if (rules.renewed_by_reads or last_access is None) and (now := rules.after_read(last_access)) != last_access:
            self._original.update((value, now))
        return value

    def update(self, value: Any) -> None:
        if self._accessed is not None:
            self._accessed()
        self._original.update(None if value is None else (value, self._rules.stamp()))


class PlainTtlValueState(_Ttl, ValueState[Any]):
    """A value that cannot change, expires by processing time, and is not renewed by reads, like most expiring values.

    Does the same as `TtlValueState`, without a call of another method for each step, in half the time.

    Args:
        original: See `_Ttl`.
        rules: See `_Ttl`.
        accessed: See `_Ttl`.
        type_info: Of its values.
    """

    __slots__ = ("_base", "_conform", "_context", "_finished", "_milliseconds", "_overlay", "_time")
    _rules: ProcessingTimeRules

    def __init__(
        self,
        original: StoredValueState,
        rules: ProcessingTimeRules,
        accessed: Callable[[], None] | None,
        type_info: TypeInformation,
    ) -> None:
        super().__init__(original, rules, accessed)
        self._conform, self._finished = conformer(type_info), finished_type(type_info)
        self._context = original.context
        self._time, self._milliseconds = rules.time, rules.milliseconds
        self.bind()

    def bind(self) -> None:
        super().bind()
        self._base, self._overlay = self._original.dicts

    def value(self) -> Any:
        if self._accessed is not None:
            self._accessed()
        entry = self._context.entry
        stamped = self._overlay.get(entry, MISSING)
        if stamped is MISSING:
            stamped = self._base.get(entry)
        if stamped is None:
            return None
        value, last_access = stamped
        if last_access is None:
            self._overlay[entry] = (value, self._rules.first_seen())
        elif last_access + self._milliseconds <= self._time.processing_time:
            self._overlay[entry] = None
            return None
        return value

    def update(self, value: Any) -> None:
        if self._accessed is not None:
            self._accessed()
        if value is not None:
            value = value if type(value) is self._finished else self._conform(value)
            value = (value, self._time.processing_time)
        self._overlay[self._context.entry] = value


class TtlListState(_Ttl, ListState[Any]):
    """A list per key whose elements expire one by one."""

    __slots__ = ()

    def get(self) -> Iterator[Any]:
        self._access()
        rules = self._rules
        elements: list[Stamped] = list(self._original.get())
        unexpired = [element for element in elements if not rules.expired(element[1])]
        if not unexpired:
            if elements:
                self._original.clear()
        else:
            renewed = [(value, rules.after_read(last_access)) for value, last_access in unexpired]
            if any(new[1] != old[1] for new, old in zip(renewed, unexpired, strict=True)):
                self._original.update(renewed)
        return iter([value for value, _ in (elements if rules.returns_expired else unexpired)])

    def add(self, value: Any) -> None:
        self._access()
        self._original.add((value, self._rules.stamp()))

    def add_all(self, values: list[Any]) -> None:
        self._access()
        stamp = self._rules.stamp()
        self._original.add_all([(value, stamp) for value in whole(values)])

    def update(self, values: list[Any]) -> None:
        self._access()
        stamp = self._rules.stamp()
        self._original.update([(value, stamp) for value in whole(values)])


class TtlMapState(_Ttl, MapState[Any, Any]):
    """A map per key whose entries expire one by one."""

    __slots__ = ()

    def _seen(self, key: Any, stamped: Stamped) -> bool:
        """Changes an entry as a read does; returns whether the reader may see it."""
        last_access = stamped[1]
        if self._rules.expired(last_access):
            self._original.remove(key)
            return self._rules.returns_expired
        now = self._rules.after_read(last_access)
        if now != last_access:
            self._original.put(key, (stamped[0], now))
        return True

    def get(self, key: Any) -> Any:
        self._access()
        stamped = self._original.get(key)
        return stamped[0] if stamped is not None and self._seen(key, stamped) else None

    def contains(self, key: Any) -> bool:
        self._access()
        stamped = self._original.get(key)
        return stamped is not None and self._seen(key, stamped)

    def put(self, key: Any, value: Any) -> None:
        self._access()
        self._original.put(key, (value, self._rules.stamp()))

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._access()
        stamp = self._rules.stamp()
        self._original.put_all({key: (value, stamp) for key, value in whole(dict_value.items())})

    def remove(self, key: Any) -> None:
        self._access()
        self._original.remove(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        self._access()
        return [(key, stamped[0]) for key, stamped in self._original.items() if self._seen(key, stamped)]

    def keys(self) -> Iterable[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        self._access()
        if self._rules.returns_expired:
            return bool(self._original.is_empty())
        return all(self._rules.expired(last_access) for _, (_, last_access) in self._original.items())


class TtlSpelledMapState(TtlMapState):
    """The same for user keys with several spellings: an expired entry loses its spelling, cleaned up or not."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        self.put_all({key: value})

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._access()
        stamp = self._rules.stamp()
        for key, value in whole(dict_value.items()):
            stamped = self._original.get(key)
            if stamped is not None and self._rules.expired(stamped[1]):
                self._original.remove(key)
            self._original.put(key, (value, stamp))


class _TtlFolding(_Ttl):
    """One accumulator per key that may expire; the original is a `FoldedValue`."""

    __slots__ = ()
    _original: FoldedValue

    def _read(self) -> Any:
        self._access()
        stamped = self._original.value()
        if stamped is None:
            return None
        accumulator, last_access = stamped
        if self._rules.expired(last_access):
            self._original.clear()
            return accumulator if self._rules.returns_expired else None
        now = self._rules.after_read(last_access)
        if now != last_access:
            self._original.store((accumulator, now), None)
        return accumulator

    def _held(self) -> tuple[Any, Any]:
        """Returns the stamped accumulator to add to, and its value; an expired one counts only if it may be read."""
        self._access()
        stamped = self._original.own()
        if stamped is None or (self._rules.expired(stamped[1]) and not self._rules.returns_expired):
            return None, None
        return stamped, stamped[0]


class TtlReducingState(_TtlFolding, ReducingState[Any]):
    """One reduced value per key that may expire; adding renews it."""

    __slots__ = ("_reduce",)

    def __init__(
        self,
        original: FoldedValue,
        rules: TtlRules,
        accessed: Callable[[], None] | None,
        reduce: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__(original, rules, accessed)
        self._reduce = reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        stamped, current = self._held()
        reduced = value if current is None else self._reduce(current, value)
        self._original.store((reduced, self._rules.stamp()), stamped)


class TtlAggregatingState(_TtlFolding, AggregatingState[Any, Any]):
    """One accumulator per key that may expire; adding renews it."""

    __slots__ = ("_function",)

    def __init__(
        self, original: FoldedValue, rules: TtlRules, accessed: Callable[[], None] | None, function: Any
    ) -> None:
        super().__init__(original, rules, accessed)
        self._function = function

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        stamped, current = self._held()
        accumulator = self._function.create_accumulator() if current is None else current
        self._original.store((self._function.add(value, accumulator), self._rules.stamp()), stamped)

    def read(self) -> Any:
        """Returns the accumulator from which `get` makes a result, and changes the state as `get` does."""
        return self._read()

    def put(self, accumulator: Any) -> None:
        """Stores an accumulator, touched now; None clears."""
        self._original.store((accumulator, self._rules.stamp()), None)


def ttl_map_rows(table: Any, context: KeyContext, rules: TtlRules, accessed: Callable[..., None] | None) -> Any:
    """Returns the map of each key, by a table of maps of stamped values."""
    spelled = table.user_keys.spells is not None
    return (TtlSpelledMapState if spelled else TtlMapState)(map_rows(table, context), rules, accessed)


def ttl_state(
    descriptor: StateDescriptor,
    table: Any,
    context: KeyContext,
    rules: TtlRules,
    accessed: Callable[..., None] | None,
) -> Any:
    """Returns the state that a function holds, with a time to live.

    Args:
        descriptor: Of the state.
        table: Of the state, with stamped values.
        context: The current key.
        rules: When values expire.
        accessed: Called before each access; None if nothing is called.
    """
    match descriptor:
        case ReducingStateDescriptor():
            return TtlReducingState(FoldedValue(table, context), rules, accessed, reducer(descriptor))
        case AggregatingStateDescriptor():
            folded = FoldedValue(table, context)
            return TtlAggregatingState(folded, rules, accessed, descriptor.get_agg_function())
        case MapStateDescriptor():
            return ttl_map_rows(table, context, rules, accessed)
    original = row_state(descriptor, table, context)
    if isinstance(descriptor, ListStateDescriptor):
        return TtlListState(original, rules, accessed)
    as_written = not (rules.returns_expired or rules.renewed_by_reads)
    if as_written and isinstance(rules, ProcessingTimeRules) and original.copy is None:
        return PlainTtlValueState(original, rules, accessed, descriptor.type_info)
    return TtlValueState(original, rules, accessed)


__all__ = [
    "PlainTtlValueState",
    "TtlAggregatingState",
    "TtlListState",
    "TtlMapState",
    "TtlReducingState",
    "TtlSpelledMapState",
    "TtlValueState",
    "ttl_map_rows",
    "ttl_state",
]
