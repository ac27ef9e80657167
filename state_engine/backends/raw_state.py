"""Raw state of one subtask: bytes by key group, and bytes in partitions of the subtask as a whole.

A snapshot writes all of both. What it leaves out is removed; what did not change is not written again. In the log the
first is a value per key group and the second an operator list, so all readers of states can read them.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.types import AtomicType
from state_engine.backends.operator_lists import OperatorList, Slot
from state_engine.backends.schemas import RAW_KEYED, RAW_OPERATOR, raw_keyed_schema, raw_operator_schema
from state_engine.log import ops as log
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.serialization.types import ddl_to_arrow

Rows = Callable[[StateSchema], Iterable[pa.Table]]
Changes = list[tuple[StateSchema, pa.Table]]
_BINARY = AtomicType("binary")


class RawWritten(NamedTuple):
    """What one snapshot wrote.

    Attributes:
        keyed: Bytes of each key group that the snapshot began.
        partitions: Bytes of each partition.
    """

    keyed: Mapping[int, bytes]
    partitions: Sequence[bytes]


class RawState:
    """Both raw states of one subtask.

    Args:
        uid: The operator.
        own: The slot of the partitions that the subtask writes.
    """

    def __init__(self, uid: str, own: Slot) -> None:
        self._keyed = _RawKeyed(raw_keyed_schema(uid))
        self._partitions = _RawPartitions(raw_operator_schema(uid), own)
        self._written = RawWritten({}, ())

    def attach(self, restored: Iterable[str], load: Rows) -> None:
        """Passes which of the states the log has as of the epoch's predecessor, and the function that loads them."""
        names = set(restored)
        self._keyed.load = load if RAW_KEYED in names else None
        self._partitions.load = load if RAW_OPERATOR in names else None

    def keyed(self) -> dict[int, bytes]:
        """Returns the sealed bytes of the subtask's own key groups, ascending."""
        return self._keyed.read()

    def partitions(self) -> list[bytes]:
        """Returns the sealed partitions of the subtask."""
        return self._partitions.read()

    def write(self, written: RawWritten) -> None:
        """Takes what the epoch's snapshot wrote, which `freeze` turns into rows."""
        self._written = written

    def freeze(self, processing_time: int, seq: int) -> Changes:
        """Returns what differs from the sealed state as rows of the log, and keeps it pending, as other states do."""
        (keyed, partitions), self._written = self._written, RawWritten({}, ())
        changes: Changes = []
        rows = self._keyed.freeze(keyed, processing_time, seq)
        if rows is not None:
            changes.append((self._keyed.schema, rows))
            seq += rows.num_rows
        rows = self._partitions.freeze(partitions, processing_time, seq)
        return changes if rows is None else [*changes, (self._partitions.schema, rows)]

    def settle(self) -> None:
        """Applies the pending changes, which were sealed."""
        self._keyed.settle()
        self._partitions.settle()

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the raw states that were read or written."""
        return tuple(state.schema for state in (self._keyed, self._partitions) if state.asked)

    @property
    def bytes_held(self) -> int:
        """Size of what stays in memory between epochs: the partitions. For key groups only digests stay."""
        return self._partitions.bytes_held

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Key groups and partitions as they are sealed."""
        states = (state for state in (self._keyed, self._partitions) if state.asked)
        return tuple(StateStatistics(name=state.schema.name, rows=state.rows, keys=state.keys) for state in states)


class _RawKeyed:
    """Bytes by key group.

    Attributes:
        schema: The state.
        load: Returns its rows of the subtask's own key groups; None if the log has none.
        asked: Whether it was read or written.
    """

    def __init__(self, schema: StateSchema) -> None:
        self.schema = schema
        self.load: Rows | None = None
        self.asked = False
        self._sealed: dict[int, bytes] | None = None
        self._pending: dict[int, bytes] | None = None

    @property
    def rows(self) -> int:
        return len(self._sealed or ())

    keys = rows

    def read(self) -> dict[int, bytes]:
        self.asked = True
        values_by_group: dict[int, Any] = {}
        for table in self.load(self.schema) if self.load is not None else ():
            groups: list[int] = table.column(log.KEY_GROUP).to_numpy().tolist()
            values = table.column(log.VALUE)
            for index, (group, op) in enumerate(zip(groups, table.column(log.OP).to_numpy().tolist(), strict=True)):
                if op == log.Op.PUT:
                    values_by_group[group] = values[index]  # no copy; only values that stay are converted to bytes
                else:
                    values_by_group.pop(group, None)
        held = {group: values_by_group[group].as_py() for group in sorted(values_by_group)}
        self._sealed = {group: _digest(data) for group, data in held.items()}
        return held

    def freeze(self, written: Mapping[int, bytes], processing_time: int, seq: int) -> pa.Table | None:
        if self._sealed is None:
            if self.load is not None:
                self.read()
            elif not written:
                return None
        self.asked = True
        sealed, digests = self._sealed or {}, {group: _digest(data) for group, data in written.items()}
        self._pending = digests
        changed = sorted(group for group in {*sealed, *digests} if sealed.get(group) != digests.get(group))
        if not changed:
            return None
        removed = np.array([group not in written for group in changed])
        columns: list[Any] = [
            pa.array(changed, pa.int32()),
            pa.nulls(len(changed), pa.string()),
            pa.array([written.get(group) for group in changed], pa.binary()),
            pa.array(np.where(removed, log.Op.DELETE, log.Op.PUT).astype(np.int8)),
            pa.array(np.arange(seq, seq + len(changed), dtype=np.int64)),
            pa.array(np.full(len(changed), processing_time, np.int64), mask=removed),
        ]
        return pa.table(columns, schema=log.log_schema(self.schema, ddl_to_arrow))

    def settle(self) -> None:
        if self._pending is not None:
            self._sealed, self._pending = self._pending, None


class _RawPartitions:
    """Bytes in partitions: an operator list that each snapshot replaces. For the attributes see `_RawKeyed`."""

    def __init__(self, schema: StateSchema, own: Slot) -> None:
        self.schema = schema
        self.load: Rows | None = None
        self.asked = False
        self._own = own
        self._list: OperatorList | None = None

    @property
    def rows(self) -> int:
        return self._list.rows if self._list is not None else 0

    @property
    def keys(self) -> int:
        return min(self.rows, 1)

    @property
    def bytes_held(self) -> int:
        return sum(map(len, self._list.get())) if self._list is not None else 0

    def read(self) -> list[bytes]:
        return list(self._loaded().get())

    def freeze(self, written: Sequence[bytes], processing_time: int, seq: int) -> pa.Table | None:
        if self._list is None and self.load is None and not written:
            return None
        held, partitions = self._loaded(), list(written)
        if self.read() != partitions:
            held.update(partitions)
        return held.freeze(processing_time, seq)

    def settle(self) -> None:
        if self._list is not None:
            self._list.settle()

    def _loaded(self) -> OperatorList:
        self.asked = True
        if self._list is None:
            self._list = OperatorList(self.schema, _BINARY, self._own, union=False)
            self._list.load(self.load(self.schema) if self.load is not None else ())
        return self._list


def _digest(data: bytes) -> bytes:
    """Returns a digest of bytes. No one can construct other bytes with the same digest, so no change is missed."""
    return hashlib.blake2b(data, digest_size=32).digest()


__all__ = ["RawState", "RawWritten"]
