"""Spans of time per key, as columns, and which of them overlap or touch: the basis of sessions."""

from typing import NamedTuple

import numpy as np

from state_engine.api.keys import Numbers, order_of
from state_engine.runtime.declared.comparison import Flags


class Spans(NamedTuple):
    """Spans of time, one per position in each column.

    Attributes:
        codes: Number of the key, from 0.
        starts: Start in ms.
        ends: End in ms: the first ms after the span.
    """

    codes: Numbers
    starts: Numbers
    ends: Numbers

    def take(self, positions: Numbers) -> "Spans":
        """Returns the spans at these positions."""
        return Spans(*(column[positions] for column in self))


class Grouped(NamedTuple):
    """Sessions of keys, in order of key and time, and the groups of records that form them, in their order.

    A group is a stored session with the records after it, or the records before all stored sessions.

    Attributes:
        codes, starts, ends: As in `Spans`, per session.
        counts: The number of groups in each session.
        sessions: The session of each group.
        stored: The position of each group's stored session; -1 if the group has only records.
        first, last: Positions of the first and the last record of each group; meaningless for a group without records.
        record_groups: The group of each record.
    """

    codes: Numbers
    starts: Numbers
    ends: Numbers
    counts: Numbers
    sessions: Numbers
    stored: Numbers
    first: Numbers
    last: Numbers
    record_groups: Numbers


def joined(stored: Spans, records: Spans, gap: int) -> Grouped:
    """Returns the sessions that result from stored sessions and new records.

    The order of groups is the order in which the records, one by one in order of time, would have joined the sessions.
    A stored session comes before the first record that touches it, and the earlier of two stored sessions comes first.

    Args:
        stored: Stored sessions, which do not touch each other.
        records: Spans of the records, in order of time within a key, each as long as the gap.
        gap: The gap in ms.
    """
    size = len(stored.codes)
    every = Spans(*(np.concatenate(pair) for pair in zip(stored, records, strict=True)))
    by_start = every.take(order := order_of(every.starts, every.codes))
    first = np.flatnonzero(_begins(by_start))
    sessions = np.empty(len(order), np.int64)
    sessions[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    touching = every.starts.copy()
    touching[:size] -= gap  # a record at or after this time may touch the session
    order = order_of(touching, sessions)  # stable: at the same time, stored sessions come first
    opens = np.append(True, np.diff(sessions[order]) > 0) | (order < size)
    begins = np.flatnonzero(opens)
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(opens) - 1
    return Grouped(
        codes=by_start.codes[first],
        starts=by_start.starts[first],
        ends=np.maximum.reduceat(by_start.ends, first),
        counts=np.bincount(sessions[order[begins]], minlength=len(first)),
        sessions=sessions[order[begins]],
        stored=np.where(order[begins] < size, order[begins], -1),
        first=order[begins] - size,
        last=order[np.append(begins[1:], len(order)) - 1] - size,
        record_groups=groups[size:],
    )


def touched(stored: Spans, records: Spans, gap: int) -> Flags:
    """Returns flags of the records that are in a stored session, directly or through an earlier record.

    Args:
        stored: As in `joined`, in order of key and time.
        records: As in `joined`.
        gap: The gap in ms.
    """
    size, count = len(stored.codes), len(records.codes)
    codes = np.concatenate([stored.codes, records.codes])
    # The last session of the key that begins within the gap: those before it ended earlier.
    order = order_of(np.concatenate([stored.starts, records.ends]), codes)
    before = np.maximum.accumulate(np.where(order < size, order, -1))
    last = np.empty(size + count, np.int64)
    last[order] = before
    last = last[size:]
    hits = last >= 0
    hits[hits] = (stored.codes[last[hits]] == records.codes[hits]) & (stored.ends[last[hits]] >= records.starts[hits])
    order = order_of(records.starts, records.codes)
    ordered = records.take(order)
    runs = np.cumsum(_begins(ordered)) - 1
    hit_counts = np.cumsum(hits[order])
    first = np.flatnonzero(np.diff(runs, prepend=-1))
    earlier = np.append(0, hit_counts)[first]  # in the runs before this one
    result = np.empty(count, bool)
    result[order] = hit_counts > earlier[runs]
    return result


def _begins(spans: Spans) -> Flags:
    """Returns flags of the spans, in order of key and start, that no earlier span touches."""
    begins = np.append(True, np.diff(spans.codes) > 0)[: len(spans.codes)]
    begins[1:] |= spans.starts[1:] > _latest(spans)[:-1]
    return begins


def _latest(spans: Spans) -> Numbers:
    """Returns for each span the latest end of its key so far; the spans are in order of their keys."""
    if not len(spans.codes):
        return spans.ends
    least, most = int(spans.ends.min()), int(spans.ends.max())
    width = most - least + 1
    if width * (int(spans.codes[-1]) + 1) < 1 << 63:
        shifts = spans.codes * width - least
        return np.maximum.accumulate(spans.ends + shifts) - shifts
    # This number of keys over this range of times does not fit into 64 bits; the ranks of the ends do.
    distinct, ranks = np.unique(spans.ends, return_inverse=True)
    shifts = spans.codes * len(distinct)
    return distinct[np.maximum.accumulate(ranks + shifts) - shifts]


__all__ = ["Grouped", "Spans", "joined", "touched"]
