"""What a workload is, and the sums by which emitted rows are compared.

Every engine emits rows of a key and something else; the workload says which number stands for a row. Sums of these
numbers are what all engines can tell, whatever becomes of the rows: `CHECKS`, in 64 bits that overflow.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.data import Longs
from benchmarks.model import EMITTED, Case, Tables

CHECKS = ("records", "sum", "weighted")
"""Of the rows emitted: how many, the sum of their numbers, and that of the squares of these times the keys."""


class Workload(NamedTuple):
    """One workload.

    Attributes:
        name: On the command line, and in the report.
        about: One line for its help.
        engines: The contenders that can run it, by their names in `ENGINES`.
        columns: Spark's types of the columns beside the key `k`.
        draw: Returns such columns for a data set of so many records; they are replayed with its keys.
        truth: Returns all that is right for records and a number of keys: states, and `EMITTED`.
        states: The states that are read back, where an engine has them.
        compared: The tables of `truth` that are asked of an engine whose state is read back; of others it is `EMITTED`.
        number: What stands for a row, in Spark SQL over the columns that are emitted.
        timed: Records have an event time `t`, in ms, which grows by one with each of them.
        length_ms: Of what is measured out in event time, for a number of keys: a gap, a window.
        settled: Makes what an engine told comparable, where that takes more than one table.
        key_types: Of the keys.
        fast: The contenders that read more epochs than others: with as many, their JVM would still compile.
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
        """Whether the engines whose state is read back tell sums of what they emitted, too."""
        return EMITTED in self.compared


def checks(records: int, total: int, weighted: int) -> pa.Table:
    """Returns the sums as a table of one row."""
    return pa.table({name: [wrapped(one)] for name, one in zip(CHECKS, (records, total, weighted), strict=True)})


def checks_of(keys: Longs, numbers: Longs) -> pa.Table:
    """Returns what rows with such keys and numbers come to."""
    return checks(len(numbers), int(numbers.sum()), int((numbers * numbers * keys).sum()))


def added(*tables: pa.Table) -> pa.Table:
    """Returns the sums of several parts."""
    return checks(*(sum(int(table[name][0].as_py()) for table in tables) for name in CHECKS))


def wrapped(number: int) -> int:
    """Returns a sum as it is left in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def longs(table: pa.Table, name: str) -> Longs:
    """Returns a column as an array of 64-bit integers."""
    return np.asarray(table.column(name)).astype(np.int64, copy=False)
