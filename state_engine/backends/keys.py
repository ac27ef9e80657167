"""Entry keys: how the key of a record, alone or with a namespace, stands in a backend's tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import INTEGERS, AtomicType, TypeInformation
from state_engine.key_groups import hash_integers, hash_strings, key_hasher
from state_engine.serialization.column import Column
from state_engine.serialization.convert import reader, writer


class Namespaced(msgspec.Struct, frozen=True, gc=False):
    """A key in a namespace other than the void one; never equal to a key alone."""

    key: Any
    namespace: str


class KeyContext:
    """The current key of an operator. `entry` is the key itself in the void namespace; states read nothing else."""

    __slots__ = ("entry",)

    def __init__(self) -> None:
        self.entry: Any = None

    def current_key(self) -> Any:
        """Returns the current key without its namespace."""
        entry = self.entry
        return entry.key if type(entry) is Namespaced else entry


class KeyCodec:
    """Keys of one operator between Python and columns, and their key groups.

    A key of one column is the value itself, a key of several is a tuple.
    """

    def __init__(self, columns: Sequence[Column], max_parallelism: int) -> None:
        self.columns = tuple(columns)
        self.max_parallelism = max_parallelism
        types = [parse_ddl(c.type) for c in columns]
        self._single = len(types) == 1
        self._readers = [reader(t) for t in types]
        self._writers = [writer(t) for t in types]
        self._hash = key_hasher([c.type for c in columns])
        self._hash_column = _column_hasher(types[0]) if self._single else None

    def read(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the keys of the key columns' arrays."""
        if self._single:
            return self._readers[0](arrays[0])
        return list(zip(*(read(a) for read, a in zip(self._readers, arrays, strict=True)), strict=True))

    def write(self, keys: Sequence[Any]) -> "list[pa.Array[Any]]":
        """Returns one array per key column."""
        if self._single:
            return [self._writers[0](keys)]
        columns = list(zip(*keys, strict=True)) if keys else [() for _ in self._writers]
        return [write(column) for write, column in zip(self._writers, columns, strict=True)]

    def key_group(self, key: Any) -> int:
        """Returns the key group of one key."""
        return self._hash((key,) if self._single else key) % self.max_parallelism

    def key_groups(
        self, keys: Sequence[Any], arrays: "Sequence[pa.Array[Any]]"
    ) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Returns the key groups of many keys.

        Args:
            keys: The keys.
            arrays: The same keys as columns.
        """
        if not self._hash_column or arrays[0].null_count:
            return np.fromiter(map(self.key_group, keys), dtype=np.int32, count=len(keys))
        groups: np.ndarray[Any, np.dtype[np.int32]] = np.mod(
            self._hash_column(keys, arrays[0]), self.max_parallelism
        ).astype(np.int32)
        return groups


def _column_hasher(key: TypeInformation) -> "Callable[[Sequence[Any], Any], np.ndarray[Any, Any]] | None":
    """Returns what hashes a whole column without nulls, for the types that most keys have."""
    name = key.name if isinstance(key, AtomicType) else ""
    if name in INTEGERS:
        return lambda _, array: hash_integers(array.to_numpy(zero_copy_only=False), name)
    if name == "string":
        return lambda keys, _: hash_strings(keys)
    return None


def split_entries(entries: Iterable[Any]) -> tuple[list[Any], list[str | None] | None]:
    """Returns the keys of entries, and their namespaces, or None where all are void."""
    listed = list(entries)
    if Namespaced not in set(map(type, listed)):
        return listed, None
    keys = [e.key if type(e) is Namespaced else e for e in listed]
    return keys, [e.namespace if type(e) is Namespaced else None for e in listed]


def join_entries(keys: list[Any], namespaces: Sequence[str | None] | None) -> list[Any]:
    """The inverse of `split_entries`."""
    if namespaces is None:
        return keys
    return [k if n is None else Namespaced(k, n) for k, n in zip(keys, namespaces, strict=True)]


__all__ = ["KeyCodec", "KeyContext", "Namespaced", "join_entries", "split_entries"]
