"""The expected results of declared aggregates, computed in plain Python."""

import math


def rank(value):
    """Returns a sort key: null is the smallest value, NaN the largest."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def quantile(numbers, q):
    """Returns SQL's PERCENTILE_DISC."""
    return sorted(numbers)[max(math.ceil(q * len(numbers)) - 1, 0)] if numbers else None


def tumbling(timed, size):
    """Returns the records of each key, the first column, and window: start and end in ms.

    Args:
        timed: Records and their event times, in the order in which they came.
        size: Of the windows.
    """
    windows = {}
    for record, at in timed:
        start = at - at % size
        windows.setdefault((record[0], start, start + size), []).append(record)
    return windows


def sessions(timed, gap):
    """Returns the records of each key and session, as `tumbling` does: records no more than a gap apart."""
    windows = {}
    for key in {record[0] for record, _ in timed}:
        of_key = [(record, at) for record, at in timed if record[0] == key]
        times = sorted({at for _, at in of_key})
        starts = [at for before, at in zip([-math.inf, *times], times, strict=False) if at - before > gap]
        for start, next_start in zip(starts, [*starts[1:], math.inf], strict=True):
            inside = [(record, at) for record, at in of_key if start <= at < next_start]
            windows[key, start, max(at for _, at in inside) + gap] = [record for record, _ in inside]
    return windows
