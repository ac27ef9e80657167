"""The row methods of states, which a function calls record by record.

Each method is called per record, so each is as short as possible. An incoming value goes through `conform`, unless it
is of the class `finished`, as nearly all values are. An outgoing value goes through `copy`, which is None for atoms.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.functions import ReduceFunction
from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.backends.keys import KeyContext
from state_engine.backends.shapes.maps import MapTable, merged
from state_engine.backends.shapes.table import ColumnTable, EntryTable
from state_engine.backends.stores.dicts import DELETED, MISSING, ListDelta, MapDelta
from state_engine.iterating import whole
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.mutability import copier

AnyTable = EntryTable | ColumnTable


class _Bound:
    """Base and overlay of a table, bound anew at the start of each epoch.

    A table by entry is accessed through its own dicts. A table by columns has the same interface here, and is slower,
    because it is made for batches.
    """

    __slots__ = ("_base", "_conform", "_context", "_copy", "_finished", "_overlay", "_table")

    def __init__(self, table: AnyTable, context: KeyContext) -> None:
        self._table: Any = table
        self._context = context
        self._conform = table.stored.conform
        self._finished = table.stored.finished
        self._copy = table.stored.copy
        self.bind()

    def bind(self) -> None:
        """Takes the table's current base and overlay."""
        self._base: Any = self._table.base
        self._overlay: dict[Any, Any] = self._table.overlay

    @property
    def context(self) -> KeyContext:
        """The current key."""
        return self._context

    @property
    def copy(self) -> Callable[[Any], Any] | None:
        """The function that copies a value before it is returned; None if values cannot change."""
        return self._copy

    @property
    def dicts(self) -> tuple[Any, dict[Any, Any]]:
        """The base, which is only read, and the overlay."""
        return self._base, self._overlay


class StoredValueState(_Bound, ValueState[Any]):
    """One value per key that cannot change: atoms, and rows of them."""

    __slots__ = ()

    def value(self) -> Any:
        entry, overlay = self._context.entry, self._overlay
        return overlay[entry] if entry in overlay else self._base.get(entry)

    def update(self, value: Any) -> None:
        self._overlay[self._context.entry] = value if type(value) is self._finished else self._conform(value)

    def clear(self) -> None:
        self._overlay[self._context.entry] = None


class CopiedValueState(StoredValueState):
    """One value per key, copied on the way in and out, so that state changes only when a function calls its methods."""

    __slots__ = ()

    def value(self) -> Any:
        value = super().value()
        return None if value is None else self._copy(value)  # type: ignore[misc]


class Folding(_Bound):
    """A value state that folds what is added into one accumulator."""

    __slots__ = ("_still_conforms",)

    def __init__(self, table: AnyTable, context: KeyContext) -> None:
        super().__init__(table, context)
        self._still_conforms = table.stored.still_conforms

    def _accumulator(self) -> Any:
        entry = self._context.entry
        value = self._overlay.get(entry, MISSING)
        if value is MISSING:
            value = self._base.get(entry)
            if self._copy is not None and value is not None:
                value = self._copy(value)
        return value

    def _store(self, accumulator: Any, own: Any) -> None:
        """Stores the result of a fold over `own`, which `_accumulator` returned and no other code holds.

        If the function changed that same object, a long list or map is not copied with each element.
        """
        if type(accumulator) is not self._finished and not (accumulator is own and self._may_stay(accumulator)):
            accumulator = self._conform(accumulator)
        self._overlay[self._context.entry] = accumulator

    def _may_stay(self, accumulator: Any) -> bool:
        """Returns whether the state's own accumulator, changed by the function, is still as a load would return it."""
        return self._still_conforms is not None and self._still_conforms(accumulator)

    def clear(self) -> None:
        self._overlay[self._context.entry] = None


class FoldedValue(Folding):
    """The stamped accumulators of a state with a time to live."""

    __slots__ = ()

    def value(self) -> Any:
        """Returns the stamped accumulator, as a copy if it can change, or None."""
        stamped = self._accumulator()
        return stamped if self._copy is None or stamped is None else self._copy(stamped)

    def own(self) -> Any:
        """Returns the stamped accumulator itself, only to be passed to `store` again."""
        return self._accumulator()

    def store(self, stamped: Any, own: Any) -> None:
        """Stores a stamped accumulator, made from `own` or anew; an accumulator None clears."""
        accumulator = stamped[0]
        if accumulator is None:
            self.clear()
        elif own is not None and accumulator is own[0] and self._may_stay(accumulator):
            self._overlay[self._context.entry] = stamped
        else:
            self._store(stamped, own)


class StoredReducingState(Folding, ReducingState[Any]):
    """One reduced value per key."""

    __slots__ = ("_reduce",)

    def __init__(self, table: AnyTable, context: KeyContext, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(table, context)
        self._reduce = reduce

    def get(self) -> Any:
        current = self._accumulator()
        return current if self._copy is None or current is None else self._copy(current)

    def add(self, value: Any) -> None:
        current = self._accumulator()
        self._store(value if current is None else self._reduce(current, value), current)


class StoredAggregatingState(Folding, AggregatingState[Any, Any]):
    """One accumulator per key."""

    __slots__ = ("_function",)

    def __init__(self, table: AnyTable, context: KeyContext, function: Any) -> None:
        super().__init__(table, context)
        self._function = function

    def get(self) -> Any:
        current = self._accumulator()
        if current is None:
            return None
        return self._function.get_result(current if self._copy is None else self._copy(current))

    def add(self, value: Any) -> None:
        current = self._accumulator()
        accumulator = self._function.create_accumulator() if current is None else current
        self._store(self._function.add(value, accumulator), current)

    def read(self) -> Any:
        """Returns the accumulator from which `get` makes a result: the state's own, or None."""
        return self._accumulator()

    def put(self, accumulator: Any) -> None:
        """Stores an accumulator; None clears."""
        self._store(accumulator, None)


class StoredListState(_Bound, ListState[Any]):
    """A list per key; adding never reads the list."""

    __slots__ = ("_conform_all", "_returned")

    def __init__(self, table: AnyTable, context: KeyContext) -> None:
        super().__init__(table, context)
        self._conform_all = table.stored.conform_all
        self._returned: Sequence[Any] = ()  # if elements cannot change: those that the last read returned

    def get(self) -> Iterator[Any]:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            elements = self._base.get(entry, ())
        elif delta.cleared:
            elements = delta.appended
        else:
            elements = [*self._base.get(entry, ()), *delta.appended]
        if self._copy is not None:
            return iter([self._copy(element) for element in elements])
        returned = self._returned = tuple(elements)
        return iter(returned)

    def add(self, value: Any) -> None:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            delta = self._overlay[entry] = ListDelta()
        delta.appended.append(value if type(value) is self._finished else self._conform(value))

    def add_all(self, values: list[Any]) -> None:
        for value in whole(values):
            self.add(value)

    def update(self, values: list[Any]) -> None:
        given = whole(values)
        if self._returned:
            # Many functions read a list, change it, and store it. To look into ten rows that were read costs 10 µs if
            # they are not in the processor's cache.
            known, conform = set(map(id, self._returned)), self._conform
            appended = [value if id(value) in known else conform(value) for value in given]
        else:
            appended = self._conform_all(list(given))
        self._overlay[self._context.entry] = ListDelta(cleared=True, appended=appended)

    def clear(self) -> None:
        self.update([])


class StoredMapState(_Bound, MapState[Any, Any]):
    """A map per key, entry by entry."""

    __slots__ = ("_conform_key", "_finished_key")

    def __init__(self, table: MapTable, context: KeyContext) -> None:
        super().__init__(table, context)
        self._conform_key = table.user_keys.conform
        self._finished_key = table.user_keys.finished

    def get(self, key: Any) -> Any:
        if type(key) is not self._finished_key:  # a tuple finds what was put under an equal row
            key = self._conform_key(key)
        entry, overlay = self._context.entry, self._overlay
        if entry in overlay:
            delta = overlay[entry]
            if key in delta.entries:
                value = delta.entries[key]
                return None if value is DELETED else value if self._copy is None else self._copy(value)
            if delta.cleared:
                return None
        inner = self._base.get(entry)
        value = None if inner is None else inner.get(key)
        return value if value is None or self._copy is None else self._copy(value)

    def put(self, key: Any, value: Any) -> None:
        if type(key) is not self._finished_key:
            key = self._conform_key(key)
        entry, overlay = self._context.entry, self._overlay
        delta = overlay[entry] if entry in overlay else self._delta()
        delta.entries[key] = value if type(value) is self._finished else self._conform(value)

    def _delta(self) -> MapDelta:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            delta = self._overlay[entry] = MapDelta()
        return delta

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in whole(dict_value.items()):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        if type(key) is not self._finished_key:
            key = self._conform_key(key)
        self._delta().entries[key] = DELETED

    def contains(self, key: Any) -> bool:
        if type(key) is not self._finished_key:
            key = self._conform_key(key)
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is not None:
            value = delta.entries.get(key, MISSING)
            if value is not MISSING or delta.cleared:
                return value is not MISSING and value is not DELETED
        inner = self._base.get(entry)
        return inner is not None and inner.get(key, MISSING) is not MISSING

    def _merged(self) -> dict[Any, Any]:
        entry = self._context.entry
        return merged(self._base.get(entry), self._overlay.get(entry))

    def items(self) -> Iterable[tuple[Any, Any]]:
        items, copy = self._merged().items(), self._copy
        return list(items) if copy is None else [(key, copy(value)) for key, value in items]

    def keys(self) -> Iterable[Any]:
        return list(self._merged())

    def values(self) -> Iterable[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        entry = self._context.entry
        return not (self._merged() if entry in self._overlay else self._base.get(entry))

    def clear(self) -> None:
        delta = self._delta()
        delta.cleared = True
        delta.entries = {}


class SpelledMapState(StoredMapState):
    """A map in which equal user keys may have different spellings: an entry keeps its first spelling."""

    __slots__ = ("_spells",)

    def __init__(self, table: MapTable, context: KeyContext) -> None:
        super().__init__(table, context)
        assert table.user_keys.spells is not None
        self._spells = table.user_keys.spells

    def put(self, key: Any, value: Any) -> None:
        key = self._conform_key(key)
        if self._spells(key):
            key = self._table.spelled(self._context.entry, key)
        self._delta().entries[key] = value if type(value) is self._finished else self._conform(value)


class DefaultedValueState(ValueState[Any]):
    """A value state that returns a default where there is no value; only what is updated is stored.

    Args:
        original: The state.
        default: The default, as a load would return it.
        copy: Copies the default; None if it cannot change.

    Attributes:
        stored: The state, as given in `original`.
    """

    __slots__ = ("_copy", "_default", "stored")

    def __init__(self, original: Any, default: Any, copy: Callable[[Any], Any] | None) -> None:
        self.stored = original
        self._default = default
        self._copy = copy

    def bind(self) -> None:
        """Takes the table's current dicts."""
        self.stored.bind()

    def value(self) -> Any:
        value = self.stored.value()
        if value is not None:
            return value
        return self._default if self._copy is None else self._copy(self._default)

    def update(self, value: Any) -> None:
        self.stored.update(value)

    def clear(self) -> None:
        self.stored.clear()


def with_default(descriptor: StateDescriptor, state: Any) -> Any:
    """Returns the state, with the default value of its descriptor if it has one."""
    if not isinstance(descriptor, ValueStateDescriptor) or descriptor.default_value is None:
        return state
    read, write = reader(descriptor.type_info), writer(descriptor.type_info)
    return DefaultedValueState(state, read(write([descriptor.default_value]))[0], copier(descriptor.type_info))


def reducer(descriptor: ReducingStateDescriptor) -> Callable[[Any, Any], Any]:
    """Returns the function of two values with which a state reduces."""
    function = descriptor.get_reduce_function()
    return function.reduce if isinstance(function, ReduceFunction) else function


def map_rows(table: Any, context: KeyContext) -> Any:
    """Returns the map of each key, by a table of maps; user keys keep their spelling, such as -0.0 and 0.0."""
    return (StoredMapState if table.user_keys.spells is None else SpelledMapState)(table, context)


def row_state(descriptor: StateDescriptor, table: Any, context: KeyContext) -> Any:
    """Returns the state that a function holds, without a time to live.

    Args:
        descriptor: Of the state.
        table: Of the state.
        context: The current key.
    """
    match descriptor:
        case ListStateDescriptor():
            return StoredListState(table, context)
        case MapStateDescriptor():
            return map_rows(table, context)
        case ReducingStateDescriptor():
            return StoredReducingState(table, context, reducer(descriptor))
        case AggregatingStateDescriptor():
            return StoredAggregatingState(table, context, descriptor.get_agg_function())
        case ValueStateDescriptor():
            return (StoredValueState if table.stored.copy is None else CopiedValueState)(table, context)
    raise TypeError(f"{descriptor!r} describes no keyed state")


__all__ = [
    "DefaultedValueState",
    "FoldedValue",
    "Folding",
    "StoredAggregatingState",
    "StoredListState",
    "StoredMapState",
    "StoredReducingState",
    "StoredValueState",
    "map_rows",
    "reducer",
    "row_state",
    "with_default",
]
