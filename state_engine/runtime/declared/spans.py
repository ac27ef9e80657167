"""Spans of time per key, and which of them overlap or touch: what sessions are made of, as columns."""

from typing import NamedTuple

import numpy as np

from state_engine.api.keys import Numbers, order_of
from state_engine.runtime.declared.comparison import Flags


class Spans(NamedTuple):
    """Spans of time, one per position in each column.

    Attributes:
        codes: Number of the key, from 0.
        starts: In ms.
        ends: The first ms behind each.
    """

    codes: Numbers
    starts: Numbers
    ends: Numbers

    def take(self, positions: Numbers) -> "Spans":
        """Returns the spans at these positions."""
        return Spans(*(column[positions] for column in self))


class Grouped(NamedTuple):
    """Sessions of keys, in order of keys and time, and the groups of records of which each is made, in their order.

    A group is a session that was there with the records behind it, or records in front of all sessions that were there.

    Attributes:
        codes, starts, ends: As of `Spans`, per session.
        counts: How many groups each session has.
        sessions: Of each group its session.
        stored: Of each group the position of the session that was there, -1 if it has only records.
        first, last: Positions of the first and the last record of each group; of no use where it has none.
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
    """Returns the sessions that come of some that were there, and of records.

    The order of groups is that in which a record after the other, in order of time, would have joined the sessions: one
    that was there comes in front of the first record that touches it, and the earlier one of two comes first.

    Args:
        stored: Sessions that do not touch each other.
        records: In order of time within a key, each as long as the gap.
        gap: In ms.
    """
    size = len(stored.codes)
    every = Spans(*(np.concatenate(pair) for pair in zip(stored, records, strict=True)))
    by_start = every.take(order := order_of(every.starts, every.codes))
    first = np.flatnonzero(_begins(by_start))
    sessions = np.empty(len(order), np.int64)
    sessions[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    touching = every.starts.copy()
    touching[:size] -= gap  # a session is touched by the first record at this time, or behind it
    order = order_of(touching, sessions)  # stable: of the same time, those that were there come first
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
    """Returns which records are in a session that was there, or in one that an earlier record has joined.

    Args:
        stored: As of `joined`, in order of keys and time.
        records: As of `joined`.
        gap: In ms.
    """
    size, count = len(stored.codes), len(records.codes)
    codes = np.concatenate([stored.codes, records.codes])
    # The last session of the key that begins within the gap: those before it ended earlier.
    order = order_of(np.concatenate([stored.starts, records.ends]), codes)
    before = np.maximum.accumulate(np.where(order < size, order, -1))
    last = np.empty(size + count, np.int64)
    last[order] = before
    last = last[size:]
    there = last >= 0
    there[there] = (stored.codes[last[there]] == records.codes[there]) & (
        stored.ends[last[there]] >= records.starts[there]
    )
    order = order_of(records.starts, records.codes)
    ordered = records.take(order)
    runs = np.cumsum(_begins(ordered)) - 1
    so_far = np.cumsum(there[order])
    first = np.flatnonzero(np.diff(runs, prepend=-1))
    earlier = np.append(0, so_far)[first]  # in runs in front of this one
    result = np.empty(count, bool)
    result[order] = so_far > earlier[runs]
    return result


def _begins(spans: Spans) -> Flags:
    """Returns which spans, in order of key and start, are touched by none before them."""
    begins = np.append(True, np.diff(spans.codes) > 0)[: len(spans.codes)]
    begins[1:] |= spans.starts[1:] > _latest(spans)[:-1]
    return begins


def _latest(spans: Spans) -> Numbers:
    """Returns the latest end of each span's key up to it; keys stand in order."""
    if not len(spans.codes):
        return spans.ends
    least, most = int(spans.ends.min()), int(spans.ends.max())
    width = most - least + 1
    if width * (int(spans.codes[-1]) + 1) < 1 << 63:
        shifts = spans.codes * width - least
        return np.maximum.accumulate(spans.ends + shifts) - shifts
    # So many keys over so many years have no room side by side in 64 bits: their ends' ranks have.
    distinct, ranks = np.unique(spans.ends, return_inverse=True)
    shifts = spans.codes * len(distinct)
    return distinct[np.maximum.accumulate(ranks + shifts) - shifts]


__all__ = ["Grouped", "Spans", "joined", "touched"]
