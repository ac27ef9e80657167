"""Which part of a run counts.

The first fifth of the epochs, rounded up, is warm-up: compilers and caches settle, and most keys come into being. The
steady part begins when the last warm-up epoch has ended and ends with the last epoch, so that what an engine does
*between* epochs (planning, commits of logs) counts too.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

WARM_UP = 0.2
MIN_EPOCHS = 5
"""With fewer epochs there is no steady part to speak of."""
LEAST_EPOCHS = 20
"""A short data set is replayed until it fills so many: a JVM compiles most in the first ten epochs of a million."""

LONG_ENOUGH = 60
"""So many of an engine that gets through a million records in half a second: after 20 a JVM still compiles for it."""


class SteadyPart(NamedTuple):
    """The part of a run that counts: seconds since 1970, and the epochs in between."""

    start: float
    end: float
    epochs: int


def warm_up_epochs(epochs: int) -> int:
    """Returns how many of the first epochs do not count."""
    return math.ceil(WARM_UP * epochs)


def epochs_for(records: int, epoch_records: int, least: int = LEAST_EPOCHS) -> int:
    """Returns how many epochs a data set gives; at least `least`, and never below `MIN_EPOCHS`: it is replayed."""
    return max(MIN_EPOCHS, least, math.ceil(records / epoch_records))


def longer(least: int) -> int:
    """Returns how many epochs there are at least of such an engine; a run that was told to be short stays so.

    Args:
        least: How many there are at least of the others.
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
