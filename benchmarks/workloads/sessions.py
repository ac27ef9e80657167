"""Workload `sessions`: count the records of a key until none comes for a while, in event time, with timers.

A record after the gap closes the previous session itself, so no result depends on the current watermark.
"""

import numpy as np
import pyarrow as pa

from benchmarks.model import DECLARED, EMITTED, REFERENCE, ROW_ENGINES, SESSIONS, VECTORISED, Case, Tables
from benchmarks.workloads import event_time
from benchmarks.workloads.workload import Workload, longs

GAP = 1.4
"""The gap as a multiple of the mean time between two records of a key. A session then has about four records."""
SESSION = "session"
"""The table of open sessions: key, count, time of the last record in ms."""


def gap_ms(keys: int) -> int:
    """Returns the gap, in ms. There is one record per ms, so a key has a record every `keys` ms on average."""
    return int(GAP * keys)


def truth(records: pa.Table, keys: int) -> Tables:
    """Returns the expected sums of all sessions, and that none is overdue."""
    k, t = longs(records, "k"), longs(records, "t")
    order = np.lexsort((t, k))
    k, t = k[order], t[order]
    begins = np.flatnonzero(np.append(True, (k[1:] != k[:-1]) | (t[1:] - t[:-1] > gap_ms(keys))))
    return event_time.right(k[begins], np.diff(np.append(begins, len(k))))


def settled(final: Tables, case: Case) -> Tables:
    """Returns the sums of an engine's emitted and open sessions, and the number of open ones that are overdue."""
    if SESSION not in final:
        return final
    k, count, last = (np.asarray(column) for column in final[SESSION].columns)
    return event_time.settled(final[EMITTED], k, count, last + gap_ms(case.keys), case)


SESSIONS_WORKLOAD = Workload(
    SESSIONS,
    "Sessions of each key in event time, by functions with timers, row by row and vectorised, and declared.",
    engines=(*ROW_ENGINES, *VECTORISED, *DECLARED, "groupBy", REFERENCE),
    columns={"t": "bigint"},
    draw=lambda records: {},
    truth=truth,
    states=(SESSION,),
    compared=(EMITTED, event_time.OVERDUE),
    number="n",
    timed=True,
    length_ms=gap_ms,
    settled=settled,
)
