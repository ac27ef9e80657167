"""Places: numbers that stand for a key and a namespace, where nearly each key has namespaces of its own: sessions.

The number of the key is in the upper half, that of the namespace in the lower one. So all that a table has lies in one
piece, however many namespaces there are, and what a key has lies side by side.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers
from state_engine.backends.keys import split_entries
from state_engine.backends.namespaced_keys import EntryKeys, NamespacedKeys
from state_engine.backends.namespaced_tables import NamespacedTable

_BITS = 32
_OF_NAMESPACE = (1 << _BITS) - 1
_AT_LEAST = 1 << 12
_MORE = 8
"""Where fewer than a share of all that are known are asked for, texts are gathered one by one."""


class NamespaceNumbers:
    """The namespaces that some tables of a backend hold, by number; the void one is 0.

    Attributes:
        generation: Another one when namespaces got other numbers.
        limit: Of fewer nobody asks whether a table still holds them.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.limit = _AT_LEAST
        self._texts: list[str | None] = [None]
        self._numbers: dict[str | None, int] = {None: 0}
        self._column: Any = pa.nulls(1, pa.string())  # of the first ones
        self._last: tuple[Sequence[str | None], Numbers] = (), np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._texts)

    def of(self, namespaces: Sequence[str | None]) -> Numbers:
        """Returns the numbers of namespaces, of which new ones get some.

        The answer is kept until another question comes: several states are asked with the same namespaces.
        """
        if namespaces is not self._last[0]:
            known, texts = self._numbers, self._texts
            found = np.fromiter(map(known.get, namespaces, repeat(-1)), np.int64, len(namespaces))
            for at in np.flatnonzero(found < 0).tolist():
                text = namespaces[at]
                found[at] = number = known.setdefault(text, len(texts))
                if number == len(texts):
                    texts.append(text)
            self._last = namespaces, found
        return self._last[1]

    def texts_of(self, numbers: Numbers) -> Any:
        """Returns namespaces by their numbers, as a column that has each text once."""
        if len(numbers) * _MORE < len(self):
            some, codes = np.unique(numbers, return_inverse=True)
            texts: Any = pa.array([self._texts[number] for number in some.tolist()], pa.string())
        else:
            texts, codes = self._all(), numbers
        own: Any = pa.array(codes.astype(np.int32))
        return pa.DictionaryArray.from_arrays(own, texts)

    def _all(self) -> Any:
        if len(self._column) < len(self):
            further = pa.array(self._texts[len(self._column) :], pa.string())
            self._column = pa.concat_arrays([self._column, further])
        return self._column

    def drop_unused(self, used: Iterable[Numbers]) -> Numbers | None:
        """Forgets namespaces that no table holds any more, if there may be many.

        Args:
            used: All numbers that tables hold. It is walked only if they are looked at.

        Returns:
            By number the new one, in the same order; None if all stay as they are.
        """
        if len(self) < self.limit:
            return None
        holds = np.zeros(len(self), bool)
        holds[0] = True
        for numbers in used:
            holds[numbers] = True
        count = int(np.count_nonzero(holds))
        self.limit = max(2 * count, _AT_LEAST)
        if count == len(self):
            return None
        self._texts = list(compress(self._texts, holds.tolist()))
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._column, self._last = pa.nulls(1, pa.string()), ((), np.empty(0, np.int64))
        self.generation += 1
        return np.cumsum(holds) - 1


def place(keys: Numbers, namespaces: Numbers) -> Numbers:
    """Returns the places of keys and namespaces, by their numbers."""
    return (keys << _BITS) | namespaces


def keys_of(places: Numbers) -> Numbers:
    """Returns the numbers of the keys of places."""
    return places >> _BITS


def namespaces_of(places: Numbers) -> Numbers:
    """Returns the numbers of the namespaces of places."""
    return places & _OF_NAMESPACE


class PlacedTable(NamespacedTable):
    """A table whose keys and namespaces are numbered, and lie by place.

    Attributes:
        namespaces: The numbers of these, shared by all such tables of a backend.
    """

    namespaces: NamespaceNumbers

    @abstractmethod
    def places(self) -> Iterable[Numbers]:
        """Gives all places that it holds."""

    @abstractmethod
    def replace(self, new: Callable[[Numbers], Numbers]) -> None:
        """Puts other places, in the same order."""

    def places_of(self, keys: Keys) -> Numbers:
        """Returns the place of each record's key and namespace; new ones get numbers."""
        if isinstance(keys, EntryKeys):
            return self.places_of_entries(keys.each)
        if isinstance(keys, NamespacedKeys):
            own = self.numbers.of_taken(keys.own.distinct, keys.of_own)
            return place(own, self.namespaces.of(keys.namespaces)[keys.spaces])
        return place(self.numbers.of_each(keys)[keys.codes], np.zeros(len(keys), np.int64))

    def places_of_entries(self, entries: list[Any]) -> Numbers:
        """Returns the places of entries."""
        keys, namespaces = split_entries(entries)
        void: Sequence[str | None] = [None] * len(keys)
        return place(self.numbers.of(keys), self.namespaces.of(void if namespaces is None else namespaces))

    def places_of_columns(self, numbers: Numbers, namespaces: Any) -> Numbers:
        """Returns the places of keys, by their numbers, in namespaces, as a column."""
        encoded = namespaces.dictionary_encode("encode")
        return place(numbers, self.namespaces.of(encoded.dictionary.to_pylist())[np.asarray(encoded.indices)])

    def named(self, places: Numbers) -> Any:
        """Returns the namespaces of places as a column, of which the texts are there once."""
        return self.namespaces.texts_of(namespaces_of(places))

    def used(self) -> Iterable[Numbers]:
        return map(keys_of, self.places())

    def renumber(self, new: Numbers) -> None:
        self.replace(lambda places: place(new[keys_of(places)], namespaces_of(places)))

    def used_namespaces(self) -> Iterable[Numbers]:
        """Gives the numbers of all namespaces that it holds."""
        return map(namespaces_of, self.places())

    def renumber_namespaces(self, new: Numbers) -> None:
        """Puts another number to each namespace, in the same order."""
        self.replace(lambda places: place(keys_of(places), new[namespaces_of(places)]))


__all__ = ["NamespaceNumbers", "PlacedTable", "keys_of", "namespaces_of", "place"]
