"""Lists of keys as columns: runs of elements, each in the order of the numbers of their keys.

What an epoch adds is a run of its own, merged with older ones only when it is not much smaller than they are. So an
epoch costs what it adds and takes away, however much there is, and a look asks few runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state_engine.api.keys import Numbers, indices, order_of

Flags = NDArray[np.bool_]

LARGER = 2
"""A run has at least so many times as many elements as the next newer one."""
MOST_BYTES = 1 << 30
"""Runs do not become larger by being merged: Arrow's arrays of texts and lists end at 2 GiB."""


class Elements(NamedTuple):
    """Elements of some lists.

    Attributes:
        numbers: What says of which list each one is: the number of its key, or of a question.
        values: The elements, as an Arrow array; those of one list in their order.
    """

    numbers: Numbers
    values: Any

    def take(self, positions: Numbers) -> "Elements":
        """Returns those at these positions."""
        return Elements(self.numbers[positions], self.values.take(indices(positions)))

    def where(self, kept: Flags) -> "Elements":
        """Returns some of them."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def sorted(self) -> "Elements":
        """Returns them in the order of the numbers."""
        if (self.numbers[1:] >= self.numbers[:-1]).all():
            return self
        return self.take(order_of(self.numbers))


def joined(parts: Sequence[Elements]) -> Elements:
    """Returns elements in the order of their numbers, of one number in that of the parts."""
    if len(parts) == 1:
        return parts[0].sorted()
    numbers = np.concatenate([part.numbers for part in parts])
    return Elements(numbers, pa.concat_arrays([part.values for part in parts])).sorted()


class _Run:
    """Elements in the order of their keys; those of a key are there, or all of them are gone."""

    __slots__ = ("_there", "elements", "size")

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.size = len(elements.numbers)
        self._there: Flags | None = None

    def ranges(self, wanted: Numbers) -> tuple[Numbers, Numbers]:
        """Returns where the elements of each key begin, and how many there are."""
        numbers = self.elements.numbers
        first = np.searchsorted(numbers, wanted, "left")
        counts = np.searchsorted(numbers, wanted, "right") - first
        if self._there is not None:
            some = np.flatnonzero(counts)
            counts[some[~self._there[first[some]]]] = 0
        return first, counts

    def remove(self, wanted: Numbers) -> None:
        first, counts = self.ranges(wanted)
        gone = spans(first, counts)
        if len(gone):
            if self._there is None:
                self._there = np.ones(len(self.elements.numbers), bool)
            self._there[gone] = False
            self.size -= len(gone)

    def compact(self) -> None:
        """Lets go of what is gone."""
        if self._there is not None:
            self.elements, self._there = self.elements.where(self._there), None

    @property
    def is_sparse(self) -> bool:
        return 2 * self.size < len(self.elements.numbers)


class Runs:
    """The lists of some keys.

    Attributes:
        keys: How many lists have elements.
    """

    def __init__(self) -> None:
        self.keys = 0
        self._runs: list[_Run] = []  # from the oldest to the newest

    @property
    def rows(self) -> int:
        """How many elements there are."""
        return sum(run.size for run in self._runs)

    def has(self, wanted: Numbers) -> Flags:
        """Returns which keys have elements."""
        found = np.zeros(len(wanted), bool)
        for run in self._runs:
            found |= run.ranges(wanted)[1] > 0
        return found

    def of(self, wanted: Numbers) -> list[Elements]:
        """Returns the lists of keys, run by run; their numbers are the positions of the keys in `wanted`."""
        found = []
        for run in self._runs:
            first, counts = run.ranges(wanted)
            at = spans(first, counts)
            if len(at):
                found.append(Elements(np.repeat(np.arange(len(wanted)), counts), run.elements.values.take(indices(at))))
        return found

    def append(self, elements: Elements) -> None:
        """Puts elements behind the lists of their keys."""
        if not len(elements.numbers):
            return
        elements = elements.sorted()
        self.keys += int(np.count_nonzero(~self.has(distinct(elements.numbers))))
        self._runs.append(_Run(elements))
        while len(self._runs) > 1 and self._runs[-2].size < LARGER * self._runs[-1].size:
            older, newer = (_live(run) for run in self._runs[-2:])
            if older.values.nbytes + newer.values.nbytes > MOST_BYTES:
                return
            self._runs[-2:] = [_Run(joined([older, newer]))]

    def remove(self, wanted: Numbers) -> None:
        """Empties the lists of keys, each given once."""
        self.keys -= int(np.count_nonzero(self.has(wanted)))
        for run in self._runs:
            run.remove(wanted)
            if run.is_sparse:
                run.compact()
        self._runs = [run for run in self._runs if run.size]

    def all(self) -> list[Elements]:
        """Returns all elements, run by run, the oldest first."""
        return [_live(run) for run in self._runs]

    def keep(self, kept: Callable[[Numbers], Flags]) -> None:
        """Keeps the lists of the keys of which, by their numbers, `kept` says so."""
        self._replace([elements.where(kept(elements.numbers)) for elements in self.all()])

    def keep_elements(self, kept: Callable[[Any], Flags]) -> None:
        """Keeps the elements of which, by their values, `kept` says so."""
        self._replace([elements.where(kept(elements.values)) for elements in self.all()])

    @property
    def parts(self) -> list[Numbers]:
        """The numbers of keys that have elements, or had some; ascending in each part, and there in several, maybe."""
        return [distinct(run.elements.numbers) for run in self._runs]

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Puts another number to each key, in the same order."""
        self._replace([Elements(new(elements.numbers), elements.values) for elements in self.all()])

    def used(self) -> list[Numbers]:
        """Returns the numbers of all keys that have elements, some of them several times."""
        return [elements.numbers for elements in self.all()]

    def _replace(self, every: list[Elements]) -> None:
        self._runs = [_Run(elements) for elements in every if len(elements.numbers)]
        numbers = [run.elements.numbers for run in self._runs]
        self.keys = len(np.unique(np.concatenate(numbers))) if numbers else 0


def _live(run: _Run) -> Elements:
    run.compact()
    return run.elements


def spans(first: Numbers, counts: Numbers) -> Numbers:
    """Returns the positions of ranges, one range behind the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))


def distinct(numbers: Numbers) -> Numbers:
    """Returns ascending numbers once each."""
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    return numbers[is_first]


__all__ = ["LARGER", "MOST_BYTES", "Elements", "Flags", "Runs", "distinct", "joined", "spans"]
