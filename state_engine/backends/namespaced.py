"""Values of keys in namespaces, as columns: what declared operators and functions over batches keep on the heap.

Functions ask such states by columns, for many keys of few namespaces. So a table has two columns for each namespace,
numbers of keys and values, and nothing in it is a Python object per key: neither what is asked, nor an epoch's rows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.state import ValueState
from state_engine.api.types import TypeInformation
from state_engine.backends.columns import StateColumns, ValueColumns
from state_engine.backends.key_numbers import KeyNumbers, last_of_each, positions_of
from state_engine.backends.keys import KeyContext, join_entries, split_entry
from state_engine.backends.namespaced_keys import Part
from state_engine.backends.namespaced_tables import RunsTable, by_namespace
from state_engine.backends.tables import MISSING, LogRows
from state_engine.backends.value_runs import Run, ValueRuns
from state_engine.log.ops import Op


class NamespacedValueTable(RunsTable):
    """Namespace to values of keys; null in the overlay is a delete, as None in that of a `ValueTable`.

    What functions put key by key waits as Python values until somebody asks by columns, or the epoch ends.

    Args:
        value: Type of a value.
        numbers: Of the keys.
    """

    base: dict[str | None, ValueRuns]
    overlay: dict[str | None, Run]

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(value, numbers)
        self._put_singly: dict[tuple[str | None, Any], Any] = {}

    @property
    def keys(self) -> int:
        return self.rows

    # Columns ----------------------------------------------------------------------------------------------------------

    def get(self, parts: Sequence[Part]) -> Any:
        """Returns the values of keys, by their positions; null where there is none."""
        self._join()
        found = [self._of(part) for part in parts]
        order = np.concatenate([part.positions for part in parts]) if parts else np.empty(0, np.int64)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays([pa.array([], self.type), *found]).take(indices(back))

    def put(self, parts: Sequence[Part], values: Any) -> None:
        """Sets the values of keys, by their positions; null removes."""
        self._join()
        for namespace, positions, numbers in parts:
            self._lay(namespace, Run(numbers, values.take(indices(positions))))

    def _of(self, part: Part) -> Any:
        runs, written = self.base.get(part.namespace), self.overlay.get(part.namespace)
        stored = pa.nulls(len(part.numbers), self.type) if runs is None else runs.of(part.numbers)
        if written is None:
            return stored
        at = np.arange(len(stored))
        over = positions_of(part.numbers, written.numbers)
        at = np.where(over >= 0, over + len(stored), at)
        return pa.concat_arrays([stored, written.values]).take(indices(at))

    def _lay(self, namespace: str | None, run: Run) -> None:
        below = self.overlay.get(namespace)
        self.overlay[namespace] = run if below is None else below.under(run)

    # Key by key -------------------------------------------------------------------------------------------------------

    def value(self, entry: Any) -> Any:
        """Returns the value of an entry."""
        key, namespace = split_entry(entry)
        value = self._put_singly.get((namespace, key), MISSING)
        if value is MISSING:
            [value] = self._read(self._of(self._part_of(entry)))
        return value

    def _part_of(self, entry: Any) -> Part:
        key, namespace = split_entry(entry)
        return Part(namespace, np.array([0]), self.numbers.of([key]))

    def put_value(self, entry: Any, value: Any) -> None:
        """Sets the value of an entry."""
        self.put_own(entry, self.conform(value))

    def put_own(self, entry: Any, value: Any) -> None:
        """Sets the value of an entry to one that is as a load would give it, and that nobody else holds."""
        key, namespace = split_entry(entry)
        self._put_singly[namespace, key] = value

    def _join(self) -> None:
        """Moves what was put key by key into the columns."""
        if not self._put_singly:
            return
        keys, namespaces = [key for _, key in self._put_singly], [namespace for namespace, _ in self._put_singly]
        values = list(self._put_singly.values())
        array = self._written(self._write, values, join_entries(keys, namespaces))
        self._put_singly = {}
        for namespace, run in self._runs(self.numbers.of(keys), pa.array(namespaces, pa.string()), array):
            self._lay(namespace, run)

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        self._join()
        if not self.overlay:
            return None
        self._pending, self.overlay = self._drop_noop_deletes(), {}
        if not self._pending:
            return None
        runs = list(self._pending.values())
        gone = np.concatenate([np.asarray(run.values.is_null()) for run in runs])
        ops = np.where(gone, np.int8(Op.DELETE), np.int8(Op.PUT))
        numbers = [run.numbers for run in runs]
        return self._numbered_rows(numbers, [len(one) for one in numbers], ops, [run.values for run in runs])

    def _drop_noop_deletes(self) -> dict[str | None, Run]:
        """Returns the overlay without what came and went within the epoch."""
        found = {}
        for namespace, run in self.overlay.items():
            if run.values.null_count:
                told = np.asarray(run.values.is_valid())
                if (stored := self.base.get(namespace)) is not None:
                    told = told | stored.has(run.numbers)
                run = run.where(told)
            if len(run.numbers):
                found[namespace] = run
        return found

    def forget(self) -> None:
        self._put_singly = {}
        super().forget()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        put = values.cast(self.type).take(pa.array(np.arange(len(values)), mask=ops != Op.PUT))
        for namespace, run in self._runs(numbers, namespaces, put):
            self._change_in(namespace, run)

    def _runs(self, numbers: Numbers, namespaces: Any, values: Any) -> Iterable[tuple[str | None, Run]]:
        """Yields rows by namespace; of several of a key the last one counts."""
        for namespace, positions in by_namespace(namespaces):
            at = positions[last_of_each(numbers[positions], len(self.numbers))]
            yield namespace, Run(numbers[at], values.take(indices(at)))

    def _no_runs(self) -> ValueRuns:
        return ValueRuns(self.type)

    def _change(self, runs: ValueRuns, change: Run) -> None:
        runs.put(change)

    def used(self) -> Iterable[Numbers]:
        yield from super().used()
        for changes in self.overlay, self._pending:
            for run in changes.values():
                yield run.numbers

    def _put_numbers(self, new: Callable[[Numbers], Numbers]) -> None:
        super()._put_numbers(new)
        for changes in self.overlay, self._pending:
            for namespace, run in changes.items():
                changes[namespace] = Run(new(run.numbers), run.values)


class NamespacedValueState(ValueState[Any]):
    """One value per key and namespace, row by row."""

    def __init__(self, table: NamespacedValueTable, context: KeyContext) -> None:
        self.table = table
        self._context = context

    def bind(self) -> None:
        """Does nothing: the table is asked each time."""

    def value(self) -> Any:
        value = self.table.value(self._context.entry)
        return value if value is None or self.table.copy is None else self.table.copy(value)

    def update(self, value: Any) -> None:
        self.table.put_value(self._context.entry, value)

    def clear(self) -> None:
        self.update(None)


class NamespacedColumns(StateColumns):
    """Of states that have one value per key and namespace, whatever it means to them."""

    def remove_many(self, keys: Keys) -> None:
        self._write(keys.distinct, pa.nulls(len(keys.distinct), self.column.type))

    def _read(self, keys: Keys) -> Any:
        """Returns the value of each distinct key, null where there is none, as a read gives it."""
        return self.state.table.get(self.state.table.parts(keys))

    def _held(self, keys: Keys) -> Any:
        """Returns the value of each distinct key that something is added to, null where there is none."""
        return self._read(keys)

    def _write(self, distinct: Keys, values: Any) -> None:
        """Sets the values of keys, each there once; null removes."""
        self.state.table.put(self.state.table.parts(distinct), values)


class NamespacedValueColumns(NamespacedColumns, ValueColumns):
    """Of value states, and of whatever reads like one."""

    def get_many(self, keys: Keys) -> Any:
        return self._spread(self._read(keys), keys)

    def contains_many(self, keys: Keys) -> Any:
        return pc.is_valid(self.get_many(keys))

    def put_many(self, keys: Keys, values: Any) -> None:
        array = self.column.fitted(values, len(keys))
        self._write(keys.distinct, array if keys.distinct is keys else array.take(indices(keys.last)))


__all__ = [
    "NamespacedColumns",
    "NamespacedValueColumns",
    "NamespacedValueState",
    "NamespacedValueTable",
]
