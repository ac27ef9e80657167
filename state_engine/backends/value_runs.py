"""Values of keys as columns: runs, each in the order of the numbers of their keys; the newest run of a key counts.

What an epoch puts is a run of its own, merged with older ones only when it is not much smaller than they are. So an
epoch costs what it puts, however much there is, and a look asks few runs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, indices
from state_engine.backends.key_numbers import positions_of
from state_engine.backends.list_runs import LARGER, Flags


class Run(NamedTuple):
    """Values of some keys; null says that there is none.

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

    def where(self, kept: Flags) -> "Run":
        """Returns what some of the keys have."""
        at = np.flatnonzero(kept)
        return self if len(at) == len(self.numbers) else Run(self.numbers[at], self.values.take(indices(at)))

    def valid(self) -> "Run":
        """Returns those that have a value."""
        return self.where(np.asarray(self.values.is_valid())) if self.values.null_count else self


class ValueRuns:
    """The values of some keys.

    Args:
        value_type: Their type, as Arrow has it.

    Attributes:
        rows: How many keys have a value.
    """

    def __init__(self, value_type: Any) -> None:
        self.rows = 0
        self._type = value_type
        self._runs: list[Run] = []  # from the oldest, which has no nulls, to the newest

    def of(self, wanted: Numbers) -> Any:
        """Returns the values of keys, null where there is none; keys are asked for in ascending order, each once."""
        if len(self._runs) == 1:
            [run] = self._runs
            at = positions_of(wanted, run.numbers)
            if len(at) == len(run.numbers) and (at >= 0).all():
                return run.values
            return run.values.take(pa.array(at, mask=at < 0))
        found, at, count = [], np.full(len(wanted), -1), 0
        for positions, within, run in self._found(wanted):
            at[positions] = np.arange(len(positions)) + count
            count += len(positions)
            found.append(run.values.take(indices(within)))
        if not found:
            return pa.nulls(len(wanted), self._type)
        values = found[0] if len(found) == 1 else pa.concat_arrays(found)
        if count == len(wanted) and np.array_equal(at, np.arange(count)):
            return values
        return values.take(pa.array(at, mask=at < 0))

    def has(self, wanted: Numbers) -> Flags:
        """Returns which keys have a value."""
        found = np.zeros(len(wanted), bool)
        for positions, within, run in self._found(wanted):
            found[positions] = np.asarray(run.values.is_valid())[within] if run.values.null_count else True
        return found

    def put(self, run: Run) -> None:
        """Sets the values of keys; null removes."""
        if not self._runs or len(self._runs[0].numbers) < LARGER * len(run.numbers):
            self._runs = [self._merged_with(run).valid()]
            self.rows = len(self._runs[0].numbers)
            return
        self.rows += len(run.numbers) - run.values.null_count - int(np.count_nonzero(self.has(run.numbers)))
        while self._runs and len(self._runs[-1].numbers) < LARGER * len(run.numbers):
            run = self._runs.pop().under(run)
        self._runs.append(run if self._runs else run.valid())

    def keep(self, kept: Callable[[Numbers], Flags]) -> None:
        """Keeps the values of the keys of which, by their numbers, `kept` says so."""
        self._replace([run.where(kept(run.numbers)) for run in self._whole()])

    def renumber(self, new: Numbers) -> None:
        """Puts another number to each key, in the same order."""
        self._replace([Run(new[run.numbers], run.values) for run in self._whole()])

    def used(self) -> list[Numbers]:
        """Returns the numbers of all keys that have values."""
        self._replace(self._whole())
        return [run.numbers for run in self._runs]

    def _whole(self) -> list[Run]:
        """Returns all there is as one run; none where nothing is."""
        return [self._merged_with(self._runs.pop()).valid()] if self._runs else []

    def _replace(self, whole: list[Run]) -> None:
        self._runs, self.rows = whole, sum(len(run.numbers) for run in whole)

    def _merged_with(self, run: Run) -> Run:
        """Returns all there is, with a run over it."""
        for older in reversed(self._runs):
            run = older.under(run)
        return run

    def _found(self, wanted: Numbers) -> "list[tuple[Numbers, Numbers, Run]]":
        """Returns where keys stand among those wanted, and where in the newest run that has them."""
        found, left = [], np.arange(len(wanted))
        for run in reversed(self._runs):
            at = positions_of(wanted[left], run.numbers)
            there = at >= 0
            if there.any():
                found.append((left[there], at[there], run))
                left = left[~there]
            if not len(left):
                break
        return found


__all__ = ["Run", "ValueRuns"]
