"""Values of keys in namespaces, as columns: what windows that are declared keep on the heap.

Functions ask such states by columns, for many keys of few namespaces. So a table has two columns for each namespace,
numbers of keys and values, and nothing in it is a Python object per key: neither what is asked, nor an epoch's rows.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.state import ValueState
from state_engine.api.types import TypeInformation
from state_engine.backends.columns import ValueColumns
from state_engine.backends.key_numbers import KeyNumbers, last_of_each, positions_of
from state_engine.backends.keys import KeyContext, join_entries, split_entry
from state_engine.backends.namespaced_keys import NamespacedKeys, Part
from state_engine.backends.namespaced_tables import NamespacedTable, by_namespace, repeated
from state_engine.backends.tables import MISSING, LogRows
from state_engine.log.ops import Op
from state_engine.serialization.types import to_arrow


class Run(NamedTuple):
    """Values of some keys.

    Attributes:
        numbers: Of the keys, ascending.
        values: One for each, as an Arrow array.
    """

    numbers: Numbers
    values: Any

    def under(self, other: "Run") -> "Run":
        """Returns both; where both have a key, the other one's value."""
        at = positions_of(other.numbers, self.numbers)
        new = at < 0
        if len(other.numbers) - np.count_nonzero(new) == len(self.numbers):
            return other
        numbers, rows = self.numbers, np.arange(len(self.numbers))
        over = np.arange(len(other.numbers)) + len(rows)
        rows[at[~new]] = over[~new]
        if new.any():
            places = np.searchsorted(numbers, other.numbers[new])
            numbers, rows = np.insert(numbers, places, other.numbers[new]), np.insert(rows, places, over[new])
        return Run(numbers, pa.concat_arrays([self.values, other.values]).take(indices(rows)))

    def of(self, numbers: Numbers) -> Any:
        """Returns the values of keys, null where there is none."""
        at = positions_of(numbers, self.numbers)
        if len(at) == len(self.numbers) and (at >= 0).all():
            return self.values
        return self.values.take(pa.array(at, mask=at < 0))

    def where(self, kept: Any) -> "Run":
        """Returns what some of the keys have."""
        at = np.flatnonzero(kept)
        return self if len(at) == len(self.numbers) else Run(self.numbers[at], self.values.take(indices(at)))


class NamespacedValueTable(NamespacedTable):
    """Namespace to values of keys; null in the overlay is a delete, as None in that of a `ValueTable`.

    What functions put key by key waits as Python values until somebody asks by columns, or the epoch ends.

    Args:
        value: Type of a value.
        numbers: Of the keys.
    """

    base: dict[str | None, Run]
    overlay: dict[str | None, Run]

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(value)
        self.numbers = numbers
        self.type: Any = to_arrow(value)
        self._put_singly: dict[tuple[str | None, Any], Any] = {}
        self._pending: dict[str | None, Run] = {}
        self._no_run = Run(np.empty(0, np.int64), pa.array([], self.type))

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
            self._lay(self.overlay, namespace, Run(numbers, values.take(indices(positions))))

    def _of(self, part: Part) -> Any:
        stored, written = self.base.get(part.namespace), self.overlay.get(part.namespace)
        if stored is None and written is None:
            return pa.nulls(len(part.numbers), self.type)
        if stored is None or written is None:
            return (stored or written).of(part.numbers)  # type: ignore[union-attr]
        at = positions_of(part.numbers, stored.numbers)
        over = positions_of(part.numbers, written.numbers)
        at = np.where(over >= 0, over + len(stored.numbers), at)
        return pa.concat_arrays([stored.values, written.values]).take(pa.array(at, mask=at < 0))

    @staticmethod
    def _lay(runs: dict[str | None, Run], namespace: str | None, run: Run) -> None:
        below = runs.get(namespace)
        runs[namespace] = run if below is None else below.under(run)

    # Key by key -------------------------------------------------------------------------------------------------------

    def value(self, entry: Any) -> Any:
        """Returns the value of an entry."""
        key, namespace = split_entry(entry)
        value = self._put_singly.get((namespace, key), MISSING)
        if value is MISSING:
            [value] = self._read(self._of(Part(namespace, np.array([0]), self.numbers.of([key]))))
        return value

    def put_value(self, entry: Any, value: Any) -> None:
        """Sets the value of an entry."""
        key, namespace = split_entry(entry)
        self._put_singly[namespace, key] = value if self.conform is None or value is None else self.conform(value)

    def _join(self) -> None:
        """Moves what was put key by key into the columns."""
        if not self._put_singly:
            return
        keys, namespaces = [key for _, key in self._put_singly], [namespace for namespace, _ in self._put_singly]
        values = list(self._put_singly.values())
        array = self._written(self._write, values, join_entries(keys, namespaces))
        self._put_singly = {}
        for namespace, run in self._runs(self.numbers.of(keys), pa.array(namespaces, pa.string()), array):
            self._lay(self.overlay, namespace, run)

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        self._join()
        if not self.overlay:
            return None
        self._pending, self.overlay = self._without_vain_deletes(), {}
        if not self._pending:
            return None
        runs = list(self._pending.values())
        values = pa.concat_arrays([run.values for run in runs])
        ops = np.full(len(values), Op.PUT, dtype=np.int8)
        if values.null_count:
            ops[np.asarray(values.is_null())] = Op.DELETE
        namespaces = repeated(list(self._pending), [len(run.numbers) for run in runs])
        return LogRows([], ops, values, numbers=np.concatenate([run.numbers for run in runs]), namespaces=namespaces)

    def _without_vain_deletes(self) -> dict[str | None, Run]:
        """Returns the overlay without what came and went within the epoch."""
        told = {}
        for namespace, run in self.overlay.items():
            if run.values.null_count:
                stored = self.base.get(namespace, self._no_run)
                there = positions_of(run.numbers, stored.numbers) >= 0
                run = run.where(there | np.asarray(run.values.is_valid()))
            if len(run.numbers):
                told[namespace] = run
        return told

    def settle(self) -> None:
        pending, self._pending = self._pending, {}
        for namespace, run in pending.items():
            self._merge(namespace, run)

    def forget(self) -> None:
        self._put_singly = {}
        super().forget()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        put = values.cast(self.type).take(pa.array(np.arange(len(values)), mask=ops != Op.PUT))
        for namespace, run in self._runs(numbers, namespaces, put):
            self._merge(namespace, run)

    def _runs(self, numbers: Numbers, namespaces: Any, values: Any) -> Iterable[tuple[str | None, Run]]:
        """Yields rows by namespace; of several of a key the last one counts."""
        for namespace, positions in by_namespace(namespaces):
            at = positions[last_of_each(numbers[positions], len(self.numbers))]
            yield namespace, Run(numbers[at], values.take(indices(at)))

    def _merge(self, namespace: str | None, run: Run) -> None:
        """Moves a run into the base."""
        before = len(self.base[namespace].numbers) if namespace in self.base else 0
        self._lay(self.base, namespace, run)
        self.rows += len(self.base[namespace].numbers) - before
        if run.values.null_count:
            self._keep(namespace, np.asarray(self.base[namespace].values.is_valid()))

    def _keep(self, namespace: str | None, kept: Any) -> None:
        """Keeps some keys of a namespace in the base."""
        before = len(self.base[namespace].numbers)
        run = self.base[namespace] = self.base[namespace].where(kept)
        self.rows += len(run.numbers) - before
        if not len(run.numbers):
            del self.base[namespace]

    def drop_keys(self, gone: Any) -> None:
        for namespace, run in list(self.base.items()):
            self._keep(namespace, ~gone[run.numbers])

    def used(self) -> Iterable[Numbers]:
        return (run.numbers for runs in (self.base, self.overlay, self._pending) for run in runs.values())

    def renumber(self, new: Numbers) -> None:
        for runs in self.base, self.overlay, self._pending:
            for namespace, run in runs.items():
                runs[namespace] = Run(new[run.numbers], run.values)

    def _drop_pending(self) -> None:
        self._pending = {}


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


class NamespacedValueColumns(ValueColumns):
    """Of such states: keys that come with their namespaces are asked for namespace by namespace."""

    state: NamespacedValueState

    def get_many(self, keys: Keys) -> Any:
        if not isinstance(keys, NamespacedKeys):
            return super().get_many(keys)
        return self._spread(self.state.table.get(keys.parts(self.state.table.numbers)), keys)

    def contains_many(self, keys: Keys) -> Any:
        return super().contains_many(keys) if not isinstance(keys, NamespacedKeys) else pc.is_valid(self.get_many(keys))

    def put_many(self, keys: Keys, values: Any) -> None:
        if not isinstance(keys, NamespacedKeys):
            super().put_many(keys, values)
            return
        array = self.column.fitted(values, len(keys))
        of_each = array if keys.distinct is keys else array.take(indices(keys.last))
        self.state.table.put(keys.parts(self.state.table.numbers), of_each)

    def remove_many(self, keys: Keys) -> None:
        if not isinstance(keys, NamespacedKeys):
            super().remove_many(keys)
            return
        self.put_many(keys.distinct, pa.nulls(len(keys.distinct), self.state.table.type))


__all__ = [
    "NamespacedValueColumns",
    "NamespacedValueState",
    "NamespacedValueTable",
]
