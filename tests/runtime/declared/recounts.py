"""What declared aggregates come to, recounted in plain Python."""

import math


def rank(value):
    """Null is least, NaN is largest."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def quantile(numbers, q):
    """SQL's PERCENTILE_DISC."""
    return sorted(numbers)[max(math.ceil(q * len(numbers)) - 1, 0)] if numbers else None


def tumbling(timed, size):
    """Returns the records of each key, the first column, and window: start and end in ms.

    Args:
        timed: Records and their event times, in the order in which they came.
        size: Of the windows.
    """
    found = {}
    for record, at in timed:
        start = at - at % size
        found.setdefault((record[0], start, start + size), []).append(record)
    return found


def sessions(timed, gap):
    """As `tumbling`, of sessions: records no more than a gap apart."""
    found = {}
    for key in {record[0] for record, _ in timed}:
        own = [(record, at) for record, at in timed if record[0] == key]
        times = sorted({at for _, at in own})
        starts = [at for before, at in zip([-math.inf, *times], times, strict=False) if at - before > gap]
        for start, next_start in zip(starts, [*starts[1:], math.inf], strict=True):
            inside = [(record, at) for record, at in own if start <= at < next_start]
            found[key, start, max(at for _, at in inside) + gap] = [record for record, _ in inside]
    return found
