"""Timers over a database: the table is in memory, and the database has the log rows from which it was built.

No single timer is ever read from the database. So it has no cell per timer, but cells of many rows, as Arrow: the rows
of one block of key groups that one epoch wrote. Blocks are folded when their rows are more than twice their waiting
timers, a few blocks with each write. So the cost of a write depends on what it writes, not on the number of timers.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Numbers, indices
from state_engine.backends.delta import deltas
from state_engine.backends.rocksdb.bases import Opened, StateInDatabase
from state_engine.backends.rocksdb.cells import Cells, group_of, row_number
from state_engine.backends.rocksdb.store import Changes, StateMeta
from state_engine.backends.shapes.timers import TimerTable
from state_engine.log import ops as log
from state_engine.log.fold import fold
from state_engine.log.records import StateSchema
from state_engine.serialization.types import ddl_to_arrow

BLOCKS = 128
"""Most cells of an epoch: with more key groups than this, some share a cell."""

AT_ONCE = 1 << 20
"""About how many bytes of cells are read at once."""

PER_CELL = 16
"""Arrow's metadata of a cell takes as much room as this many rows."""

FEW = 50_000
"""No block is folded for its size while all together have at most this many rows beyond twice their waiting timers."""

FOLDED = 4
"""Most rows that are folded for each row that is written; but a block is folded as a whole."""

_MORE = np.zeros(len(log.Op) + 1, np.int64)
_MORE[log.Op.PUT], _MORE[log.Op.DELETE] = 1, -1


def groups_of_block(max_parallelism: int) -> int:
    """Returns how many key groups make a block of an operator's timers; the first block begins with key group 0."""
    return -(-max_parallelism // BLOCKS)


class TimerLog(StateInDatabase):
    """The rows of the log that make up the timers of one clock.

    Args:
        opened: The owner of the database.
        cells: Keys of the state's cells.
        schema: Of the timers.
        table: The timers, in memory.
    """

    form = "log"

    def __init__(self, opened: Opened, cells: Cells, schema: StateSchema, table: TimerTable) -> None:
        super().__init__(opened, cells)
        self._schema = schema
        self._table = table
        every = log.log_schema(schema, ddl_to_arrow)
        self._columns = pa.schema([field for field in every if field.name not in (log.SEQ, log.LAST_ACCESS)])
        self._width = groups_of_block(cells.max_parallelism)
        self._frozen: pa.Table | None = None
        self._reread = False  # whether the table was read again since the freeze
        self.abandon()

    def abandon(self) -> None:
        """Drops the staged rows, because the database is to be read anew, or has nothing yet."""
        self._staged: list[pa.Table] = []
        self._next = 0
        self._sizes = np.zeros(BLOCKS, np.int64)  # size of each block, in rows
        self._waiting = np.zeros(BLOCKS, np.int64)  # timers of each block

    def take(self, found: StateMeta) -> None:
        self._table.empty()
        for rows in self.read():
            self._merge(rows)

    def empty(self) -> None:
        self.abandon()
        self._table.empty()

    def _merge(self, rows: pa.Table) -> None:
        for delta in deltas(self._schema, rows, self.cells.codec, stamped=False):
            if isinstance(delta, int):
                self._table.drop_group(delta)
            else:
                self._table.merge(delta)

    # An epoch ---------------------------------------------------------------------------------------------------------

    def freeze(self, rows: pa.Table) -> None:
        """Keeps the changes of an attempt until they are sealed, or forgotten."""
        self._frozen = rows.select(self._columns.names)

    def settle(self) -> None:
        """Stages the frozen rows for the next write; merges them into the table if it lacks them."""
        frozen, reread = self._frozen, self._reread
        self.forget()
        if frozen is not None:
            self.stage(frozen)
            if reread:
                self._merge(frozen)

    def forget(self) -> None:
        """Drops the frozen rows."""
        self._frozen, self._reread = None, False

    def stage(self, rows: pa.Table) -> None:
        """Stages log rows for the next write, after those that were staged before."""
        self._staged.append(rows)

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(self) -> Iterator[pa.Table]:
        """Yields all rows of the database, in an order that is valid within each key group.

        Frozen rows stay frozen, and the table, which now starts anew with the rows read, lacks them. For another worker
        may have had the database since, and may or may not have written what this worker froze.
        """
        self.abandon()
        self._reread = self._frozen is not None
        cells: list[bytes] = []
        size = 0
        for key, cell in self._opened.store.scan(*self.cells.groups(0, self.cells.max_parallelism - 1)):
            self._next = max(self._next, row_number(key) + 1)
            cells.append(cell)
            size += len(cell)
            self._sizes[group_of(key) // self._width] += PER_CELL
            if size >= AT_ONCE:
                yield self._counted(cells)
                cells, size = [], 0
        yield self._counted(cells)

    def _counted(self, cells: Sequence[bytes]) -> pa.Table:
        """Returns the rows of cells, and counts them from now on."""
        rows = self._decoded(cells)
        self._sizes += self._of_blocks(self._blocks(rows))
        self._waiting += self._more(rows)
        return rows

    def _decoded(self, cells: Sequence[bytes]) -> pa.Table:
        batches = [pa.ipc.read_record_batch(pa.py_buffer(cell), self._columns) for cell in cells]
        return pa.Table.from_batches(batches, self._columns)

    def _blocks(self, rows: "pa.Table | pa.RecordBatch") -> Numbers:
        """Returns the block of each row."""
        blocks: Numbers = rows.column(log.KEY_GROUP).to_numpy() // self._width
        return blocks

    def _of_blocks(self, blocks: Numbers, weights: Any = None) -> Numbers:
        return np.bincount(blocks, weights, BLOCKS).astype(np.int64)

    def _more(self, rows: pa.Table) -> Numbers:
        """Returns by how many timers each block grows through these rows."""
        return self._of_blocks(self._blocks(rows), _MORE[rows.column(log.OP).to_numpy()])

    # Writing ----------------------------------------------------------------------------------------------------------

    def write(self, changes: Changes) -> None:
        # This also folds blocks that have become large.
        if not self._staged:
            return
        rows, self._staged = self._sorted(self._staged), []
        blocks = self._blocks(rows)
        counts = self._of_blocks(blocks)
        counts += PER_CELL * (counts > 0)
        due = self._due(self._sizes + counts, self._waiting + self._more(rows), FOLDED * int(counts.sum()))
        # Rows that undo all earlier rows would be applied again with each read, so their blocks are folded, too.
        due = np.union1d(due, blocks[rows.column(log.OP).to_numpy() >= log.Op.CLEAR])
        if len(due):
            is_due = np.isin(blocks, due)
            self._fold(changes, due, rows.filter(pa.array(is_due)))
            rows = rows.filter(pa.array(~is_due))
        self._put(changes, rows)

    def _due(self, sizes: Numbers, waiting: Numbers, most: int) -> Numbers:
        """Returns the blocks to fold: those with the most to gain, with at most `most` rows together, or one block.

        Args:
            sizes: Of all blocks.
            waiting: Timers in them.
            most: Most rows of the returned blocks together, unless it is one block.
        """
        excess = sizes - 2 * (waiting + PER_CELL)
        due = np.flatnonzero(excess > 0)
        if excess[due].sum() <= FEW:
            return due[:0]
        due = due[np.argsort(-excess[due], kind="stable")]
        return due[: max(1, int(np.searchsorted(np.cumsum(sizes[due]), most, "right")))]

    def _fold(self, changes: Changes, due: Numbers, new: pa.Table) -> None:
        """Writes blocks anew, with their new rows."""
        cells = []
        for first in (due * self._width).tolist():
            cell_range = self.cells.groups(first, first)
            changes.ranges.append(cell_range)
            cells += [cell for _, cell in self._opened.store.scan(*cell_range)]
        every = pa.concat_tables([self._decoded(cells), new])
        nothing = pa.nulls(every.num_rows, pa.int64())
        order, epoch = pa.array(np.arange(every.num_rows)), pa.array(np.zeros(every.num_rows, np.int64))
        for name, column in ((log.POSITION, epoch), (log.SEQ, order), (log.LAST_ACCESS, nothing)):
            every = every.append_column(name, column)
        self._sizes[due] = self._waiting[due] = 0
        self._put(changes, fold(self._schema, [every]).select(self._columns.names))

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Returns rows sorted by block; within a block they keep their order."""
        rows = pa.concat_tables([table.select(self._columns.names).cast(self._columns) for table in tables])
        blocks = self._blocks(rows)
        if (np.diff(blocks) >= 0).all():
            return rows
        return rows.take(indices(np.argsort(blocks.astype(np.uint16), kind="stable")))  # a radix sort for 16 bits

    def _put(self, changes: Changes, rows: pa.Table) -> None:
        """Writes rows that are sorted by block: one cell for each block that has rows, more if they are very long."""
        self._waiting += self._more(rows)
        for batch in rows.combine_chunks().to_batches():
            blocks = self._blocks(batch)
            starts = np.flatnonzero(np.diff(blocks, prepend=-1))
            lengths = np.diff(starts, append=len(blocks))
            for block, start, length in zip(blocks[starts].tolist(), starts.tolist(), lengths.tolist(), strict=True):
                cell = batch.slice(start, length).serialize().to_pybytes()
                changes.cells[self.cells.row_key(block * self._width, self._next)] = cell
            self._next += 1
            self._sizes[blocks[starts]] += lengths + PER_CELL


__all__ = ["TimerLog", "groups_of_block"]
