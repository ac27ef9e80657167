"""What workloads in event time share: when it begins, and the comparison with engines whose input does not end.

What is right are all rows: an engine that ends its input has emitted them; of the others those count too that are still
in their state. None may be there whose timer was due when the last epoch began: timers have to fire.
"""

import pyarrow as pa

from benchmarks.data import Longs
from benchmarks.model import EMITTED, Case, Tables
from benchmarks.workloads.workload import added, checks_of

START_MS = 1_700_000_000_000
OVERDUE = "overdue"


def right(keys: Longs, numbers: Longs) -> Tables:
    """Returns what all rows come to, by their keys and the numbers that stand for them, and that none is overdue."""
    return {EMITTED: checks_of(keys, numbers), OVERDUE: _overdue(0)}


def settled(emitted: pa.Table, keys: Longs, numbers: Longs, due: Longs, case: Case) -> Tables:
    """Returns what the rows of an engine come to, emitted and open, and how many of these should have been emitted.

    Args:
        emitted: Sums of what it emitted.
        keys: Of the rows that are still open.
        numbers: What stands for each of them.
        due: When the timer of each is due, in ms.
        case: What the engine ran.
    """
    # The watermark with which the last epoch began: it stands behind the last record of the one before.
    watermark = START_MS + (case.epochs - 1) * case.epoch_records - 2
    return {
        EMITTED: added(emitted, checks_of(keys, numbers)),
        OVERDUE: _overdue(int((due <= watermark).sum())),
    }


def _overdue(rows: int) -> pa.Table:
    return pa.table({"rows": [rows]})
