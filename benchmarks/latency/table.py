"""Reads the table of `latency` and `failover` by its log: which rows came when, and whether they are right."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.latency.feed import keys_of


class TableWatch:
    """Follows the log of a table of which nothing is removed.

    Args:
        table: Its folder; it need not exist yet.

    Attributes:
        files: For each file of the input, when the entry with its last rows was made, in ns since 1970.
        entries: When each entry was made, likewise.
        rows: The rows of each file of the table.
    """

    def __init__(self, table: Path) -> None:
        self._table = table
        self._seen: set[str] = set()
        self.files: dict[int, int] = {}
        self.entries: list[int] = []
        self.rows: list[pa.Table] = []

    def look(self) -> None:
        """Reads the entries that are new."""
        for entry in sorted(self._table.glob("_delta_log/*.json")):
            if entry.name in self._seen:
                continue
            made_ns = entry.stat().st_ctime_ns  # a link or a rename, which gives the entry its name, changes it
            self.entries.append(made_ns)
            for line in entry.read_text().splitlines():
                if (add := json.loads(line).get("add")) is not None:
                    rows = pq.read_table(self._table / add["path"])
                    self.rows.append(rows)
                    self.files |= {int(number): made_ns for number in pc.unique(rows.column("file")).to_numpy()}
            self._seen.add(entry.name)

    @property
    def records(self) -> int:
        """The number of rows so far."""
        return sum(rows.num_rows for rows in self.rows)


def is_right(rows: pa.Table, keys: int, files: int, *, counted: bool) -> bool:
    """Returns whether each record is there once, and, if counted, with its number among those of its key.

    Args:
        rows: The rows of the table.
        keys: Number of keys; each came once in the file with number -1.
        files: Number of files after that one.
        counted: Whether there are counts.
    """
    drawn = [keys_of(number, keys) for number in range(files)]
    expected = _in_order(
        np.concatenate([np.arange(keys, dtype=np.int64), *drawn]),
        np.concatenate([np.full(keys, -1), *(np.full(len(one), n) for n, one in enumerate(drawn))]),
    )
    k = rows.column("k").to_numpy()
    if not np.array_equal(_in_order(k, rows.column("file").to_numpy()), expected):
        return False
    if not counted:
        return True
    k, n = _in_order(k, rows.column("n").to_numpy())
    first_of_key = np.flatnonzero(np.r_[True, k[1:] != k[:-1]])
    number_in_key = np.arange(len(k)) - np.repeat(first_of_key, np.diff(np.r_[first_of_key, len(k)]))
    return np.array_equal(n, number_in_key + 1)


def _in_order(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """Returns both columns, sorted."""
    order = np.lexsort((minor, major))
    return np.stack([major[order], minor[order]])


__all__ = ["TableWatch", "is_right"]
