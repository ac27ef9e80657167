"""Defines a workload, and the sums by which emitted rows are compared.

Every engine emits rows of a key and other columns; the workload defines a number for each row. All engines can report
sums of these numbers, wherever the rows go: `CHECKS`, in 64 bits with overflow.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.data import Longs
from benchmarks.model import EMITTED, Case, Tables

CHECKS = ("records", "sum", "weighted")
"""Of the emitted rows: their count, the sum of their numbers, and the sum of squared numbers times keys."""


class Workload(NamedTuple):
    """One streaming workload.

    Attributes:
        name: Name on the command line and in the report.
        about: One line for its help.
        engines: The contenders that can run it, by their names in `ENGINES`.
        columns: Spark's types of the columns besides the key `k`.
        draw: Returns these columns for a number of records; they are replayed with the keys.
        truth: Returns the expected results for records and a number of keys: states, and `EMITTED`.
        states: The states that are read back from engines that have them.
        compared: The tables of `truth` to compare for an engine with readable state; for others only `EMITTED`.
        number: The number of a row, in Spark SQL over the emitted columns.
        timed: Whether records have an event time `t`, in ms, which grows by one with each record.
        length_ms: Returns the gap or the window size in ms of event time, for a number of keys.
        settled: Makes the results of an engine comparable, if this takes more than one table.
        key_types: Types of keys.
        fast: The contenders that read more epochs than others; otherwise their JVM would still be compiling.
    """

    name: str
    about: str
    engines: tuple[str, ...]
    columns: Mapping[str, str]
    draw: Callable[[int], Mapping[str, Longs]]
    truth: Callable[[pa.Table, int], Tables]
    states: tuple[str, ...]
    compared: tuple[str, ...]
    number: str
    timed: bool = False
    length_ms: Callable[[int], int] = lambda keys: 0
    settled: Callable[[Tables, Case], Tables] = lambda final, case: final
    key_types: tuple[str, ...] = ("int",)
    fast: tuple[str, ...] = ()

    @property
    def sums_emitted(self) -> bool:
        """Whether engines with readable state also report sums of their emitted rows."""
        return EMITTED in self.compared


def checks(records: int, total: int, weighted: int) -> pa.Table:
    """Returns the sums as a table of one row."""
    return pa.table({name: [wrapped(one)] for name, one in zip(CHECKS, (records, total, weighted), strict=True)})


def checks_of(keys: Longs, numbers: Longs) -> pa.Table:
    """Returns the sums of rows with these keys and numbers."""
    return checks(len(numbers), int(numbers.sum()), int((numbers * numbers * keys).sum()))


def added(*tables: pa.Table) -> pa.Table:
    """Returns the sums of several parts."""
    return checks(*(sum(int(table[name][0].as_py()) for table in tables) for name in CHECKS))


def wrapped(number: int) -> int:
    """Returns a sum as a signed 64-bit integer, with overflow."""
    return (number + 2**63) % 2**64 - 2**63


def longs(table: pa.Table, name: str) -> Longs:
    """Returns a column as an array of 64-bit integers."""
    return np.asarray(table.column(name)).astype(np.int64, copy=False)
