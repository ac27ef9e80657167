"""The segments of a table by columns, in memory: runs for each segment that holds anything."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from state_engine.api.keys import Numbers
from state_engine.backends.ascending import Flags, each_once
from state_engine.backends.entry_index import Part, Segment
from state_engine.backends.stores.list_runs import Elements


class Segments:
    """Runs (`ValueRuns`, `ListRuns`, `MapRuns`) by segment. Dropping a window means dropping its runs.

    Args:
        make: Makes the runs of a new segment.

    Attributes:
        rows: Live rows of all segments, as the log would have them.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.rows = 0
        self._make = make
        self._runs: dict[Segment, Any] = {}

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._runs)

    def get(self, segment: Segment) -> Any:
        """Returns the runs of a segment; None if it holds nothing."""
        return self._runs.get(segment)

    def may_hold(self, segment: Segment, numbers: Numbers) -> Flags:
        """Returns which entries have content."""
        runs = self._runs.get(segment)
        flags: Flags = np.zeros(len(numbers), bool) if runs is None else runs.has(numbers)
        return flags

    @property
    def keys(self) -> int:
        """How many entries have content."""
        return sum(runs.keys for runs in self._runs.values())

    def change(self, changes: Mapping[Segment, Any]) -> None:
        """Applies the changes of an epoch to segments."""
        for segment, change in changes.items():
            runs = self._runs.get(segment)
            if runs is None:
                runs = self._runs[segment] = self._make()
            before = runs.rows
            runs.change(change)
            self._count(segment, before)

    def alter(self, alter: Callable[[Any], None]) -> None:
        """Applies a function to the runs of each segment; drops a segment that is empty afterwards."""
        for segment, runs in list(self._runs.items()):
            before = runs.rows
            alter(runs)
            self._count(segment, before)

    def drop_group(self, group: int, kept: Callable[[Numbers], Flags]) -> None:
        """Removes a key group.

        Args:
            group: Not used here.
            kept: Flags the numbers of the entries of other key groups.
        """
        self.alter(lambda runs: runs.keep(kept))

    def _count(self, segment: Segment, before: int) -> None:
        after = self._runs[segment].rows
        self.rows += after - before
        if not after:
            del self._runs[segment]

    def numbers(self) -> Iterator[Numbers]:
        """Yields the numbers of all entries, in parts, some several times."""
        for runs in self._runs.values():
            yield from runs.numbers()

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives entries other numbers, in the same order."""
        for runs in self._runs.values():
            runs.renumber(new)

    def batches(self) -> list[tuple[Segment, Numbers]]:
        """Returns all entries that have content now, by segment."""
        return [(segment, part) for segment, runs in self._runs.items() for part in each_once(runs.parts)]

    # Lists ------------------------------------------------------------------------------------------------------------

    def lists_at(self, parts: Sequence[Part]) -> Iterator[Flags]:
        """Yields, for each part, which of its entries' lists have elements."""
        return (self.may_hold(part.segment, part.numbers) for part in parts)

    def elements(self, parts: Sequence[Part]) -> Iterator[Elements]:
        """Yields the elements of lists; their numbers are the `positions` of the parts."""
        for segment, positions, numbers in parts:
            runs = self._runs.get(segment)
            for elements in () if runs is None else runs.of(numbers):
                yield Elements(positions[elements.numbers], elements.values)

    def keep_elements(self, kept: Callable[[Any], Flags]) -> None:
        """Keeps the elements that `kept` flags."""
        self.alter(lambda runs: runs.keep_elements(kept))


__all__ = ["Segments"]
