"""The keys of the cells of one state in the database.

```
number of the state, 2 bytes | key group, 2 bytes | kind | key columns | 00, or 01 and the namespace | rest
```

All of it is big endian and in the order-preserving encoding of `ordered.py`. So a key group of a state is one range,
and the entries of a map, or the pieces of a list, under one key and namespace have one prefix.

| kind | rest | is |
|---|---|---|
| 00 | – | a value; or a header of a map or list: row count, next cell's number (0: all rows follow), 8 bytes each |
| 01 | user key | an entry of a map: 8 bytes of its place in the map's order, then its value |
| 01 | 8 bytes | a piece of a list: elements that one epoch appended, at most `PIECE` |

For timers, a block of key groups has cells of many rows: its first key group, kind 01, and 8 bytes (`timers.py`).

If user keys have several spellings (`serialization/equality.py`), an entry has its own spelling before the value.

Values and elements are encoded as in `values.py`; elements of a list by columns as in `list_cells.py`.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import INTEGERS
from state_engine.backends.keys import KeyCodec, Namespaced, split_entries
from state_engine.backends.rocksdb.ordered import decode_bytes, encode_bytes, ordered_codec

LAST_NUMBER = 0xFFFE
"""The highest number that a state may have: the key after its cells must have an encoding, too."""

_HEAD = struct.Struct(">HHB")
_NUMBER = struct.Struct(">Q")
_VOID = b"\x00"
_INTEGER_KEY = np.dtype(
    [("number", ">u2"), ("group", ">u2"), ("kind", "u1"), ("some", "u1"), ("key", ">u8"), ("void", "u1")]
)


class Cells:
    """Key bytes of one state.

    Args:
        number: The state's number in this database, from 1.
        codec: The operator's keys.

    Attributes:
        number: As given.
        codec: As given.
    """

    def __init__(self, number: int, codec: KeyCodec) -> None:
        self.number = number
        self.max_parallelism = codec.max_parallelism
        self.codec = codec
        codecs = [ordered_codec(parse_ddl(c.type)) for c in codec.columns]
        self._encoders = [c.encode for c in codecs]
        self._decoders = [c.decode for c in codecs]
        self._single = self._encoders[0] if len(codecs) == 1 else None
        self._integer = len(codecs) == 1 and codec.columns[0].type in INTEGERS

    def _body(self, entry: Any) -> bytes:
        key, space = (entry.key, entry.namespace) if type(entry) is Namespaced else (entry, None)
        if self._single is not None:
            body = self._single(key)
        else:
            body = b"".join([encode(part) for encode, part in zip(self._encoders, key, strict=True)])
        return body + self._space(space)

    def group(self, entry: Any) -> int:
        """Returns the key group of an entry."""
        return self.codec.group_of(entry)

    def key(self, entry: Any) -> bytes:
        """Returns the key of an entry's value or header."""
        return _HEAD.pack(self.number, self.group(entry), 0) + self._body(entry)

    def keys(self, entries: Sequence[Any]) -> list[bytes]:
        """Returns the keys of many entries' values or headers."""
        if len(entries) < 8:
            return [self.key(entry) for entry in entries]
        plain, spaces = split_entries(entries)
        columns = self.codec.write(plain)
        groups = self.codec.key_groups(plain, columns)
        if self._integer and spaces is None and not columns[0].null_count:
            return self._integer_keys(groups, columns[0])
        return self._keys(groups, entries)

    def keys_of(
        self,
        groups: "NDArray[np.int32]",
        columns: "list[Any]",
        namespaces: Sequence[str | None],
        spaces: "NDArray[np.int64]",
    ) -> list[bytes]:
        """Returns the keys of many headers.

        Args:
            groups: The key group of each header.
            columns: The key columns.
            namespaces: All namespaces.
            spaces: For each header, the number of its namespace.
        """
        if self._integer and not columns[0].null_count:
            keys = self._integer_keys(groups, columns[0])
        else:
            keys = self._keys(groups, self.codec.read(columns))
        tails = list(map(self._space, namespaces))
        if set(tails) == {_VOID}:
            return keys
        return [key[:-1] + tails[space] for key, space in zip(keys, spaces.tolist(), strict=True)]

    @staticmethod
    def _space(namespace: str | None) -> bytes:
        return _VOID if namespace is None else b"\x01" + encode_bytes(namespace.encode())

    def _keys(self, groups: "NDArray[np.int32]", entries: Sequence[Any]) -> list[bytes]:
        heads = {group: _HEAD.pack(self.number, group, 0) for group in set(groups.tolist())}
        return [heads[group] + self._body(entry) for group, entry in zip(groups.tolist(), entries, strict=True)]

    def _integer_keys(self, groups: "NDArray[np.int32]", keys: Any) -> list[bytes]:
        """Returns the keys of many integers in the void namespace, as `key` encodes them one by one."""
        spelled = np.zeros(len(keys), _INTEGER_KEY)
        spelled["number"], spelled["group"], spelled["some"] = self.number, groups, 1
        spelled["key"] = np.asarray(keys, np.int64).view(np.uint64) ^ np.uint64(1 << 63)
        data, size = spelled.tobytes(), _INTEGER_KEY.itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]

    def row_key(self, group: int, number: int) -> bytes:
        """Returns the key of a cell with rows of the log; these cells are numbered."""
        return _HEAD.pack(self.number, group, 1) + _NUMBER.pack(number)

    def entry(self, key: bytes) -> tuple[Any, int]:
        """Returns the entry that a cell belongs to, and where in its key the rest begins."""
        offset, parts = _HEAD.size, []
        for decode in self._decoders:
            part, offset = decode(key, offset)
            parts.append(part)
        record_key = parts[0] if self._single is not None else tuple(parts)
        if key[offset] == 0:
            return record_key, offset + 1
        space, offset = decode_bytes(key, offset + 1)
        return Namespaced(record_key, space.decode()), offset

    def groups(self, first: int, last: int) -> tuple[bytes, bytes]:
        """Returns begin and end of the cells of some key groups; the end is exclusive."""
        end = _HEAD.pack(self.number, last + 1, 0)[:4] if last < 0xFFFF else _HEAD.pack(self.number + 1, 0, 0)[:2]
        return _HEAD.pack(self.number, first, 0)[:4], end


def head_range(number: int, group: int) -> tuple[bytes, bytes]:
    """Returns begin and end of the values or headers of a key group of a state."""
    return _HEAD.pack(number, group, 0), _HEAD.pack(number, group, 1)


def is_head(key: bytes) -> bool:
    """Returns whether a key is that of a value or header."""
    return key[4] == 0


def group_of(key: bytes) -> int:
    """Returns the key group that a key names."""
    return key[2] << 8 | key[3]


def row_number(key: bytes) -> int:
    """Returns the number of a cell with rows of the log."""
    number: int = _NUMBER.unpack_from(key, _HEAD.size)[0]
    return number


def inner_prefix(head: bytes) -> bytes:
    """Returns the prefix of all entries of a map, or pieces of a list, given the key of its header."""
    return head[:4] + b"\x01" + head[5:]


def prefix_end(prefix: bytes) -> bytes:
    """Returns the first key after all keys with a self-delimiting prefix: what follows it never begins with FF."""
    return prefix + b"\xff"


def number_bytes(number: int) -> bytes:
    """Returns a number as 8 bytes that sort."""
    return _NUMBER.pack(number)


def number_of(key: bytes) -> int:
    """Returns the number of the state that a cell belongs to."""
    return key[0] << 8 | key[1]


def state_range(number: int) -> tuple[bytes, bytes]:
    """Returns begin and end of all cells of a state."""
    return number.to_bytes(2, "big"), (number + 1).to_bytes(2, "big")


__all__ = [
    "LAST_NUMBER",
    "Cells",
    "group_of",
    "head_range",
    "inner_prefix",
    "is_head",
    "number_bytes",
    "number_of",
    "prefix_end",
    "row_number",
    "state_range",
]
