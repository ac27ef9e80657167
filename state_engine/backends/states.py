"""States over heap tables: what a function holds. Each method is called per record, so each is as short as it can be."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.backends.keys import KeyContext
from state_engine.backends.tables import DELETED, MISSING, HeapTable, ListDelta, MapDelta


class _Bound:
    """Base and overlay of a table, bound anew at the start of each epoch."""

    __slots__ = ("_base", "_context", "_copy", "_overlay", "_table")

    def __init__(self, table: HeapTable, context: KeyContext) -> None:
        self._table = table
        self._context = context
        self._copy = table.copy
        self.bind()

    def bind(self) -> None:
        """Takes the table's current dicts."""
        self._base = self._table.base
        self._overlay = self._table.overlay


class HeapValueState(_Bound, ValueState[Any]):
    """One value per key, of a type whose values cannot change."""

    __slots__ = ()

    def value(self) -> Any:
        entry = self._context.entry
        value = self._overlay.get(entry, MISSING)
        return self._base.get(entry) if value is MISSING else value

    def update(self, value: Any) -> None:
        self._overlay[self._context.entry] = value

    def clear(self) -> None:
        self._overlay[self._context.entry] = None


class HeapCopyingValueState(HeapValueState):
    """One value per key, copied on the way in and out, so that nobody changes state without saying so."""

    __slots__ = ()

    def value(self) -> Any:
        return copy.deepcopy(super().value())

    def update(self, value: Any) -> None:
        super().update(copy.deepcopy(value))


class _Folding(_Bound):
    """A value state that folds what is added into one accumulator."""

    __slots__ = ()

    def _accumulator(self) -> Any:
        entry = self._context.entry
        value = self._overlay.get(entry, MISSING)
        if value is MISSING:
            value = self._base.get(entry)
            if self._copy is not None and value is not None:
                value = self._copy(value)
        return value

    def clear(self) -> None:
        self._overlay[self._context.entry] = None


class HeapReducingState(_Folding, ReducingState[Any]):
    """One reduced value per key."""

    __slots__ = ("_reduce",)

    def __init__(self, table: HeapTable, context: KeyContext, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(table, context)
        self._reduce = reduce

    def get(self) -> Any:
        current = self._accumulator()
        return current if self._copy is None else self._copy(current)

    def add(self, value: Any) -> None:
        current = self._accumulator()
        self._overlay[self._context.entry] = value if current is None else self._reduce(current, value)


class HeapAggregatingState(_Folding, AggregatingState[Any, Any]):
    """One accumulator per key."""

    __slots__ = ("_function",)

    def __init__(self, table: HeapTable, context: KeyContext, function: Any) -> None:
        super().__init__(table, context)
        self._function = function

    def get(self) -> Any:
        current = self._accumulator()
        return None if current is None else self._function.get_result(current)

    def add(self, value: Any) -> None:
        current = self._accumulator()
        if current is None:
            current = self._function.create_accumulator()
        self._overlay[self._context.entry] = self._function.add(value, current)


class HeapListState(_Bound, ListState[Any]):
    """A list per key; adding never reads the list."""

    __slots__ = ()

    def get(self) -> Iterator[Any]:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            elements = self._base.get(entry, ())
        elif delta.cleared or entry not in self._base:
            elements = delta.appended
        else:
            elements = [*self._base[entry], *delta.appended]
        return iter(tuple(elements) if self._copy is None else self._copy(list(elements)))

    def add(self, value: Any) -> None:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            delta = self._overlay[entry] = ListDelta()
        delta.appended.append(value if self._copy is None else self._copy(value))

    def add_all(self, values: list[Any]) -> None:
        for value in values:
            self.add(value)

    def update(self, values: list[Any]) -> None:
        replaced = ListDelta()
        replaced.cleared = True
        replaced.appended = list(values) if self._copy is None else self._copy(list(values))
        self._overlay[self._context.entry] = replaced

    def clear(self) -> None:
        self.update([])


class HeapMapState(_Bound, MapState[Any, Any]):
    """A map per key, entry by entry."""

    __slots__ = ()

    def _find(self, user_key: Any) -> Any:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is not None:
            value = delta.entries.get(user_key, MISSING)
            if value is not MISSING or delta.cleared:
                return MISSING if value is DELETED else value
        inner = self._base.get(entry)
        return MISSING if inner is None else inner.get(user_key, MISSING)

    def _delta(self) -> MapDelta:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            delta = self._overlay[entry] = MapDelta()
        return delta  # type: ignore[no-any-return]

    def get(self, key: Any) -> Any:
        value = self._find(key)
        if value is MISSING:
            return None
        return value if self._copy is None else self._copy(value)

    def put(self, key: Any, value: Any) -> None:
        self._delta().entries[key] = value if self._copy is None else self._copy(value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._delta().entries[key] = DELETED

    def contains(self, key: Any) -> bool:
        return self._find(key) is not MISSING

    def _merged(self) -> dict[Any, Any]:
        entry = self._context.entry
        delta = self._overlay.get(entry)
        if delta is None:
            return dict(self._base.get(entry, ()))
        merged = {} if delta.cleared else dict(self._base.get(entry, ()))
        merged.update(delta.entries)
        return {k: v for k, v in merged.items() if v is not DELETED}

    def items(self) -> Iterable[tuple[Any, Any]]:
        merged = self._merged()
        return list((merged if self._copy is None else self._copy(merged)).items())

    def keys(self) -> Iterable[Any]:
        return list(self._merged())

    def values(self) -> Iterable[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._merged()

    def clear(self) -> None:
        delta = self._delta()
        delta.cleared = True
        delta.entries = {}


__all__ = [
    "HeapAggregatingState",
    "HeapCopyingValueState",
    "HeapListState", "HeapMapState", "HeapReducingState", "HeapValueState"]
