"""One open database: the only module that calls RocksDB.

All changes of one epoch go into one write batch, together with the `Meta` that records which manifest the data
reflects. A process that is killed at any instant leaves the whole batch, or nothing of it. A machine that dies loses
the last batches, which are not synced; `boot.py` describes what else it may lose.

A state that is being loaded is written in pieces under a number that `Meta` does not name yet. RocksDB syncs the files
that it ingests, so they may be durable although the batch that assigned their number is lost. Therefore each opening
removes all cells that `Meta` does not name: the next number is empty, whatever happened to the last ones.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from state_engine.backends.rocksdb import boot
from state_engine.backends.rocksdb.cells import LAST_NUMBER, number_of, state_range
from state_engine.backends.rocksdb.options import Tuning, open_options
from state_engine.errors import LocalStateError
from state_engine.extras import from_extra
from state_engine.log.records import StateTtl
from state_engine.text import UNDECODABLE

with from_extra("rocksdb"):
    from rocksdict import (
        Checkpoint,
        IngestExternalFileOptions,
        Rdict,
        ReadOptions,
        SstFileWriter,
        WriteBatch,
        WriteOptions,
    )

FORMAT_VERSION = 6
_META = b"\x00\x00"
_FIRST_CELL = b"\x00\x01"
_LAST_CELL = b"\xff" * 16
_WORTH_A_FILE = 10_000


class StateMeta(msgspec.Struct, array_like=True):
    """One state that is complete, as of the database's token.

    Attributes:
        schema_id: Of its schema.
        number: Its number in the keys of its cells.
        rows: Live rows.
        keys: Live entries.
        single: Whether an entry is one cell, and not many after a header.
        ttl: Its time to live: with one, values are stamped.
        unknown_until: As in the log's schema: last accesses up to that epoch do not count.
        types: A digest of all types that its values went through.
        cursor: Where its `TtlSweep` continues.
        form: The form of its cells, where that depends on how it is accessed (`StateInDatabase.form`).
    """

    schema_id: str
    number: int
    rows: int
    keys: int
    single: bool
    ttl: StateTtl | None = None
    unknown_until: int | None = None
    types: str = ""
    cursor: bytes = b""
    form: str = ""


class Meta(msgspec.Struct):
    """Records what the database reflects.

    Attributes:
        version: Format version; a database of another version is discarded.
        token: Hash of the manifest that all states in `states` reflect; None in a new database.
        states: By name.
        next_number: The next state's number.
    """

    version: int = FORMAT_VERSION
    token: str | None = None
    states: dict[str, StateMeta] = {}
    next_number: int = 1


class Changes:
    """What one write does: first it deletes ranges, then it puts keys, or deletes those with the value None."""

    __slots__ = ("cells", "ranges")

    def __init__(self) -> None:
        self.cells: dict[bytes, bytes | None] = {}
        self.ranges: list[tuple[bytes, bytes]] = []


class Store:
    """An open database. Its owner holds the lock on its folder.

    Args:
        folder: The database's own folder; made if it is missing.
        tuning: Memory and options.

    Attributes:
        meta: What the database reflects.
        damaged: Something failed: it must not be used again.

    Raises:
        LocalStateError: It cannot be opened: it is damaged or of another version, the disk fails, or the machine died
            at a moment at which RocksDB cannot tell what it lost.
    """

    def __init__(self, folder: Path, tuning: Tuning) -> None:
        self.folder = folder
        self.damaged = False
        self._tuning = tuning
        self._files = 0
        with self._refusing():
            if boot.may_have_a_hole(folder):
                raise ValueError("the machine died while there were two write-ahead logs; the first may lack its end")
            boot.mark(folder)
            for piece in folder.parent.glob("load-*"):
                piece.unlink()  # never overwritten: it may be a hard link to a file of the database
            self._db = Rdict(str(folder), open_options(tuning))
            encoded = self._db.get(_META)
        try:
            self.meta = Meta() if encoded is None else msgspec.msgpack.decode(encoded, type=Meta)
        except UNDECODABLE as error:
            self.close()
            raise self._refused(error) from error
        if self.meta.version != FORMAT_VERSION:
            self.close()
            raise self._refused(f"format version {self.meta.version} is not {FORMAT_VERSION}")
        self._remove_nameless()

    def _remove_nameless(self) -> None:
        """Removes the cells of loads that never ended: `meta` does not name their numbers."""
        named = {state.number for state in self.meta.states.values()}
        changes, begin = Changes(), _FIRST_CELL
        while (cell := next(self.scan(begin, _LAST_CELL), None)) is not None:
            cells = state_range(number_of(cell[0]))
            if number_of(cell[0]) not in named:
                changes.ranges.append(cells)
            begin = cells[1]
        if changes.ranges:
            self.write(changes)

    def check(self) -> None:
        """Raises LocalStateError if anything failed since the database was opened."""
        if self.damaged:
            raise self._refused("it failed before")

    def close(self) -> None:
        """Closes the database; what was written stays."""
        with contextlib.suppress(Exception):
            self._db.close()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # rocksdict raises bare exceptions
            raise self._refused(error) from error

    def _refused(self, why: object) -> LocalStateError:
        self.damaged = True
        return LocalStateError(
            f"The local state in {self.folder} cannot be used: {why}",
            action="Nothing is lost: it is a cache, and the epoch runs again with state loaded from the log. If this "
            "error comes again, check the disk's space and health, and which other programs write there.",
        )

    # Reading -------------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """Returns a value."""
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._refused(error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Returns many values, in the order of the keys."""
        if len(keys) < 2:
            return [self.get(key) for key in keys]
        order = sorted(range(len(keys)), key=keys.__getitem__)  # neighbours share blocks
        with self._refusing():
            in_order: Any = self._db.get([keys[i] for i in order])
        values: list[bytes | None] = [None] * len(keys)
        for position, value in zip(order, in_order, strict=True):
            values[position] = value
        return values

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the cells from `begin` (inclusive) to `end` (exclusive)."""
        with self._refusing():
            options = ReadOptions()
            options.set_iterate_upper_bound(end)
            iterator: Any = self._db.iter(options)
            iterator.seek(begin)
            while iterator.valid():
                yield iterator.key(), iterator.value()
                iterator.next()
            iterator.status()  # a damaged block ends an iterator like the last key does

    # Writing -------------------------------------------------------------------------------------------------------

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        """Writes changes and `meta` in one batch; with `sync`, a later crash of the machine does not lose it."""
        options = WriteOptions()
        options.sync = sync
        with self._refusing():
            batch = self._batch(changes)
            batch.put(_META, msgspec.msgpack.encode(self.meta))
            self._db.write(batch, options)

    def load(self, changes: Changes) -> None:
        """Writes a piece of a state that `meta` does not name yet; as a sorted file if that is worth it."""
        with self._refusing():
            if changes.ranges or len(changes.cells) < _WORTH_A_FILE:
                self._db.write(self._batch(changes))
            else:
                self._ingest(changes.cells)

    @staticmethod
    def _batch(changes: Changes) -> Any:
        batch = WriteBatch(raw_mode=True)
        for begin, end in changes.ranges:
            batch.delete_range(begin, end)
        cells = changes.cells
        for key in sorted(cells):  # each goes next to the last one in the write buffer, in nearer memory
            value = cells[key]
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        return batch

    def _ingest(self, cells: dict[bytes, bytes | None]) -> None:
        self._files += 1
        path = self.folder.with_name(f"load-{self._files}")
        writer = SstFileWriter(options=open_options(self._tuning))
        writer.open(str(path))
        for key in sorted(cells):
            value = cells[key]
            if value is None:
                del writer[key]
            else:
                writer[key] = value
        writer.finish()
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        self._db.ingest_external_file([str(path)], options)

    def copy_to(self, folder: Path) -> None:
        """Makes another database with the same content, from links to the same files."""
        with self._refusing():
            boot.mark(folder)
            Checkpoint(self._db).create_checkpoint(str(folder))

    # States --------------------------------------------------------------------------------------------------------

    def begin_load(self, name: str) -> int:
        """Returns the number of a state that is now empty and is to be loaded; removes an earlier one of that name.

        Raises:
            LocalStateError: All numbers are used up; the database must be replaced.
        """
        if self.meta.next_number > LAST_NUMBER:
            raise self._refused(f"all {LAST_NUMBER} numbers of states are used up")
        changes = Changes()
        old = self.meta.states.pop(name, None)
        if old is not None:
            changes.ranges.append(state_range(old.number))
        number = self.meta.next_number
        self.meta.next_number += 1
        self.write(changes)
        return number

    def end_load(self, name: str, state: StateMeta) -> None:
        """Names a state that was loaded: from now on the database has it, as of the token."""
        self.meta.states[name] = state
        self.write(Changes())


__all__ = ["FORMAT_VERSION", "Changes", "Meta", "StateMeta", "Store"]
