"""Values of keys in namespaces, namespace by namespace: what windows that are declared keep on the heap.

Functions ask such states by columns, for many keys of few namespaces. So the tables need no object for a key in a
namespace, nor the time to hash and compare it, which was most of what such windows took.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor, ValueStateDescriptor
from state_engine.api.keys import Keys, by_number, indices
from state_engine.api.state import ValueState
from state_engine.backends.columns import ValueColumns
from state_engine.backends.keys import KeyContext, Namespaced, NamespacedKeys, split_entry
from state_engine.backends.tables import MISSING, HeapTable, LogRows
from state_engine.log.ops import Op

_Values = dict[str | None, dict[Any, Any]]


class NamespacedValueTable(HeapTable):
    """Namespace, then key, to value; None in the overlay is a delete, as in a `ValueTable`."""

    base: _Values
    overlay: _Values
    _pending: tuple[_Values, Any] | None = None

    @property
    def keys(self) -> int:
        return self.rows

    def written(self, namespace: str | None) -> dict[Any, Any]:
        """Returns what an epoch has written in a namespace, to write to."""
        found = self.overlay.get(namespace)
        if found is None:
            found = self.overlay[namespace] = {}
        return found

    def values(self, namespace: str | None, keys: list[Any]) -> list[Any]:
        """Returns the values of keys in a namespace, None where there is none."""
        stored = self.base.get(namespace, {}).get
        overlay = self.overlay.get(namespace)
        if not overlay:
            return list(map(stored, keys))
        written = overlay.get
        return [stored(key) if (value := written(key, MISSING)) is MISSING else value for key in keys]

    def freeze(self) -> LogRows | None:
        overlay = {namespace: own for namespace, own in self.overlay.items() if own}
        if not overlay:
            return None
        keys = [key for own in overlay.values() for key in own]
        values = [value for own in overlay.values() for value in own.values()]
        array = self._written(self._write, values, keys)
        self.overlay, self._pending = {}, (overlay, array)
        ops = np.full(len(keys), Op.PUT, dtype=np.int8)
        if array.null_count:
            ops[np.asarray(array.is_null())] = Op.DELETE
        of_each = np.repeat(np.arange(len(overlay)), [len(own) for own in overlay.values()])
        namespaces = pa.array(list(overlay), pa.string()).take(indices(of_each))
        return LogRows(keys, ops, array, namespaces=namespaces)

    def settle(self) -> None:
        if self._pending is None:
            return
        overlay, array = self._pending
        self._pending = None
        plain = all(self._reads_alike(own.values()) for own in overlay.values())
        read = iter(() if plain else self._read(array))
        for namespace, own in overlay.items():
            self._merge(namespace, own if plain else dict(zip(own, read, strict=False)))
        self._count()

    def _merge(self, namespace: str | None, own: dict[Any, Any]) -> None:
        stored = self.base.setdefault(namespace, {})
        gone = [key for key, value in own.items() if value is None]
        if len(gone) < len(own):
            stored.update(own)
        for key in gone:
            stored.pop(key, None)
        if not stored:
            del self.base[namespace]

    def apply_rows(self, keys: list[Any], namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        encoded = namespaces.cast(pa.string()).combine_chunks().dictionary_encode("encode")
        texts = encoded.dictionary.to_pylist()
        every, read = np.fromiter(keys, object, len(keys)), np.fromiter(self._read(values), object, len(keys))
        read[ops != Op.PUT] = None
        for number, positions in by_number(np.asarray(encoded.indices)):
            # Of several rows of a key the last one counts.
            self._merge(texts[number], dict(zip(every[positions].tolist(), read[positions].tolist(), strict=True)))
        self._count()

    def apply(self, entries: list[Any], ops: Any, values: Any, user_keys: Any) -> None:
        keys, namespaces = zip(*map(split_entry, entries), strict=True)
        self.apply_rows(list(keys), pa.chunked_array([pa.array(namespaces, pa.string())]), ops, values, user_keys)

    def drop_entries(self, belongs: Callable[[Any], bool]) -> None:
        for namespace, own in list(self.base.items()):
            gone = [key for key in own if belongs(key if namespace is None else Namespaced(key, namespace))]
            self._merge(namespace, dict.fromkeys(gone))
        self._count()

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        """Does nothing: its values have none."""

    def _count(self) -> None:
        self.rows = sum(map(len, self.base.values()))

    def _drop_pending(self) -> None:
        self._pending = None


class NamespacedValueState(ValueState[Any]):
    """One value per key and namespace, row by row."""

    def __init__(self, table: NamespacedValueTable, context: KeyContext) -> None:
        self.table = table
        self._context = context

    def bind(self) -> None:
        """Does nothing: the table is asked for its dicts each time."""

    def value(self) -> Any:
        key, namespace = split_entry(self._context.entry)
        [value] = self.table.values(namespace, [key])
        return value if value is None or self.table.copy is None else self.table.copy(value)

    def update(self, value: Any) -> None:
        key, namespace = split_entry(self._context.entry)
        conform = self.table.conform
        self.table.written(namespace)[key] = value if conform is None or value is None else conform(value)

    def clear(self) -> None:
        self.update(None)


class NamespacedValueColumns(ValueColumns):
    """Of such states: keys that come with their namespaces are asked for namespace by namespace."""

    state: NamespacedValueState

    def remove_many(self, keys: Keys) -> None:
        self._put(keys.distinct, [None] * len(keys.distinct))

    def _values(self, keys: Keys) -> list[Any]:
        if not isinstance(keys, NamespacedKeys):
            return super()._values(keys)
        table, found = self.state.table, np.empty(len(keys.distinct), object)
        for namespace, positions, own in keys.parts:
            found[positions] = np.fromiter(table.values(namespace, own), object, len(own))
        return found.tolist()

    def _put(self, distinct: Keys, values: list[Any]) -> None:
        if not isinstance(distinct, NamespacedKeys):
            super()._put(distinct, values)
            return
        given = np.fromiter(values, object, len(values))
        for namespace, positions, own in distinct.parts:
            self.state.table.written(namespace).update(zip(own, given[positions].tolist(), strict=True))


def lies_by_namespace(descriptor: StateDescriptor) -> bool:
    """Returns whether a state is one that is asked for so, and has nothing that a `NamespacedValueTable` has not."""
    return (
        isinstance(descriptor, ValueStateDescriptor)
        and descriptor.by_namespace
        and descriptor.ttl_config is None
        and descriptor.default_value is None
    )


__all__ = ["NamespacedValueColumns", "NamespacedValueState", "NamespacedValueTable", "lies_by_namespace"]
