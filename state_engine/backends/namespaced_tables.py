"""What tables have in common whose keys are numbered, and lie by namespace."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, by_number
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import split_entry
from state_engine.backends.tables import HeapTable


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


__all__ = ["NamespacedTable", "by_namespace", "repeated"]
