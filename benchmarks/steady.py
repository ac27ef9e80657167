"""Which part of a run counts.

The first fifth of the epochs, rounded up, is warm-up: compilers and caches settle, and most keys are created. The
steady part begins at the end of the last warm-up epoch and ends with the last epoch. So the work of an engine *between*
epochs (planning, commits of logs) counts too.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

WARM_UP = 0.2
MIN_EPOCHS = 5
"""Fewer epochs have no meaningful steady part."""
LEAST_EPOCHS = 20
"""A short data set is replayed to this number: a JVM compiles most in the first ten epochs of a million records."""

LONG_ENOUGH = 60
"""Epochs for engines that read a million records in half a second: after 20 epochs their JVM still compiles."""


class SteadyPart(NamedTuple):
    """The part of a run that counts: seconds since 1970, and the epochs in between."""

    start: float
    end: float
    epochs: int


def warm_up_epochs(epochs: int) -> int:
    """Returns the number of first epochs that do not count."""
    return math.ceil(WARM_UP * epochs)


def epochs_for(records: int, epoch_records: int, least: int = LEAST_EPOCHS) -> int:
    """Returns the number of epochs of a data set, replayed to at least `least` and `MIN_EPOCHS` epochs."""
    return max(MIN_EPOCHS, least, math.ceil(records / epoch_records))


def longer(least: int) -> int:
    """Returns the least number of epochs of a fast engine; a run with fewer than 20 epochs keeps its number.

    Args:
        least: The least number of epochs of other engines.
    """
    return least if least < LEAST_EPOCHS else max(least, LONG_ENOUGH)


def steady_part(ends: Sequence[float]) -> SteadyPart:
    """Returns the steady part of a run.

    Args:
        ends: When each epoch ended, in order.

    Raises:
        ValueError: There are fewer epochs than `MIN_EPOCHS`, or they are not in order.
    """
    if len(ends) < MIN_EPOCHS:
        raise ValueError(f"{len(ends)} epochs have no steady part: at least {MIN_EPOCHS} are needed.")
    if any(later <= earlier for earlier, later in pairwise(ends)):
        raise ValueError(f"Epochs do not end one after the other: {list(ends)}.")
    dropped = warm_up_epochs(len(ends))
    return SteadyPart(ends[dropped - 1], ends[-1], len(ends) - dropped)
