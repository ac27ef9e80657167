"""Timers over a database: the table is in memory, and the database has the rows of the log that it came from.

Nobody asks the database for a timer. So it has no cell for each, but cells of many rows, as Arrow: those of one key
group that an epoch wrote. Key groups are folded as they have more than twice the rows of the timers that wait, a few
with each write, so that a write costs what it writes, however many timers there are.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, indices
from state_engine.backends.rocksdb.bases import Opened
from state_engine.backends.rocksdb.cells import Cells, group_of, row_number
from state_engine.backends.rocksdb.store import Changes
from state_engine.log import ops as log
from state_engine.log.fold import fold
from state_engine.log.records import StateSchema
from state_engine.serialization.types import ddl_to_arrow

AT_ONCE = 50_000
"""Rows that are read at once, about."""

PER_CELL = 16
"""So many rows take as much room as what Arrow says of the rows of a cell."""

FEW = 50_000
"""Rows more than twice those of the timers that wait, in all key groups together, that are not worth a fold yet."""

FOLDED = 4
"""For each row that is written so many are folded at most, unless they are few."""

_MORE = np.zeros(len(log.Op) + 1, np.int64)
_MORE[log.Op.PUT], _MORE[log.Op.DELETE] = 1, -1


class TimerLog:
    """The rows of the log that make up the timers of one clock.

    Args:
        opened: Whoever holds the database.
        cells: Keys of the state's cells.
        schema: Of the timers.

    Attributes:
        form: As of a `Base`.
        live: Of no use here: the table counts.
    """

    form = "log"

    def __init__(self, opened: Opened, cells: Cells, schema: StateSchema) -> None:
        self._opened = opened
        self.cells = cells
        self.live = 0
        self._schema = schema
        rows = log.log_schema(schema, ddl_to_arrow)
        self._in_cells = pa.schema([f for f in rows if f.name not in (log.KEY_GROUP, log.SEQ, log.LAST_ACCESS)])
        self._rows = self._in_cells.insert(0, rows.field(log.KEY_GROUP))
        self._frozen: pa.Table | None = None
        self._reread = False  # since it was frozen
        self.abandon()

    def abandon(self) -> None:
        """Drops what is staged: the database is to be read anew, or has nothing yet."""
        self._staged: list[pa.Table] = []
        self._next = 0
        self._sizes = np.zeros(self.cells.max_parallelism, np.int64)  # in rows, of each key group
        self._waiting = np.zeros(self.cells.max_parallelism, np.int64)  # timers, of each key group

    # An epoch ---------------------------------------------------------------------------------------------------------

    def freeze(self, rows: pa.Table) -> None:
        """Keeps what an attempt did until it is sealed, or forgotten."""
        self._frozen = rows.select(self._rows.names)

    def settle(self) -> Iterator[pa.Table]:
        """Has what is frozen written with the next write; yields it if the table lacks it."""
        frozen, reread = self._frozen, self._reread
        self.forget()
        if frozen is not None:
            self.stage(frozen)
            if reread:
                yield frozen

    def forget(self) -> None:
        """Drops what is frozen."""
        self._frozen, self._reread = None, False

    def stage(self, rows: pa.Table) -> None:
        """Has rows of the log written with the next write, behind those that were staged before."""
        self._staged.append(rows)

    def prefetch(self, entries: list[Any]) -> None:
        """Does nothing: all timers are in memory."""

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(self) -> Iterator[pa.Table]:
        """Yields all rows that the database has, in an order that counts within each key group.

        What is frozen stays so, and the table that now begins anew with these rows lacks it: another worker may have
        had the database since, and have written what this one froze, or not.
        """
        self.abandon()
        self._reread = self._frozen is not None
        batches: list[pa.RecordBatch] = []
        groups: list[int] = []
        rows = 0
        for key, cell in self._opened.store.scan(*self.cells.groups(0, self.cells.max_parallelism - 1)):
            self._next = max(self._next, row_number(key) + 1)
            batches.append(self._decoded(cell))
            groups.append(group_of(key))
            rows += batches[-1].num_rows
            if rows >= AT_ONCE:
                yield self._counted(self._together(batches, groups), groups)
                batches, groups, rows = [], [], 0
        if batches:
            yield self._counted(self._together(batches, groups), groups)

    def _counted(self, rows: pa.Table, groups: list[int]) -> pa.Table:
        """Takes rows of the database into the counts, given the key groups of their cells; returns them."""
        self._sizes += self._of_groups(_groups(rows)) + PER_CELL * self._of_groups(np.array(groups))
        self._waiting += self._more(rows)
        return rows

    def _of_groups(self, groups: "np.ndarray[Any, Any]", weights: Any = None) -> Numbers:
        return np.bincount(groups, weights, len(self._sizes)).astype(np.int64)

    def _more(self, rows: pa.Table) -> Numbers:
        """Returns how many timers more each key group has by rows."""
        return self._of_groups(_groups(rows), _MORE[rows.column(log.OP).to_numpy()])

    def _decoded(self, cell: bytes) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(pa.py_buffer(cell), self._in_cells)

    def _together(self, batches: list[pa.RecordBatch], groups: list[int]) -> pa.Table:
        """Returns the rows of some cells, of each of which the key group is given."""
        lengths = np.array([batch.num_rows for batch in batches], np.int64)
        of_each = np.repeat(np.array(groups, np.int32), lengths)
        rows = pa.Table.from_batches(batches, self._in_cells)
        return rows.add_column(0, self._rows.field(0), pa.array(of_each))

    # Writing ----------------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        """Moves what is staged into a write, and folds what has become much."""
        if not self._staged:
            return
        rows, self._staged = self._sorted(self._staged), []
        groups = _groups(rows)
        counts = self._of_groups(groups)
        counts += PER_CELL * (counts > 0)
        due = self._due(self._sizes + counts, self._waiting + self._more(rows), max(FEW, FOLDED * int(counts.sum())))
        # What undoes all that came before would be done anew by each who reads it.
        due = np.union1d(due, groups[rows.column(log.OP).to_numpy() >= log.Op.CLEAR])
        if len(due):
            is_due = np.isin(groups, due)
            self._fold(changes, due, rows.filter(pa.array(is_due)))
            rows = rows.filter(pa.array(~is_due))
        self._put(changes, rows)

    def _due(self, sizes: Numbers, waiting: Numbers, most: int) -> Numbers:
        """Returns the key groups that are to be folded: those with the most to gain, of so many rows together, or one.

        Args:
            sizes: Of all key groups.
            waiting: Timers in them.
            most: So many rows.
        """
        excess = sizes - 2 * (waiting + PER_CELL)
        due = np.flatnonzero(excess > 0)
        if excess[due].sum() <= FEW:
            return due[:0]
        due = due[np.argsort(-excess[due], kind="stable")]
        return due[: max(1, int(np.searchsorted(np.cumsum(sizes[due]), most, "right")))]

    def _fold(self, changes: Changes, due: Numbers, new: pa.Table) -> None:
        """Writes key groups anew, with what is new in them."""
        batches, groups = [], []
        for group in due.tolist():
            cells = self.cells.groups(group, group)
            changes.ranges.append(cells)
            for _, cell in self._opened.store.scan(*cells):
                batches.append(self._decoded(cell))
                groups.append(group)
        every = pa.concat_tables([self._together(batches, groups), new])
        nothing = pa.nulls(every.num_rows, pa.int64())
        order, epoch = pa.array(np.arange(every.num_rows)), pa.array(np.zeros(every.num_rows, np.int64))
        for name, column in ((log.POSITION, epoch), (log.SEQ, order), (log.LAST_ACCESS, nothing)):
            every = every.append_column(name, column)
        self._sizes[due] = self._waiting[due] = 0
        self._put(changes, fold(self._schema, [every]).select(self._rows.names))

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Returns rows by key group, in their order within each."""
        rows = pa.concat_tables([table.select(self._rows.names).cast(self._rows) for table in tables])
        groups = _groups(rows)
        if (np.diff(groups) >= 0).all():
            return rows
        return rows.take(indices(np.argsort(groups.astype(np.uint16), kind="stable")))  # a radix sort for 16 bits

    def _put(self, changes: Changes, rows: pa.Table) -> None:
        """Writes rows, which are sorted by key group: a cell of each that has some, unless they are very long."""
        self._waiting += self._more(rows)
        for batch in rows.combine_chunks().to_batches():
            groups, batch = batch.column(0).to_numpy(), batch.select(self._in_cells.names)
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            lengths = np.diff(starts, append=len(groups))
            for group, start, length in zip(groups[starts].tolist(), starts.tolist(), lengths.tolist(), strict=True):
                cell = batch.slice(start, length).serialize().to_pybytes()
                changes.cells[self.cells.row_key(group, self._next)] = cell
            self._next += 1
            self._sizes[groups[starts]] += lengths + PER_CELL


def _groups(rows: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    groups: np.ndarray[tuple[int], np.dtype[np.int32]] = rows.column(log.KEY_GROUP).to_numpy()
    return groups


__all__ = ["TimerLog"]
