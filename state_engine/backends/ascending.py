"""Arithmetic on ascending numbers, by which tables by columns look up and merge entries."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from state_engine.api.keys import Numbers, order_of

Flags = NDArray[np.bool_]

ANY = 1 << 62
"""The size to pass for numbers that are far apart."""

_SPARSE = 8
"""If all numbers are below this many times their count, a table by number replaces a sort."""


def positions_of(wanted: Numbers, numbers: Numbers) -> Numbers:
    """Returns the position of each wanted number among others, -1 if it is missing; both ascend."""
    if len(wanted) == len(numbers) and np.array_equal(wanted, numbers):
        return np.arange(len(numbers))
    if not len(numbers):
        return np.full(len(wanted), -1)
    positions = np.searchsorted(numbers, wanted)
    positions[positions == len(numbers)] = 0
    positions[numbers[positions] != wanted] = -1
    return positions


def last_of_each(numbers: Numbers, size: int) -> Numbers:
    """Returns the last position of each distinct number, in the order of the numbers.

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
    """Returns ascending numbers without duplicates."""
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    return numbers[is_first]


def distinct_with_positions(numbers: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Returns the distinct numbers, ascending, and the position of each number among them.

    Args:
        numbers: In any order.
        size: All numbers are below it.
    """
    if size > _SPARSE * len(numbers):
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(size, bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def each_once(parts: list[Numbers]) -> Iterator[Numbers]:
    """Yields each part without the numbers of earlier parts. Later parts are much smaller, so this costs little."""
    for n, part in enumerate(parts):
        for before in parts[:n]:
            part = part[positions_of(part, before) < 0]
        if len(part):
            yield part


def spans(first: Numbers, counts: Numbers) -> Numbers:
    """Returns the positions of ranges, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))


def merged_layers(lower: Numbers, upper: Numbers) -> tuple[Numbers, Numbers]:
    """Merges two layers of rows: returns the numbers of both, ascending, and the row of each number.

    The upper rows are counted after the lower ones.

    Args:
        lower: Ascending numbers.
        upper: Ascending numbers. For a number in both layers the upper row counts.
    """
    positions = positions_of(upper, lower)
    is_new = positions < 0
    upper_rows = np.arange(len(upper)) + len(lower)
    if len(upper) - np.count_nonzero(is_new) == len(lower):
        return upper, upper_rows
    numbers, rows = lower, np.arange(len(lower))
    rows[positions[~is_new]] = upper_rows[~is_new]
    if is_new.any():
        places = np.searchsorted(numbers, upper[is_new])
        numbers, rows = np.insert(numbers, places, upper[is_new]), np.insert(rows, places, upper_rows[is_new])
    return numbers, rows


def inverse_of(order: Any) -> Numbers:
    """Returns the inverse of an order: `values[order][inverse_of(order)]` are the values."""
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse


__all__ = [
    "ANY",
    "Flags",
    "distinct",
    "distinct_with_positions",
    "each_once",
    "inverse_of",
    "last_of_each",
    "merged_layers",
    "positions_of",
    "spans",
]
