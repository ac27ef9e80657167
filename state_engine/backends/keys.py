"""Entry keys: the form in which a backend's tables store the key of a record, alone or with a namespace."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import INTEGERS, StructType
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import SEED, Hashes, hash_integers, hash_values, key_hasher
from state_engine.serialization.column import Column
from state_engine.serialization.convert import field_readers, writer


class Namespaced(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A key in a namespace other than the void one; never equal to a key alone."""

    key: Any
    namespace: str


class _NoKey:
    """Replaces the current key where none exists: keyed state that is used nevertheless raises an error."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise self.refused()

    def refused(self) -> JobDefinitionError:
        """Returns the error to raise when it is used."""
        return JobDefinitionError(
            "Keyed state, or a timer, was used where there is no current key.",
            action="Use it in process_element and on_timer; what belongs to the subtask as a whole is operator state.",
        )


NO_KEY: Any = _NoKey()


class KeyContext:
    """The current key of an operator. `entry` is the key itself in the void namespace; states read nothing else."""

    __slots__ = ("_observers", "entry")

    def __init__(self) -> None:
        self.entry: Any = None
        self._observers: list[Callable[..., None]] = []

    def on_change(self, observer: Callable[..., None]) -> None:
        """Calls an observer each time an entry becomes current: once for each record.

        For records that are passed as columns, the observer gets their count.

        `entry` is a plain attribute until there is an observer, because it is set and read for each record.
        """
        self._observers.append(observer)
        self.__class__ = _ObservedKeyContext

    def count_records(self, records: int) -> None:
        """Tells the observers how many records were passed as columns."""
        for observer in self._observers:
            observer(records)

    def current_key(self) -> Any:
        """Returns the current key without its namespace."""
        entry = self.entry
        return entry.key if type(entry) is Namespaced else entry


_ENTRY: Any = KeyContext.__dict__["entry"]


class _ObservedKeyContext(KeyContext):
    """A `KeyContext` with observers."""

    __slots__ = ()

    @property
    def entry(self) -> Any:
        return _ENTRY.__get__(self)

    @entry.setter
    def entry(self, entry: Any) -> None:
        _ENTRY.__set__(self, entry)
        if entry is not NO_KEY:
            for observer in self._observers:
                observer()


class KeyCodec:
    """Converts keys of one operator between Python and columns, and computes their key groups.

    A key of one column is the value itself, a key of several columns is a tuple.
    """

    def __init__(self, columns: Sequence[Column], max_parallelism: int) -> None:
        self.columns = tuple(columns)
        self.max_parallelism = max_parallelism
        types = [parse_ddl(c.type) for c in columns]
        self._single = len(types) == 1
        self._readers = field_readers(StructType(tuple(c.name for c in columns), tuple(types)))
        self._writers = [writer(t) for t in types]
        self._hash = key_hasher([c.type for c in columns])
        self._hash_columns = [_column_hasher(c.type) for c in columns]

    def read(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the keys in the arrays of the key columns."""
        if self._single:
            return self._readers[0](arrays[0])
        return list(zip(*(read(a) for read, a in zip(self._readers, arrays, strict=True)), strict=True))

    def write(self, keys: Sequence[Any]) -> "list[pa.Array[Any]]":
        """Returns one array per key column."""
        return [write(column) for write, column in zip(self._writers, self._columns(keys), strict=True)]

    def _columns(self, keys: Sequence[Any]) -> list[Sequence[Any]]:
        if self._single:
            return [keys]
        return [list(map(itemgetter(i), keys)) for i in range(len(self.columns))]  # zip(*keys) costs ten times as much

    def key_group(self, key: Any) -> int:
        """Returns the key group of one key."""
        return self._hash((key,) if self._single else key) % self.max_parallelism

    def group_of(self, entry: Any) -> int:
        """Returns the key group of an entry."""
        return self.key_group(entry.key if type(entry) is Namespaced else entry)

    def key_groups(self, keys: Sequence[Any], arrays: "Sequence[pa.Array[Any]]") -> NDArray[np.int32]:
        """Returns the key groups of many keys.

        Args:
            keys: The keys.
            arrays: The same keys as columns.
        """
        return self._groups([partial(_itself, column) for column in self._columns(keys)], arrays)

    def groups_of(self, arrays: "Sequence[pa.Array[Any]]") -> NDArray[np.int32]:
        """Returns the key groups of many keys that exist only as columns."""
        return self._groups([partial(read, array) for read, array in zip(self._readers, arrays, strict=True)], arrays)

    def _groups(self, values: "list[Values]", arrays: "Sequence[pa.Array[Any]]") -> NDArray[np.int32]:
        hashes = np.full(len(arrays[0]), SEED, np.uint64)
        for hash_column, read_column, array in zip(self._hash_columns, values, arrays, strict=True):
            hashes = hash_column(read_column, array, hashes)
        groups: NDArray[np.int32] = np.mod(hashes.view(np.int64), self.max_parallelism).astype(np.int32)
        return groups


def _itself(values: Sequence[Any]) -> Sequence[Any]:
    return values


Values = Callable[[], Sequence[Any]]
"""Returns a key column as Python values, for a hash that accepts only these."""


def _column_hasher(ddl: str) -> Callable[[Values, "pa.Array[Any]", Hashes], Hashes]:
    """Returns a function that hashes one key column of many keys; its seeds are the hashes of the columns before it."""
    if ddl not in INTEGERS:
        return lambda values, _, seeds: hash_values(values(), ddl, seeds)

    def hash_column(_: Values, array: Any, seeds: Hashes) -> Hashes:
        if not array.null_count:
            return hash_integers(array.to_numpy(), ddl, seeds)
        hashes = hash_integers(array.fill_null(0).to_numpy(), ddl, seeds)
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, seeds)

    return hash_column


def split_entry(entry: Any) -> tuple[Any, str | None]:
    """Returns the key of an entry, and its namespace, None if that is the void one."""
    return (entry.key, entry.namespace) if type(entry) is Namespaced else (entry, None)


def split_entries(entries: Iterable[Any]) -> tuple[list[Any], list[str | None] | None]:
    """Returns the keys of entries, and their namespaces, or None where all are void."""
    as_list = list(entries)
    if Namespaced not in set(map(type, as_list)):
        return as_list, None
    keys = [e.key if type(e) is Namespaced else e for e in as_list]
    return keys, [e.namespace if type(e) is Namespaced else None for e in as_list]


def join_entries(keys: list[Any], namespaces: Sequence[str | None] | None) -> list[Any]:
    """The inverse of `split_entries`."""
    if namespaces is None:
        return keys
    return [k if n is None else Namespaced(k, n) for k, n in zip(keys, namespaces, strict=True)]


__all__ = [
    "NO_KEY",
    "KeyCodec",
    "KeyContext",
    "Namespaced",
    "join_entries",
    "split_entries",
    "split_entry",
]
