"""What tables have in common whose keys are numbered, and lie by namespace."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import split_entry
from state_engine.backends.list_runs import Flags
from state_engine.backends.namespaced_keys import Part, parts_of
from state_engine.backends.stamps import split_stamps
from state_engine.backends.tables import HeapTable, LogRows
from state_engine.serialization.types import to_arrow


class NamespacedTable(HeapTable):
    """A table whose keys are numbered, and lie by namespace.

    Attributes:
        numbers: Of the keys, shared by all such tables of a backend.
    """

    numbers: KeyNumbers

    @abstractmethod
    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        """As `apply`, of keys by their numbers, and namespaces apart."""

    @abstractmethod
    def drop_keys(self, gone: Any) -> None:
        """Removes the keys for which, by number, `gone` is true."""

    @abstractmethod
    def used(self) -> Iterable[Numbers]:
        """Gives the numbers of all keys that it holds."""

    @abstractmethod
    def renumber(self, new: Numbers) -> None:
        """Puts another number to each key, in the same order.

        Args:
            new: By the number.
        """

    def apply(self, entries: list[Any], ops: Any, values: Any, user_keys: Any) -> None:
        keys, namespaces = zip(*map(split_entry, entries), strict=True)
        self.apply_numbers(self.numbers.of(list(keys)), pa.array(namespaces, pa.string()), ops, values, user_keys)

    def drop_entries(self, belongs: Callable[[Any], bool]) -> None:
        self.drop_keys(np.fromiter(map(belongs, self.numbers.entries), bool, len(self.numbers)))

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        """Does nothing: it has none."""


class RunsTable(NamespacedTable):
    """One that has runs of columns for each namespace, to which an epoch's changes are added.

    Args:
        value: Type of a value, or an element.
        numbers: Of the keys.

    Attributes:
        type: The type as Arrow has it.
    """

    base: dict[str | None, Any]

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(value)
        self.numbers = numbers
        self.type: Any = to_arrow(value)
        self._pending: dict[str | None, Any] = {}

    @abstractmethod
    def _no_runs(self) -> Any:
        """Returns what a namespace begins with."""

    @abstractmethod
    def _change(self, runs: Any, change: Any) -> None:
        """Does to the runs of a namespace what an epoch did."""

    def settle(self) -> None:
        pending, self._pending = self._pending, {}
        for namespace, change in pending.items():
            self._change_in(namespace, change)

    def _change_in(self, namespace: str | None, change: Any) -> None:
        runs = self.base.get(namespace)
        if runs is None:
            runs = self.base[namespace] = self._no_runs()
        before = runs.rows
        self._change(runs, change)
        self._counted(namespace, before)

    def _counted(self, namespace: str | None, before: int) -> None:
        after = self.base[namespace].rows
        self.rows += after - before
        if not after:
            del self.base[namespace]

    def _numbered_rows(
        self, numbers: Sequence[Numbers], lengths: Sequence[int], ops: Any, values: Sequence[Any], user_keys: Any = None
    ) -> LogRows:
        """Returns rows of what is pending, whose values are as the log has them: without their stamps.

        Args:
            numbers: Of the keys, in parts.
            lengths: How many rows each namespace has.
            ops: Of each row.
            values: Of the rows, in parts.
            user_keys: Of the rows of maps.
        """
        array, times = pa.concat_arrays(values), None
        if self.stamped:
            array, times = split_stamps(array)
        namespaces = repeated(list(self._pending), lengths)
        return LogRows([], ops, array, user_keys, times, np.concatenate(numbers), namespaces)

    def parts(self, keys: Keys) -> list[Part]:
        """Returns the distinct keys, in the parts in which they lie."""
        return parts_of(keys, self.numbers)

    def drop_keys(self, gone: Any) -> None:
        self._keep_numbers(lambda numbers: ~gone[numbers])

    def _keep_numbers(self, kept: Callable[[Numbers], Flags]) -> None:
        for namespace, runs in list(self.base.items()):
            before = runs.rows
            runs.keep(kept)
            self._counted(namespace, before)

    def used(self) -> Iterable[Numbers]:
        for runs in self.base.values():
            yield from runs.used()

    def renumber(self, new: Numbers) -> None:
        self._put_numbers(new.__getitem__)

    def _put_numbers(self, new: Callable[[Numbers], Numbers]) -> None:
        for runs in self.base.values():
            runs.renumber(new)

    def _drop_pending(self) -> None:
        self._pending = {}


class ClearedKeys:
    """The keys of which an epoch removed first all that they had, by number."""

    def __init__(self) -> None:
        self._parts: list[Numbers] = []
        self._flags: Flags = np.zeros(0, bool)

    def add(self, numbers: Numbers, size: int) -> None:
        """Adds keys, some of which may be there already.

        Args:
            numbers: Their numbers, each once.
            size: How many keys are numbered.
        """
        numbers = numbers[~self.has(numbers)]
        if len(self._flags) < size:
            before, self._flags = self._flags, np.zeros(size, bool)
            self._flags[: len(before)] = before
        self._flags[numbers] = True
        self._parts.append(numbers)

    def has(self, numbers: Numbers) -> Flags:
        """Returns which of some keys are there."""
        found = np.zeros(len(numbers), bool)
        known = np.flatnonzero(numbers < len(self._flags))
        found[known] = self._flags[numbers[known]]
        return found

    @property
    def numbers(self) -> Numbers:
        """The keys, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *self._parts]))

    def renumber(self, new: Numbers) -> None:
        """Puts another number to each key, in the same order."""
        numbers = new[self.numbers]
        self._parts, self._flags = [], np.zeros(0, bool)
        self.add(numbers, int(numbers.max(initial=-1)) + 1)


def repeated(namespaces: Sequence[str | None], lengths: Sequence[int]) -> Any:
    """Returns a column that has each namespace so many times, of which the texts are there once."""
    of_each: Any = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
    return pa.DictionaryArray.from_arrays(of_each, pa.array(namespaces, pa.string()))


def by_namespace(namespaces: Any) -> Iterable[tuple[str | None, Numbers]]:
    """Yields each namespace of a column with the positions that it has."""
    encoded = namespaces.dictionary_encode("encode")
    texts = encoded.dictionary.to_pylist()
    for number, positions in by_number(np.asarray(encoded.indices)):
        yield texts[number], positions


__all__ = ["ClearedKeys", "NamespacedTable", "RunsTable", "by_namespace", "repeated"]
