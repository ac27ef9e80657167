"""Values of entries as columns: runs, each in the order of the entries' numbers; the newest run of an entry counts.

What an epoch puts is a run of its own. It is merged with an older run only if that is not much larger. So the cost of
an epoch depends on what it puts, not on the size of the state, and a look-up searches few runs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, indices
from state_engine.backends.ascending import Flags, merged_layers, positions_of, spans
from state_engine.backends.stores.list_runs import LARGER, MOST_BYTES

_LET_GO, _FEW = 3, 1000
"""All runs together hold at most this many times the live values, and a few: other values are dropped."""


class Run(NamedTuple):
    """Values of some entries; null means no value.

    Attributes:
        numbers: Of the entries, ascending.
        values: One for each, as an Arrow array.
    """

    numbers: Numbers
    values: Any

    @property
    def is_empty(self) -> bool:
        """Whether it has no values, not even nulls."""
        return not len(self.numbers)

    def under(self, other: "Run") -> "Run":
        """Returns both; for an entry in both, the other one's value."""
        numbers, rows = merged_layers(self.numbers, other.numbers)
        if len(numbers) == len(other.numbers):
            return other
        return Run(numbers, pa.concat_arrays([self.values, other.values]).take(indices(rows)))

    def where(self, kept: Flags) -> "Run":
        """Returns the kept entries with their values."""
        at = np.flatnonzero(kept)
        return self if len(at) == len(self.numbers) else Run(self.numbers[at], self.values.take(indices(at)))

    def valid(self) -> "Run":
        """Returns the entries that have a value."""
        return self.where(np.asarray(self.values.is_valid())) if self.values.null_count else self


class ValueRuns:
    """The values of one segment.

    Args:
        value_type: Their type, as Arrow has it.

    Attributes:
        rows: How many entries have a value.
    """

    def __init__(self, value_type: Any) -> None:
        self.rows = 0
        self._type = value_type
        self._runs: list[Run] = []  # from the oldest, which has no nulls, to the newest

    def of(self, wanted: Numbers, field: int | None = None) -> Any:
        """Returns the values of entries, null for an entry without one.

        Args:
            wanted: Ascending numbers, each once.
            field: The only field of structs to return; None for whole values.
        """
        if len(self._runs) == 1:
            [run] = self._runs
            rows, values = positions_of(wanted, run.numbers), _part(run.values, field)
            if len(rows) == len(run.numbers) and (rows >= 0).all():
                return values
            return values.take(pa.array(rows, mask=rows < 0))
        parts, rows, count = [], np.full(len(wanted), -1), 0
        for positions, within, run in self._found(wanted):
            rows[positions] = np.arange(len(positions)) + count
            count += len(positions)
            parts.append(_part(run.values, field).take(indices(within)))
        if not parts:
            return pa.nulls(len(wanted), self._type if field is None else self._type.field(field).type)
        values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if count == len(wanted) and np.array_equal(rows, np.arange(count)):
            return values
        return values.take(pa.array(rows, mask=rows < 0))

    def has(self, wanted: Numbers) -> Flags:
        """Returns which entries have a value."""
        flags = np.zeros(len(wanted), bool)
        for positions, within, run in self._found(wanted):
            nulls = run.values.null_count
            flags[positions] = np.asarray(run.values.take(indices(within)).is_valid()) if nulls else True
        return flags

    @property
    def keys(self) -> int:
        """How many entries have a value."""
        return self.rows

    def change(self, run: Run) -> None:
        """Sets the values of entries; null removes."""
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
        """Keeps the values of the entries whose numbers `kept` flags."""
        self._merge()
        self._replace([run.where(kept(run.numbers)) for run in self._runs])

    def between(self, first: Numbers, end: Numbers) -> Numbers:
        """Returns, ascending, the numbers in some ranges that have a value, or had one.

        Args:
            first: Where each range begins; these ascend.
            end: Where each range ends, after its last number.
        """
        parts = []
        for run in self._runs:
            starts = np.searchsorted(run.numbers, first)
            parts.append(run.numbers[spans(starts, np.searchsorted(run.numbers, end) - starts)])
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate([np.empty(0, np.int64), *parts]))

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each entry another number, in the same order."""
        self._runs = [Run(new(run.numbers), run.values) for run in self._runs]

    @property
    def parts(self) -> list[Numbers]:
        """The numbers of entries that have a value, or had one: ascending parts, some numbers in several."""
        return [run.numbers for run in self._runs]

    def numbers(self) -> list[Numbers]:
        """Returns the numbers of all entries that have a value, in parts, some several times."""
        self._merge()
        return [run.numbers for run in self._runs]

    def _compact(self) -> None:
        """Drops the values that newer runs replace, for runs that are too large to become one."""
        kept: list[Run] = []
        newer = np.empty(0, np.int64)
        for run in reversed(self._runs):
            kept.append(run.where(positions_of(run.numbers, newer) < 0).valid())
            newer = np.union1d(newer, run.numbers)
        self._runs = [run for run in reversed(kept) if len(run.numbers)]

    def _merge(self) -> None:
        """Merges all runs into one, unless they are too large."""
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
        """Returns all runs as one, with a newer run over them."""
        for older in reversed(self._runs):
            run = older.under(run)
        return run

    def _found(self, wanted: Numbers) -> "list[tuple[Numbers, Numbers, Run]]":
        """Returns, for each run, the positions of wanted entries that no newer run has, and their positions in it."""
        parts, remaining = [], np.arange(len(wanted))
        for run in reversed(self._runs):
            rows = positions_of(wanted[remaining], run.numbers)
            hits = rows >= 0
            if hits.any():
                parts.append((remaining[hits], rows[hits], run))
                remaining = remaining[~hits]
            if not len(remaining):
                break
        return parts


def _part(values: Any, field: int | None) -> Any:
    return values if field is None else values.field(field)


def _fit(runs: list[Run], *further: Run) -> bool:
    """Returns whether runs may become one."""
    together: int = sum(run.values.nbytes for run in (*runs, *further))
    return together <= MOST_BYTES


__all__ = ["Run", "ValueRuns"]
