"""The heap's tables over a database: they share overlay, freeze and the reading back of values.

Only what would ask the database entry by entry is done otherwise: it is asked for all entries of an epoch at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from state_engine.api.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from state_engine.api.types import MapType, TypeInformation
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.list_runs import Elements, Flags, joined
from state_engine.backends.namespaced_keys import Part
from state_engine.backends.namespaced_lists import Frozen, NamespacedListTable, Written
from state_engine.backends.rocksdb.bases import Base, Opened, ValueBase
from state_engine.backends.rocksdb.cells import Cells
from state_engine.backends.rocksdb.column_lists import AT_ONCE, Asked, ColumnLists
from state_engine.backends.rocksdb.list_cells import ListCells
from state_engine.backends.rocksdb.lists import ListBase
from state_engine.backends.rocksdb.maps import MapBase
from state_engine.backends.rocksdb.ordered import ordered_codec
from state_engine.backends.rocksdb.values import list_codec, spelled_codec, value_codec
from state_engine.backends.stamped_lists import StampedListTable, some_of
from state_engine.backends.stamped_tables import unexpired
from state_engine.backends.stamps import split_stamps, stamped_type
from state_engine.backends.tables import DELETED, HeapTable, ListDelta, ListTable, MapDelta, MapTable, ValueTable
from state_engine.key_groups import KeyGroupRange
from state_engine.log.ops import Op
from state_engine.serialization.equality import spells
from state_engine.serialization.types import to_arrow


class RocksTable(Protocol):
    """What the backend asks of a table beyond `HeapTable`."""

    base: Any
    rows: int

    def drop_group(self, group: int) -> None: ...


class _InDatabase(HeapTable):
    """What the tables below have in common."""

    def _may_hold(self, entry: Any) -> bool:
        return True  # a look into the database costs more than a row in the log


class RocksValueTable(_InDatabase, ValueTable):
    """Entry to value."""

    def __init__(self, value: TypeInformation, stamped: bool, base: ValueBase) -> None:
        super().__init__(value, stamped)
        self.base: Any = base

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        read = self._read(values)
        if not (ops == Op.PUT).all():
            read = [value if op == Op.PUT else None for op, value in zip(ops.tolist(), read, strict=True)]
        self.base.update(zip(entries, read, strict=True))
        self.rows = len(self.base)

    def drop_group(self, group: int) -> None:
        """Removes all entries of a key group."""
        self.base.drop_group(group)
        self.rows = len(self.base)


class RocksListTable(_InDatabase, ListTable):
    """Entry to list."""

    def __init__(self, value: TypeInformation, stamped: bool, base: ListBase) -> None:
        super().__init__(value, stamped)
        self.base: Any = base

    def settle(self) -> None:
        self.rows += self.base.merge(self._taken())

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        deltas: dict[Any, ListDelta] = {}
        for entry, op, value in zip(entries, ops.tolist(), self._read(values), strict=True):
            delta = deltas.get(entry)
            if delta is None:
                delta = deltas[entry] = ListDelta()
            if op == Op.APPEND:
                delta.appended.append(value)
            else:
                delta.cleared, delta.appended = True, []
        self.rows += self.base.merge(deltas)

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for entry, elements in self.base.items():
            kept = [element for element in elements if not expired(element[1])]
            if len(kept) < len(elements):
                self.rows += self.base.merge({entry: ListDelta(cleared=True, appended=kept)})

    def drop_group(self, group: int) -> None:
        """Removes all entries of a key group."""
        self.rows -= self.base.rows_of(group)
        self.base.drop_group(group)


class RocksMapTable(_InDatabase, MapTable):
    """Entry to map."""

    def __init__(self, user_key: TypeInformation, value: TypeInformation, stamped: bool, base: MapBase) -> None:
        super().__init__(user_key, value, stamped)
        self.base: Any = base

    def spelled(self, entry: Any, user_key: Any) -> Any:
        found = self.base.get(entry)
        return user_key if found is None else found.spelling(user_key)

    def settle(self) -> None:
        self.rows += self.base.merge(self._taken())

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        deltas: dict[Any, MapDelta] = {}
        rows = zip(entries, ops.tolist(), self._read_key(user_keys), self._read(values), strict=True)
        for entry, op, user_key, value in rows:
            delta = deltas.get(entry)
            if delta is None:
                delta = deltas[entry] = MapDelta()
            if op == Op.CLEAR:
                delta.cleared, delta.entries = True, {}
            else:
                delta.entries.pop(user_key, None)
                delta.entries[user_key] = value if op == Op.PUT else DELETED
        self.rows += self.base.merge(deltas)

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for entry, inner in self.base.items():
            gone = [user_key for user_key, stamped in inner.items() if expired(stamped[1])]
            if gone:
                self.rows += self.base.merge({entry: MapDelta(entries=dict.fromkeys(gone, DELETED))})

    def drop_group(self, group: int) -> None:
        """Removes all entries of a key group."""
        self.rows -= self.base.rows_of(group)
        self.base.drop_group(group)


class RocksColumnListTable(NamespacedListTable):
    """Namespace to lists of keys, asked for by columns. Keys have numbers until what was staged is written."""

    def __init__(self, value: TypeInformation, numbers: KeyNumbers, base: ColumnLists) -> None:
        super().__init__(value, numbers)
        self.base: Any = base

    @property
    def keys(self) -> int:
        lists: ColumnLists = self.base
        return lists.live

    def drop_group(self, group: int) -> None:
        """Removes all lists of a key group."""
        self.rows -= self.base.drop_group(group)

    def _change_all(self, changes: dict[str | None, Frozen]) -> None:
        if changes:
            self.rows += self.base.change([(namespace, *change) for namespace, change in changes.items()])

    def _stored(self, parts: Sequence[Part]) -> Iterator[Elements]:
        kept = [self._kept(part) for part in parts]
        positions = np.concatenate([np.empty(0, np.int64), *(part.positions for part in kept)])
        for elements in self.base.of(_asked(kept)):
            yield Elements(positions[elements.numbers], elements.values)

    def _have(self, parts: Sequence[Part]) -> Iterator[Flags]:
        found, at = self.base.has(_asked(parts)), 0
        for part in parts:
            yield found[at : at + len(part.numbers)]
            at += len(part.numbers)

    def _frozen(self, namespace: str | None, written: Written) -> Frozen:
        # All that was emptied is logged: a look into the database costs more than a row in the log.
        return Frozen(written.cleared.numbers, self._added(written))


class RocksStampedListTable(RocksColumnListTable, StampedListTable):
    """The same with a time to live."""

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        every, cursor = KeyGroupRange(0, self.numbers.codec.max_parallelism - 1), b""
        while True:
            cells, cursor = self.base.cells_from(every, cursor, AT_ONCE)
            changed = self.base.entries_with(cells, lambda values: ~unexpired(split_stamps(values)[1], expired))
            for namespace, _, numbers in self.base.parts_with(changed):
                whole = joined([*self._stored([Part(namespace, np.arange(len(numbers)), numbers)])] or [self._nothing])
                left = unexpired(split_stamps(whole.values)[1], expired)
                gone = some_of(whole.numbers, ~left, len(numbers))  # not where an earlier piece has told already
                kept = whole.where(left & gone[whole.numbers])
                anew = Elements(numbers[kept.numbers], kept.values)
                self._change_all({namespace: Frozen(numbers[gone], anew)})
            if not cursor:
                return


def _asked(parts: Sequence[Part]) -> Asked:
    return Asked.of([(part.namespace, part.numbers) for part in parts])


def rocks_table(
    descriptor: StateDescriptor, opened: Opened, make_cells: Callable[[], Cells], numbers: KeyNumbers
) -> HeapTable:
    """Returns the table of a descriptor over its cells.

    Args:
        descriptor: Of the state.
        opened: Whoever holds the database.
        make_cells: Makes keys of cells.
        numbers: Of the backend's keys, for tables of columns.
    """
    value, stamped, cells = descriptor.type_info, descriptor.ttl_config is not None, make_cells()
    stored = stamped_type(value) if stamped else value
    if isinstance(descriptor, ListStateDescriptor) and descriptor.by_namespace:
        lists = ColumnLists(opened, cells, numbers, ListCells(to_arrow(stored)))
        return (RocksStampedListTable if stamped else RocksColumnListTable)(value, numbers, lists)
    if isinstance(descriptor, ListStateDescriptor):
        return RocksListTable(value, stamped, ListBase(opened, cells, list_codec(stored)))
    if isinstance(descriptor, MapStateDescriptor):
        keys = descriptor.key_type_info
        spelled = spells(keys) is not None
        values = spelled_codec(keys, stored) if spelled else value_codec(stored)
        small = None if spelled else value_codec(MapType(keys, stored))
        base = MapBase(opened, cells, ordered_codec(keys), values, small)
        return RocksMapTable(keys, value, stamped, base)
    return RocksValueTable(value, stamped, ValueBase(opened, cells, value_codec(stored)))


__all__ = [
    "DELETED",
    "Base",
    "RocksColumnListTable",
    "RocksListTable",
    "RocksMapTable",
    "RocksStampedListTable",
    "RocksTable",
    "RocksValueTable",
    "rocks_table",
]
