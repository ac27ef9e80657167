"""Lists of keys in namespaces, as columns: what joins and `collect` keep on the heap, and functions over batches.

They are asked for many keys at once, and add to many. So a table has runs of elements for each namespace, and nothing
in it is a Python object per key or per element: neither what is asked, nor an epoch's rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, by_number, indices, order_of
from state_engine.api.state import ListState
from state_engine.api.types import TypeInformation
from state_engine.backends.columns import ListColumns
from state_engine.backends.key_numbers import KeyNumbers, last_of_each, positions_of
from state_engine.backends.keys import KeyContext, join_entries, split_entry
from state_engine.backends.list_runs import Elements, Flags, Runs, distinct, joined, spans
from state_engine.backends.namespaced_keys import Part, by_position, parts_of
from state_engine.backends.namespaced_tables import ClearedKeys, RunsTable, by_namespace
from state_engine.backends.tables import ListDelta, LogRows
from state_engine.iterating import whole
from state_engine.log.ops import Op


class Written:
    """What an epoch did to the lists of a namespace: it emptied some of them first, and then added."""

    def __init__(self) -> None:
        self.added = Runs()
        self.cleared = ClearedKeys()

    def clear(self, numbers: Numbers, size: int) -> None:
        """Empties lists.

        Args:
            numbers: Of their keys, each once.
            size: How many keys are numbered.
        """
        self.added.remove(numbers)
        self.cleared.add(numbers, size)

    def renumber(self, new: Numbers) -> None:
        """Puts another number to each key, in the same order."""
        self.cleared.renumber(new)
        self.added.renumber(new.__getitem__)


class Frozen(NamedTuple):
    """What an epoch did to the lists of a namespace, as the log has it.

    Attributes:
        cleared: The keys whose lists are emptied first.
        added: What is put behind their lists, in the order of the keys.
    """

    cleared: Numbers
    added: Elements


class NamespacedListTable(RunsTable):
    """Namespace to lists of keys.

    What functions do key by key waits as Python values until somebody asks, or the epoch ends.

    Args:
        value: Type of an element.
        numbers: Of the keys.
    """

    base: dict[str | None, Runs]
    overlay: dict[str | None, Written]

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(value, numbers)
        self._singly: dict[tuple[str | None, Any], ListDelta] = {}
        self._nothing = Elements(np.empty(0, np.int64), pa.array([], self.type))

    @property
    def keys(self) -> int:
        return sum(runs.keys for runs in self.base.values())

    # Columns ----------------------------------------------------------------------------------------------------------

    def get(self, parts: Sequence[Part], count: int) -> Any:
        """Returns the lists of so many keys, by their positions, as an array of lists."""
        return lists_of(self.of(parts), count)

    def of(self, parts: Sequence[Part]) -> Elements:
        """Returns the elements of the lists of keys; their numbers are the positions of the keys."""
        self._join()
        return joined([*self._stored(parts), *self._added_to(parts)] or [self._nothing])

    def has(self, parts: Sequence[Part], count: int) -> Flags:
        """Returns which of so many keys, by their positions, have elements."""
        self._join()
        found = np.zeros(count, bool)
        for (namespace, positions, numbers), stored in zip(parts, self._have(parts), strict=True):
            written = self.overlay.get(namespace)
            if written is None:
                found[positions] = stored
            else:
                found[positions] = (stored & ~written.cleared.has(numbers)) | written.added.has(numbers)
        return found

    def add(self, parts: Sequence[Part], codes: Numbers, values: Any) -> None:
        """Puts a value behind the list of each key; keys come by position, and any number of times."""
        self._join()
        if len(parts) == 1:
            [(namespace, positions, numbers)] = parts
            of_each = np.empty(len(positions), np.int64)
            of_each[positions] = numbers
            own = of_each[codes]
            # Always a copy: else all of the batch that the values came with would stay as long as they do.
            self._written_in(namespace).added.append(Elements(own, values).take(order_of(own)))
            return
        of_each, spaces = by_position(parts)
        for number, at in by_number(spaces[codes]):
            elements = Elements(of_each[codes[at]], values.take(indices(at)))
            self._written_in(parts[number].namespace).added.append(elements)

    def clear(self, parts: Sequence[Part]) -> None:
        """Empties lists."""
        self._join()
        for part in parts:
            self._written_in(part.namespace).clear(distinct(part.numbers), len(self.numbers))

    def _stored(self, parts: Sequence[Part]) -> Iterator[Elements]:
        """Yields what the base has of lists that were not emptied since, by their positions."""
        for part in parts:
            runs, kept = self.base.get(part.namespace), self._kept(part)
            for elements in () if runs is None else runs.of(kept.numbers):
                yield Elements(kept.positions[elements.numbers], elements.values)

    def _added_to(self, parts: Sequence[Part]) -> Iterator[Elements]:
        for namespace, positions, numbers in parts:
            written = self.overlay.get(namespace)
            for elements in () if written is None else written.added.of(numbers):
                yield Elements(positions[elements.numbers], elements.values)

    def _have(self, parts: Sequence[Part]) -> Iterable[Flags]:
        """Gives which lists the base has."""
        for namespace, _, numbers in parts:
            runs = self.base.get(namespace)
            yield np.zeros(len(numbers), bool) if runs is None else runs.has(numbers)

    def _kept(self, part: Part) -> Part:
        """Returns those lists that were not emptied since."""
        written = self.overlay.get(part.namespace)
        return part if written is None else part.take(np.flatnonzero(~written.cleared.has(part.numbers)))

    def _written_in(self, namespace: str | None) -> Written:
        found = self.overlay.get(namespace)
        if found is None:
            found = self.overlay[namespace] = Written()
        return found

    # Key by key -------------------------------------------------------------------------------------------------------

    def elements(self, entry: Any) -> list[Any]:
        """Returns the list of an entry."""
        key, namespace = split_entry(entry)
        found = self.get([Part(namespace, np.array([0]), self.numbers.of([key]))], 1)
        return self._read(found.flatten())

    def delta(self, entry: Any) -> ListDelta:
        """Returns where to say what becomes of the list of an entry."""
        key, namespace = split_entry(entry)
        found = self._singly.get((namespace, key))
        if found is None:
            found = self._singly[namespace, key] = ListDelta()
        return found

    def _join(self) -> None:
        """Moves what was done key by key into the columns."""
        if not self._singly:
            return
        done = self._singly
        namespaces = [namespace for namespace, _ in done]
        keys = [key for _, key in done]
        numbers = self.numbers.of(keys)
        counts = np.array([len(delta.appended) for delta in done.values()], np.int64)
        of_each = zip(join_entries(keys, namespaces), counts.tolist(), strict=True)
        entries = [entry for entry, count in of_each for _ in range(count)]
        values = self._written(self._write, [one for delta in done.values() for one in delta.appended], entries)
        self._singly = {}
        cleared = np.array([delta.cleared for delta in done.values()], bool)
        starts = np.cumsum(counts) - counts
        for namespace, at in by_namespace(pa.array(namespaces, pa.string())):
            written = self._written_in(namespace)
            written.clear(np.sort(numbers[at[cleared[at]]]), len(self.numbers))
            rows = spans(starts[at], counts[at])
            written.added.append(Elements(np.repeat(numbers[at], counts[at]), values.take(indices(rows))))

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        self._join()
        overlay, self.overlay = self.overlay, {}
        self._pending = {
            namespace: frozen
            for namespace, written in overlay.items()
            if len((frozen := self._frozen(namespace, written)).cleared) or len(frozen.added.numbers)
        }
        if not self._pending:
            return None
        parts = list(self._pending.values())
        numbers = [numbers for part in parts for numbers in (part.cleared, part.added.numbers)]
        values = [values for part in parts for values in (pa.nulls(len(part.cleared), self.type), part.added.values)]
        ops = np.repeat(np.array([Op.CLEAR, Op.APPEND] * len(parts), np.int8), [len(one) for one in numbers])
        lengths = [len(part.cleared) + len(part.added.numbers) for part in parts]
        return self._numbered_rows(numbers, lengths, ops, values)

    def _frozen(self, namespace: str | None, written: Written) -> Frozen:
        """Returns what an epoch did; what the log has no rows of needs none that remove it."""
        cleared, stored = written.cleared.numbers, self.base.get(namespace)
        if not self.stamped:  # else the log may have what the base has dropped already
            cleared = cleared[:0] if stored is None else cleared[stored.has(cleared)]
        return Frozen(cleared, self._added(written))

    def _added(self, written: Written) -> Elements:
        return joined(written.added.all() or [self._nothing])

    def forget(self) -> None:
        self._singly = {}
        super().forget()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        elements, appends = values.cast(self.type), ops == Op.APPEND
        changes: dict[str | None, Frozen] = {}
        for namespace, at in by_namespace(namespaces):
            clears, added = at[~appends[at]], at[appends[at]]
            clears = clears[last_of_each(numbers[clears], len(self.numbers))]
            cleared = numbers[clears]
            if len(clears):
                found = positions_of(numbers[added], cleared)
                added = added[(found < 0) | (added > clears[found])]
            changes[namespace] = Frozen(cleared, Elements(numbers, elements).take(added))
        self._change_all(changes)

    def settle(self) -> None:
        pending, self._pending = self._pending, {}
        self._change_all(pending)

    def _change_all(self, changes: dict[str | None, Frozen]) -> None:
        for namespace, change in changes.items():
            self._change_in(namespace, change)

    def _no_runs(self) -> Runs:
        return Runs()

    def _change(self, runs: Runs, change: Frozen) -> None:
        runs.remove(change.cleared)
        runs.append(change.added)

    def used(self) -> Iterable[Numbers]:
        yield from super().used()
        for written in self.overlay.values():
            yield from written.added.used()
            yield written.cleared.numbers
        for frozen in self._pending.values():
            yield frozen.cleared
            yield frozen.added.numbers

    def renumber(self, new: Numbers) -> None:
        super().renumber(new)
        for written in self.overlay.values():
            written.renumber(new)
        for namespace, (cleared, added) in self._pending.items():
            self._pending[namespace] = Frozen(new[cleared], Elements(new[added.numbers], added.values))


class NamespacedListState(ListState[Any]):
    """A list per key and namespace, row by row."""

    def __init__(self, table: NamespacedListTable, context: KeyContext) -> None:
        self.table = table
        self._context = context

    def bind(self) -> None:
        """Does nothing: the table is asked each time."""

    def get(self) -> Iterator[Any]:
        return iter(self.table.elements(self._context.entry))

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: list[Any]) -> None:
        self.table.delta(self._context.entry).appended.extend(self._conformed(values))

    def update(self, values: list[Any]) -> None:
        delta = self.table.delta(self._context.entry)
        delta.cleared, delta.appended = True, self._conformed(values)

    def clear(self) -> None:
        self.update([])

    def _conformed(self, values: list[Any]) -> list[Any]:
        finished, conform = self.table.finished, self.table.conform
        return [value if type(value) is finished else conform(value) for value in whole(values)]


class NamespacedListColumns(ListColumns):
    """Of such states."""

    state: NamespacedListState

    def get_many(self, keys: Keys) -> Any:
        table, count = self.state.table, len(keys.distinct)
        found = table.get(parts_of(keys, table.numbers), count)
        return self._spread(found.cast(self._lists.type), keys)

    def contains_many(self, keys: Keys) -> Any:
        table, count = self.state.table, len(keys.distinct)
        return self._spread(pa.array(table.has(parts_of(keys, table.numbers), count)), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        table = self.state.table
        table.add(
            parts_of(keys, table.numbers), keys.codes, self._kept(self.column.fitted(values, len(keys)), keys.times)
        )

    def put_many(self, keys: Keys, values: Any) -> None:
        table, lists = self.state.table, self._lists.fitted(values, len(keys))
        if keys.distinct is not keys:
            lists = lists.take(indices(keys.last))
        parts = parts_of(keys, table.numbers)
        table.clear(parts)
        counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        codes, times = np.repeat(np.arange(len(lists)), counts), keys.distinct.times
        of_each = None if times is None else times.take(indices(codes))
        table.add(parts, codes, self._kept(lists.flatten(), of_each))

    def remove_many(self, keys: Keys) -> None:
        table = self.state.table
        table.clear(parts_of(keys, table.numbers))

    def _kept(self, elements: Any, times: Any) -> Any:
        """Returns elements as the table keeps them, given their event times, None if there are none."""
        return elements


def lists_of(elements: Elements, count: int) -> Any:
    """Returns so many lists, by the numbers of their elements, as an array."""
    ends = np.cumsum(np.bincount(elements.numbers, minlength=count))
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), elements.values)


__all__ = [
    "Frozen",
    "NamespacedListColumns",
    "NamespacedListState",
    "NamespacedListTable",
    "Written",
    "lists_of",
]
