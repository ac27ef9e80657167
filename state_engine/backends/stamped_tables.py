"""What tables of columns have in common whose values have a time to live.

Beside each value stands its last access. What has expired is the same for all records of a batch: the processing time
and the watermark stand still in an epoch. So whole columns are compared with one number, and what a touch writes is
one number, too, or by event time a column.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Numbers
from state_engine.backends.key_numbers import positions_of
from state_engine.backends.list_runs import Flags
from state_engine.backends.namespaced_tables import RunsTable
from state_engine.backends.ttl_rules import ProcessingTimeRules, TtlRules

_NEVER = np.iinfo(np.int64).min


class StampedTable(RunsTable):
    """A table of stamped values.

    Args:
        arguments: Of the table of columns that it is besides, with types of stamped values.

    Attributes:
        unseen: Keys that a clean-up is still to look at, by their numbers, with their namespaces.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stamped = True
        self.unseen: list[tuple[str | None, Numbers]] = []

    def renumber(self, new: Numbers) -> None:
        super().renumber(new)
        self.unseen = [(namespace, _once(new[numbers])) for namespace, numbers in self.unseen]

    def begin_round(self) -> None:
        """Makes all keys unseen that have values now."""
        self.unseen = [(namespace, part) for namespace, runs in self.base.items() for part in _each_once(runs.parts)]

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for namespace, runs in list(self.base.items()):
            before = runs.rows
            self._keep(runs, lambda times: unexpired(times, expired))
            self._counted(namespace, before)

    @abstractmethod
    def _keep(self, runs: Any, kept: Callable[[Any], Flags]) -> None:
        """Keeps of the runs of a namespace what, by its last accesses, `kept` says."""

    def written(self, namespace: str | None) -> int:
        """Returns to how many keys, or entries of maps, this epoch did something."""
        return 0

    @abstractmethod
    def clean(self, namespace: str | None, numbers: Numbers, expiry: float, seen: int | None) -> float:
        """Removes what has expired, and writes the time of what has none.

        What this epoch wrote itself stays as it is, and so does a list that it emptied; what it added to a list stays
        behind what is left of that.

        Args:
            namespace: Where to look.
            numbers: Of the keys, ascending.
            expiry: What was accessed last then, or before, has expired.
            seen: The last access of what has none; None leaves it as it is.

        Returns:
            The earliest last access that stays; infinity where there is none.
        """


class StampedState:
    """What states over such a table have in common, row by row, beside what all with a time to live have."""

    __slots__ = ()
    _original: Any
    _accessed: Callable[..., None] | None

    @property
    def table(self) -> Any:
        """The table."""
        return self._original.table

    def touch(self, keys: int) -> None:
        """Tells the clean-up of an access to so many keys."""
        if self._accessed is not None:
            self._accessed(keys)


def stamps_of(rules: TtlRules, times: Any) -> Any:
    """Returns what a write makes the last access, as `TtlRules.stamp` does.

    Args:
        rules: Of the state.
        times: Event times of the records at hand, as an array; None where none has one.

    Returns:
        One number for all, None for unknown; or an array, null for unknown.
    """
    if times is None or isinstance(rules, ProcessingTimeRules):
        return rules.stamp()
    now = rules.now()
    return times if now is None else times.fill_null(now)


def after_reads(rules: TtlRules, accesses: Any, times: Any) -> tuple[Any, Flags]:
    """Returns the last accesses of values that are read, as `TtlRules.after_read` does, and which are other ones.

    Args:
        rules: Of the state.
        accesses: The last accesses, as an array.
        times: Of each the event time at which it is read, as of `stamps_of`.
    """
    if not rules.renewed_by_reads and not accesses.null_count:
        return accesses, np.zeros(len(accesses), bool)
    stamps = stamps_of(rules, times)
    if not isinstance(stamps, pa.Array):
        stamps = pa.scalar(stamps, pa.int64())
    seen = pc.max_element_wise(stamps, pa.scalar(rules.now(), pa.int64()))
    later = pc.max_element_wise(accesses, stamps) if rules.renewed_by_reads else accesses
    after: Any = pc.if_else(accesses.is_valid(), later, seen)
    return after, np.asarray(pc.fill_null(after, _NEVER)) != np.asarray(pc.fill_null(accesses, _NEVER))


def at_most(times: Any, limit: float) -> Flags:
    """Returns which last accesses are no later than a time; of those that nobody knows, none is."""
    found: Flags = np.asarray(pc.fill_null(times, np.iinfo(np.int64).max)) <= limit
    return found


def unexpired(times: Any, expired: Callable[[int | None], bool]) -> Flags:
    """Returns which last accesses have not expired; many are at one time."""
    encoded = times.dictionary_encode("encode")
    kept = np.array([not expired(at) for at in encoded.dictionary.to_pylist()], bool)
    of_each: Flags = kept[np.asarray(encoded.indices)]
    return of_each


def without(values: Any, gone: Flags) -> Any:
    """Returns values, null where they are gone."""
    return values.take(pa.array(np.arange(len(values)), mask=gone)) if gone.any() else values


def earliest(times: Any, kept: Flags) -> float:
    """Returns the earliest of some last accesses; infinity where there is none."""
    found = pc.min(times.filter(pa.array(kept))).as_py()
    return math.inf if found is None else found


def _each_once(parts: list[Numbers]) -> Iterator[Numbers]:
    """Yields parts without the keys that are in one before; later ones are much smaller, so that costs little."""
    for n, part in enumerate(parts):
        for before in parts[:n]:
            part = part[positions_of(part, before) < 0]
        if len(part):
            yield part


def _once(numbers: Numbers) -> Numbers:
    """Returns ascending numbers each once; those of keys that are gone became those of their neighbours."""
    new = np.diff(numbers, prepend=-1) > 0
    once: Numbers = numbers[new]
    return once


__all__ = [
    "StampedState",
    "StampedTable",
    "after_reads",
    "at_most",
    "earliest",
    "stamps_of",
    "unexpired",
    "without",
]
