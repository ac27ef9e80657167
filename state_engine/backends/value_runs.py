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
from state_engine.backends.list_runs import LARGER, MOST_BYTES, Flags, spans

_LET_GO, _FEW = 3, 1000
"""Runs have no more values, gone ones among them, than so many times as many as there are, and a few."""


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
        numbers, rows = laid_over(self.numbers, other.numbers)
        if len(numbers) == len(other.numbers):
            return other
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

    def of(self, wanted: Numbers, field: int | None = None) -> Any:
        """Returns the values of keys, null where there is none.

        Args:
            wanted: The keys, in ascending order, each once.
            field: Of which field of structs alone; None for whole values.
        """
        if len(self._runs) == 1:
            [run] = self._runs
            at, values = positions_of(wanted, run.numbers), _part(run.values, field)
            if len(at) == len(run.numbers) and (at >= 0).all():
                return values
            return values.take(pa.array(at, mask=at < 0))
        found, at, count = [], np.full(len(wanted), -1), 0
        for positions, within, run in self._found(wanted):
            at[positions] = np.arange(len(positions)) + count
            count += len(positions)
            found.append(_part(run.values, field).take(indices(within)))
        if not found:
            return pa.nulls(len(wanted), self._type if field is None else self._type.field(field).type)
        values = found[0] if len(found) == 1 else pa.concat_arrays(found)
        if count == len(wanted) and np.array_equal(at, np.arange(count)):
            return values
        return values.take(pa.array(at, mask=at < 0))

    def has(self, wanted: Numbers) -> Flags:
        """Returns which keys have a value."""
        found = np.zeros(len(wanted), bool)
        for positions, within, run in self._found(wanted):
            nulls = run.values.null_count
            found[positions] = np.asarray(run.values.take(indices(within)).is_valid()) if nulls else True
        return found

    def put(self, run: Run) -> None:
        """Sets the values of keys; null removes."""
        if not self._runs or (len(self._runs[0].numbers) < LARGER * len(run.numbers) and _fit(self._runs, run)):
            self._replace([self._merged_with(run).valid()])
            return
        self.rows += len(run.numbers) - run.values.null_count - int(np.count_nonzero(self.has(run.numbers)))
        while self._runs and len(self._runs[-1].numbers) < LARGER * len(run.numbers) and _fit(self._runs[-1:], run):
            run = self._runs.pop().under(run)
        self._runs.append(run if self._runs else run.valid())
        if len(self._runs) > 1 and sum(len(one.numbers) for one in self._runs) > _LET_GO * (self.rows + _FEW):
            self._compact()

    def keep(self, kept: Callable[[Numbers], Flags]) -> None:
        """Keeps the values of the keys of which, by their numbers, `kept` says so."""
        self._merge()
        self._replace([run.where(kept(run.numbers)) for run in self._runs])

    def between(self, first: Numbers, end: Numbers) -> Numbers:
        """Returns, in ascending order, the numbers in ranges that have values, or had some.

        Args:
            first: Where each range begins; these ascend.
            end: Where it ends, behind its last number.
        """
        found = []
        for run in self._runs:
            at = np.searchsorted(run.numbers, first)
            found.append(run.numbers[spans(at, np.searchsorted(run.numbers, end) - at)])
        return found[0] if len(found) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Puts another number to each key, in the same order."""
        self._runs = [Run(new(run.numbers), run.values) for run in self._runs]

    @property
    def parts(self) -> list[Numbers]:
        """The numbers of keys that have values, or had some; ascending in each part, and there in several, maybe."""
        return [run.numbers for run in self._runs]

    def used(self) -> list[Numbers]:
        """Returns the numbers of all keys that have values, some of them several times."""
        self._merge()
        return [run.numbers for run in self._runs]

    def _compact(self) -> None:
        """Lets go of what newer runs say anew, where runs are too large to become one."""
        kept: list[Run] = []
        newer = np.empty(0, np.int64)
        for run in reversed(self._runs):
            kept.append(run.where(positions_of(run.numbers, newer) < 0).valid())
            newer = np.union1d(newer, run.numbers)
        self._runs = [run for run in reversed(kept) if len(run.numbers)]

    def _merge(self) -> None:
        """Makes one run of all, if it is not too large for that."""
        if self._runs and _fit(self._runs):
            newest = self._runs.pop()
            self._replace([self._merged_with(newest).valid()])

    def _replace(self, runs: list[Run]) -> None:
        self._runs = runs
        if len(runs) == 1:
            self.rows = len(runs[0].numbers) - runs[0].values.null_count
        elif runs:
            numbers = np.unique(np.concatenate([run.numbers for run in runs]))
            self.rows = int(np.count_nonzero(self.has(numbers)))

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


def laid_over(lower: Numbers, upper: Numbers) -> tuple[Numbers, Numbers]:
    """Returns numbers, ascending, that either has, and the row of each where the upper ones stand behind the lower.

    Args:
        lower: Numbers, ascending.
        upper: Likewise; where both have one its row counts.
    """
    at = positions_of(upper, lower)
    new = at < 0
    over = np.arange(len(upper)) + len(lower)
    if len(upper) - np.count_nonzero(new) == len(lower):
        return upper, over
    numbers, rows = lower, np.arange(len(lower))
    rows[at[~new]] = over[~new]
    if new.any():
        places = np.searchsorted(numbers, upper[new])
        numbers, rows = np.insert(numbers, places, upper[new]), np.insert(rows, places, over[new])
    return numbers, rows


def _part(values: Any, field: int | None) -> Any:
    return values if field is None else values.field(field)


def _fit(runs: list[Run], *further: Run) -> bool:
    """Returns whether runs may become one."""
    together: int = sum(run.values.nbytes for run in (*runs, *further))
    return together <= MOST_BYTES


__all__ = ["Run", "ValueRuns", "laid_over"]
