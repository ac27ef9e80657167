"""Operator list state of one subtask: a list per state; for a union list state, also the lists of the other subtasks.

The log stores the lists by (subtask, parallelism), as the key group and the namespace of a row. So a list that was
written at another parallelism can be recognised. The first epoch at a new parallelism writes all lists anew, and
removes the old ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.state import ListState
from state_engine.api.types import TypeInformation
from state_engine.backends.stored_type import StateValueError
from state_engine.iterating import whole
from state_engine.log import ops as log
from state_engine.log.records import StateSchema
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.mutability import conformer, copier
from state_engine.serialization.types import ddl_to_arrow


class Slot(NamedTuple):
    """Which subtask a list belongs to, at which parallelism."""

    parallelism: int
    subtask: int


def even_pieces(count: int, parallelism: int) -> list[slice]:
    """Cuts elements into contiguous pieces, the first ones longer by one, as Flink's round-robin repartitioner does."""
    base, longer = divmod(count, parallelism)
    starts = [n * base + min(n, longer) for n in range(parallelism + 1)]
    return [slice(starts[n], starts[n + 1]) for n in range(parallelism)]


class OperatorList(ListState[Any]):
    """One list state of one subtask. A read sees the sealed elements with the epoch's changes.

    Args:
        schema: The state.
        type_info: Of its elements.
        own: The slot of the list that the subtask writes.
        union: Whether the subtask sees the elements of all subtasks.
    """

    def __init__(self, schema: StateSchema, type_info: TypeInformation, own: Slot, *, union: bool) -> None:
        self.schema = schema
        self.union = union
        self._own = own
        self._read, self._write = reader(type_info), writer(type_info)
        self._conform, self._copy = conformer(type_info), copier(type_info)
        self._sealed: dict[Slot, list[Any]] = {}
        self._cleared = False
        self._appended: list[Any] = []
        self._removed: tuple[Slot, ...] = ()
        self._rescaled = False
        self._pending: tuple[bool, Any] | None = None

    # What a function calls ----------------------------------------------------------------------------------------

    def get(self) -> Iterator[Any]:
        every = self._current()
        if self.union:
            parallelism, subtask = self._own
            lists = [every if n == subtask else self._sealed.get(Slot(parallelism, n), []) for n in range(parallelism)]
            every = [element for elements in lists for element in elements]
        return iter(every if self._copy is None else [self._copy(element) for element in every])

    def add(self, value: Any) -> None:
        self._appended.append(self._conform(value))

    def add_all(self, values: list[Any]) -> None:
        for value in whole(values):
            self.add(value)

    def update(self, values: list[Any]) -> None:
        self._cleared, self._appended = True, [self._conform(value) for value in whole(values)]

    def clear(self) -> None:
        self._cleared, self._appended = True, []

    # What the engine calls ----------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of sealed elements in the subtask's own list."""
        return len(self._sealed.get(self._own, ()))

    def load(self, tables: Iterable[pa.Table]) -> None:
        """Loads all lists from the log, and takes the subtask's own piece of lists of another parallelism."""
        for rows in tables:
            self._apply(rows, lambda _: True)
        others = tuple(sorted(slot for slot in self._sealed if slot.parallelism != self._own.parallelism))
        if others:
            self._rescale(others)
        if not self.union:
            self._sealed = {slot: held for slot, held in self._sealed.items() if slot == self._own}

    def _rescale(self, others: tuple[Slot, ...]) -> None:
        parallelism, subtask = self._own
        elements = [element for slot in sorted(self._sealed) for element in self._sealed[slot]]
        pieces = [elements[piece] for piece in even_pieces(len(elements), parallelism)]
        self._sealed = {Slot(parallelism, n): piece for n, piece in enumerate(pieces) if n != subtask}
        self._cleared, self._appended, self._rescaled = True, pieces[subtask], True
        self._removed = others if subtask == 0 else ()

    def freeze(self, processing_time: int, seq: int) -> pa.Table | None:
        """Returns the epoch's changes as rows of the log, sorted by key group, and keeps them pending.

        Args:
            processing_time: The epoch's, in ms.
            seq: Number of the first row.

        Raises:
            StateValueError: An element does not fit the state's type.
        """
        try:
            values: Any = self._write(self._appended)
        except ValueTypeError as error:
            raise StateValueError(None, error) from None
        cleared, removed = self._cleared, self._removed
        if cleared and not self._rescaled and self._is_sealed(values):
            cleared, values = False, values.slice(0, 0)
        self._pending = (cleared, values)
        self._cleared, self._appended, self._removed, self._rescaled = False, [], (), False
        slots = [*removed, *([self._own] if cleared else []), *([self._own] * len(values))]
        if not slots:
            return None
        clears = len(slots) - len(values)
        kinds = np.array([log.Op.CLEAR] * clears + [log.Op.APPEND] * len(values), dtype=np.int8)
        order = np.argsort(np.array([slot.subtask for slot in slots]), kind="stable")
        none: Any = pa.nulls(clears, values.type)
        columns: list[Any] = [
            pa.array([slots[n].subtask for n in order], pa.int32()),
            pa.array([str(slots[n].parallelism) for n in order], pa.string()),
            pa.concat_arrays([none, values]).take(pa.array(order)),
            pa.array(kinds[order]),
            pa.array(np.arange(seq, seq + len(slots), dtype=np.int64)),
            pa.array(np.full(len(slots), processing_time, np.int64), mask=kinds[order] == log.Op.CLEAR),
        ]
        return pa.table(columns, schema=log.log_schema(self.schema, ddl_to_arrow))

    def _is_sealed(self, values: Any) -> bool:
        """Returns whether the list already holds exactly these elements: functions store the same list every epoch."""
        held = self._sealed.get(self._own, [])
        return len(held) == len(values) and _bytes_of(self._write(held)) == _bytes_of(values)

    def settle(self) -> None:
        """Applies the pending changes, which were sealed."""
        if self._pending is None:
            return
        cleared, values = self._pending
        self._pending = None
        kept = [] if cleared else self._sealed.get(self._own, [])
        self._sealed[self._own] = [*kept, *self._read(values)]

    def follow(self, rows: pa.Table) -> None:
        """Applies what the other subtasks of a union changed in a sealed epoch."""
        self._apply(rows, lambda slot: slot != self._own)

    def _apply(self, rows: pa.Table, wanted: Any) -> None:
        subtasks: list[int] = rows.column(log.KEY_GROUP).to_numpy().tolist()
        parallelisms = rows.column(log.NAMESPACE).cast(pa.int64()).to_numpy().tolist()
        ops, values = rows.column(log.OP).to_numpy().tolist(), self._read(rows.column(log.VALUE))
        for parallelism, subtask, op, value in zip(parallelisms, subtasks, ops, values, strict=True):
            if op == log.Op.RESET_GROUP:
                for slot in [slot for slot in self._sealed if slot.subtask == subtask and wanted(slot)]:
                    del self._sealed[slot]
                continue
            slot = Slot(int(parallelism), subtask)
            if not wanted(slot):
                continue
            if op == log.Op.APPEND:
                self._sealed.setdefault(slot, []).append(value)
            else:
                self._sealed.pop(slot, None)

    def _current(self) -> Sequence[Any]:
        return self._appended.copy() if self._cleared else [*self._sealed.get(self._own, ()), *self._appended]


def _bytes_of(values: Any) -> bytes:
    return bytes(pa.record_batch([values], names=[log.VALUE]).serialize())


__all__ = ["OperatorList", "Slot", "even_pieces"]
