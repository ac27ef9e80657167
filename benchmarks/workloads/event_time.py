"""Shared by workloads in event time: the start time, and the comparison with engines that do not end their input.

The truth has all rows. An engine that ends its input has emitted all of them. For other engines, rows that are still in
their state count too. But a row with a timer that was due when the last epoch began must not be in the state: timers
have to fire.
"""

import pyarrow as pa

from benchmarks.data import Longs
from benchmarks.model import EMITTED, Case, Tables
from benchmarks.workloads.workload import added, checks_of

START_MS = 1_700_000_000_000
OVERDUE = "overdue"


def right(keys: Longs, numbers: Longs) -> Tables:
    """Returns the expected sums of all rows, from their keys and numbers, and that no row is overdue."""
    return {EMITTED: checks_of(keys, numbers), OVERDUE: _overdue(0)}


def settled(emitted: pa.Table, keys: Longs, numbers: Longs, due: Longs, case: Case) -> Tables:
    """Returns the sums of an engine's emitted and open rows, and the number of open rows that are overdue.

    Args:
        emitted: Sums of the emitted rows.
        keys: Keys of the rows that are still open.
        numbers: The number of each of these rows.
        due: When the timer of each is due, in ms.
        case: The case that the engine ran.
    """
    # The watermark with which the last epoch began: 1 ms before the last record of the previous epoch.
    watermark = START_MS + (case.epochs - 1) * case.epoch_records - 2
    return {
        EMITTED: added(emitted, checks_of(keys, numbers)),
        OVERDUE: _overdue(int((due <= watermark).sum())),
    }


def _overdue(rows: int) -> pa.Table:
    return pa.table({"rows": [rows]})
