"""Arithmetic of ascending numbers: what tables by columns look up and merge."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from state_engine.api.keys import Numbers, order_of

Flags = NDArray[np.bool_]

ANY = 1 << 62
"""Stands for the size of numbers that lie far apart."""

_SPARSE = 8
"""Numbers below this many times their count are put into a table by number; others are sorted."""


def positions_of(wanted: Numbers, numbers: Numbers) -> Numbers:
    """Returns the position of each wanted number among others, -1 if it is not there; both ascend."""
    if len(wanted) == len(numbers) and np.array_equal(wanted, numbers):
        return np.arange(len(numbers))
    if not len(numbers):
        return np.full(len(wanted), -1)
    found = np.searchsorted(numbers, wanted)
    found[found == len(numbers)] = 0
    found[numbers[found] != wanted] = -1
    return found


def last_of_each(numbers: Numbers, size: int) -> Numbers:
    """Returns the position of the last one of each number, in the order of the numbers.

    Args:
        numbers: In any order.
        size: All numbers are below it.
    """
    if size <= _SPARSE * len(numbers):
        places = np.full(size, -1)
        places[numbers] = np.arange(len(numbers))
        return places[places >= 0]
    order = order_of(numbers)
    last: Numbers = order[np.append(np.diff(numbers[order]) != 0, True)[: len(order)]]
    return last


def distinct(numbers: Numbers) -> Numbers:
    """Returns ascending numbers once each."""
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    return numbers[is_first]


def numbered_anew(numbers: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Returns numbers once each, ascending, and the position of each number among them.

    Args:
        numbers: In any order.
        size: All numbers are below it.
    """
    if size > _SPARSE * len(numbers):
        return np.unique(numbers, return_inverse=True)
    there = np.zeros(size, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def each_once(parts: list[Numbers]) -> Iterator[Numbers]:
    """Yields parts without the numbers of the parts before; later parts are much smaller, so this costs little."""
    for n, part in enumerate(parts):
        for before in parts[:n]:
            part = part[positions_of(part, before) < 0]
        if len(part):
            yield part


def spans(first: Numbers, counts: Numbers) -> Numbers:
    """Returns the positions of ranges, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))


def laid_over(lower: Numbers, upper: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the numbers that either has, ascending, and the row of each if the upper rows follow the lower ones.

    Args:
        lower: Ascending numbers.
        upper: Likewise; of a number that both have the upper row counts.
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


def back_to(order: Any) -> Numbers:
    """Returns what undoes an order: `values[order][back_to(order)]` are the values."""
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return back


__all__ = [
    "ANY",
    "Flags",
    "back_to",
    "distinct",
    "each_once",
    "laid_over",
    "last_of_each",
    "numbered_anew",
    "positions_of",
    "spans",
]
