"""Lists as columns: runs of elements, each run in the order of the numbers of the lists' entries.

What an epoch appends is a run of its own. It is merged with an older run only if that is not much larger. So the cost
of an epoch depends on what it appends and clears, not on the size of the state, and a look-up searches few runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, indices, order_of
from state_engine.backends.ascending import Flags, distinct, spans

LARGER = 2
"""A run has at least this many times the elements of the next newer run."""
MOST_BYTES = 1 << 30
"""Most bytes of a merged run: Arrow's arrays of texts and lists hold at most 2 GiB."""


class Elements(NamedTuple):
    """Elements of some lists.

    Attributes:
        numbers: For each element, the number of its list: that of the entry, or the position of the list in a request.
        values: The elements, as an Arrow array; those of one list in their order.
    """

    numbers: Numbers
    values: Any

    def take(self, positions: Numbers) -> "Elements":
        """Returns those at these positions."""
        return Elements(self.numbers[positions], self.values.take(indices(positions)))

    def where(self, kept: Flags) -> "Elements":
        """Returns the kept ones."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def sorted(self) -> "Elements":
        """Returns them in the order of the numbers."""
        if (self.numbers[1:] >= self.numbers[:-1]).all():
            return self
        return self.take(order_of(self.numbers))


class ListChange(NamedTuple):
    """The changes that an epoch made to the lists of a segment, as the log has them.

    Attributes:
        cleared: The entries whose lists are cleared first, ascending.
        appended: What is appended then, in the order of the numbers.
    """

    cleared: Numbers
    appended: Elements

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not len(self.cleared) and not len(self.appended.numbers)

    def numbers(self) -> list[Numbers]:
        """Returns the numbers of all entries that it changes."""
        return [self.cleared, self.appended.numbers]

    def renumbered(self, new: Callable[[Numbers], Numbers]) -> "ListChange":
        """Returns it with other numbers, in the same order."""
        return ListChange(new(self.cleared), Elements(new(self.appended.numbers), self.appended.values))


def joined(parts: Sequence[Elements]) -> Elements:
    """Returns elements in the order of their numbers; those of one number in the order of the parts."""
    if len(parts) == 1:
        return parts[0].sorted()
    numbers = np.concatenate([part.numbers for part in parts])
    return Elements(numbers, pa.concat_arrays([part.values for part in parts])).sorted()


class _Run:
    """Elements in the order of their entries; either all elements of an entry are live, or none."""

    __slots__ = ("_there", "elements", "size")

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.size = len(elements.numbers)
        self._there: Flags | None = None

    def ranges(self, wanted: Numbers) -> tuple[Numbers, Numbers]:
        """Returns where the elements of each entry begin, and how many there are."""
        numbers = self.elements.numbers
        first = np.searchsorted(numbers, wanted, "left")
        counts = np.searchsorted(numbers, wanted, "right") - first
        if self._there is not None:
            some = np.flatnonzero(counts)
            counts[some[~self._there[first[some]]]] = 0
        return first, counts

    def remove(self, wanted: Numbers) -> None:
        first, counts = self.ranges(wanted)
        positions = spans(first, counts)
        if len(positions):
            if self._there is None:
                self._there = np.ones(len(self.elements.numbers), bool)
            self._there[positions] = False
            self.size -= len(positions)

    def compact(self) -> None:
        """Drops the elements that are not live."""
        if self._there is not None:
            self.elements, self._there = self.elements.where(self._there), None

    @property
    def is_sparse(self) -> bool:
        return 2 * self.size < len(self.elements.numbers)


class ListRuns:
    """The lists of one segment.

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
        """Returns which entries have elements."""
        flags = np.zeros(len(wanted), bool)
        for run in self._runs:
            flags |= run.ranges(wanted)[1] > 0
        return flags

    def of(self, wanted: Numbers) -> list[Elements]:
        """Returns the lists of entries, run by run; the elements' numbers are positions in `wanted`."""
        parts = []
        for run in self._runs:
            first, counts = run.ranges(wanted)
            at = spans(first, counts)
            if len(at):
                parts.append(Elements(np.repeat(np.arange(len(wanted)), counts), run.elements.values.take(indices(at))))
        return parts

    def change(self, change: ListChange) -> None:
        """Clears lists, and then appends to lists."""
        self.clear(change.cleared)
        self.append(change.appended)

    def append(self, elements: Elements) -> None:
        """Appends elements to the lists of their entries."""
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

    def clear(self, wanted: Numbers) -> None:
        """Clears the lists of entries, each given once."""
        if not len(wanted):
            return
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
        """Keeps the lists of the entries whose numbers `kept` flags."""
        self._replace([elements.where(kept(elements.numbers)) for elements in self.all()])

    def keep_elements(self, kept: Callable[[Any], Flags]) -> None:
        """Keeps the elements that `kept` flags."""
        self._replace([elements.where(kept(elements.values)) for elements in self.all()])

    @property
    def parts(self) -> list[Numbers]:
        """The numbers of entries that have elements, or had some: ascending parts, some numbers in several."""
        return [distinct(run.elements.numbers) for run in self._runs]

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each entry another number, in the same order."""
        self._replace([Elements(new(elements.numbers), elements.values) for elements in self.all()])

    def numbers(self) -> list[Numbers]:
        """Returns the numbers of all entries that have elements, in parts, some several times."""
        return [elements.numbers for elements in self.all()]

    def _replace(self, every: list[Elements]) -> None:
        self._runs = [_Run(elements) for elements in every if len(elements.numbers)]
        numbers = [run.elements.numbers for run in self._runs]
        self.keys = len(np.unique(np.concatenate(numbers))) if numbers else 0


def _live(run: _Run) -> Elements:
    run.compact()
    return run.elements


__all__ = ["LARGER", "MOST_BYTES", "Elements", "ListChange", "ListRuns", "joined"]
