"""Broadcast state of one subtask: a map that is the same in all of them.

Each subtask changes its own copy. The log holds one copy, as key group 0. Subtask 0 writes its changes there. The other
subtasks only report a digest, which shows that their changes are the same.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from state_engine.api.broadcast import BroadcastState, ReadOnlyBroadcastState
from state_engine.api.descriptors import MapStateDescriptor
from state_engine.backends.stored_type import StateValueError
from state_engine.errors import ReadOnlyStateError
from state_engine.iterating import whole
from state_engine.log import ops as log
from state_engine.log.records import StateSchema
from state_engine.serialization.convert import ValueTypeError, key_reader, reader, writer
from state_engine.serialization.equality import spelling_in, spells
from state_engine.serialization.mutability import conformer, copier, key_conformer
from state_engine.serialization.types import ddl_to_arrow

_REMOVED: Any = object()


class BroadcastMap(BroadcastState[Any, Any]):
    """One broadcast state. A write is visible at once; if it is not sealed, it is lost with the instance.

    Args:
        schema: The state.
        descriptor: Its types.
        logged: Whether this subtask writes the log.
    """

    def __init__(self, schema: StateSchema, descriptor: MapStateDescriptor, *, logged: bool) -> None:
        key, value = descriptor.key_type_info, descriptor.type_info
        self.schema = schema
        self.descriptor = descriptor
        self.read_only = ReadOnlyBroadcastMap(self)
        self._logged = logged
        self._read_key, self._write_key, self._conform_key = key_reader(key), writer(key), key_conformer(key)
        self._spells = spells(key)
        self._read, self._write, self._conform, self._copy = (
            reader(value),
            writer(value),
            conformer(value),
            copier(value),
        )
        self._entries: dict[Any, Any] = {}
        self._changed: dict[Any, Any] = {}
        self._cleared = False
        self.digest = ""

    # What a function calls ----------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        value = self._entries.get(self._own(key))
        return value if self._copy is None or value is None else self._copy(value)

    def contains(self, key: Any) -> bool:
        return self._own(key) in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        copy = self._copy
        return list(self._entries.items()) if copy is None else [(k, copy(v)) for k, v in self._entries.items()]

    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        conformed = self._own(key)
        if self._spells is not None and self._spells(conformed):
            conformed = spelling_in(self._entries, conformed)
        self._set(conformed, self._conform(value))

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in whole(dict_value.items()):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._set(self._own(key), _REMOVED)

    def clear(self) -> None:
        self._entries, self._changed, self._cleared = {}, {}, True

    def _own(self, key: Any) -> Any:
        return self._conform_key(key)

    def _set(self, key: Any, value: Any) -> None:
        self._entries.pop(key, None)
        self._changed.pop(key, None)
        self._changed[key] = value
        if value is not _REMOVED:
            self._entries[key] = value  # after all other entries, as a load orders them

    # What the engine calls ----------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def load(self, tables: Iterable[pa.Table]) -> None:
        """Applies rows of the log, in order."""
        for rows in tables:
            keys, values = self._read_key(rows.column(log.USER_KEY)), self._read(rows.column(log.VALUE))
            for op, key, value in zip(rows.column(log.OP).to_numpy().tolist(), keys, values, strict=True):
                if op == log.Op.PUT:
                    self._entries.pop(key, None)
                    self._entries[key] = value
                elif op == log.Op.DELETE:
                    self._entries.pop(key, None)
                else:
                    self._entries = {}

    def freeze(self, processing_time: int, seq: int) -> pa.Table | None:
        """Returns the epoch's changes as rows of the log, in the subtask that writes it, and notes their digest.

        Args:
            processing_time: The epoch's, in ms.
            seq: Number of the first row.

        Raises:
            StateValueError: A key or value does not fit the state's type.
        """
        cleared, changed = self._cleared, self._changed
        self._cleared, self._changed, self.digest = False, {}, ""
        if not cleared and not changed:
            return None
        try:
            keys: Any = self._write_key(list(changed))
            values: Any = self._write([None if value is _REMOVED else value for value in changed.values()])
        except ValueTypeError as error:
            raise StateValueError(None, error) from None
        for (key, value), read in zip(changed.items(), self._read(values), strict=True):
            if value is not _REMOVED:
                self._entries[key] = read  # as a load returns it
        ops = np.array([log.Op.DELETE if v is _REMOVED else log.Op.PUT for v in changed.values()], dtype=np.int8)
        if cleared:
            keys, values = (pa.concat_arrays([pa.nulls(1, array.type), array]) for array in (keys, values))
            ops = np.concatenate([np.array([log.Op.CLEAR], dtype=np.int8), ops])
        count = len(ops)
        columns: list[Any] = [
            pa.array(np.zeros(count, np.int32)),
            pa.nulls(count, pa.string()),
            keys,
            values,
            pa.array(ops),
            pa.array(np.arange(seq, seq + count, dtype=np.int64)),
            pa.array(np.full(count, processing_time, np.int64), mask=ops != log.Op.PUT),
        ]
        self.digest = _digest(keys, values, ops)
        return pa.table(columns, schema=log.log_schema(self.schema, ddl_to_arrow)) if self._logged else None


class ReadOnlyBroadcastMap(ReadOnlyBroadcastState[Any, Any]):
    """A broadcast state that refuses all writes."""

    def __init__(self, state: BroadcastMap) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def _refuse(self, *_: Any) -> None:
        schema = self._state.schema
        raise ReadOnlyStateError(
            f"The broadcast state {schema.name!r} of operator {schema.uid!r} was written outside of "
            "process_broadcast_element.",
            action="Write it there, where every subtask gets the same elements; keep what belongs to a key in keyed "
            "state.",
        )

    clear = put = put_all = remove = __setitem__ = __delitem__ = _refuse


def _digest(keys: Any, values: Any, ops: Any) -> str:
    batch = pa.record_batch([keys, values, pa.array(ops)], names=[log.USER_KEY, log.VALUE, log.OP])
    return xxhash.xxh3_128_hexdigest(memoryview(batch.serialize()))


__all__ = ["BroadcastMap", "ReadOnlyBroadcastMap"]
