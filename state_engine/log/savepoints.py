"""The metadata of a canonical savepoint, and of a directory that only refers to a native one. Pure data."""

from typing import Literal

import msgspec

from state_engine.log.records import Base, Pin, StateFile, StateSchema
from state_engine.log.source_records import SourceFile
from state_engine.serialization.column import Record


class SavepointTable(Record, frozen=True, kw_only=True):
    """One state in a canonical savepoint: a Delta table with the entries of the state as rows.

    `path` and the paths of `files` are relative to the savepoint's folder. `ranges` lists (first, last, rows) of key
    groups, both inclusive: all of them, without gaps. A range without rows has no file.
    """

    schema: StateSchema
    path: str
    max_parallelism: int
    ranges: tuple[tuple[int, int, int], ...]
    files: tuple[StateFile, ...] = ()


class CanonicalSavepoint(Record, frozen=True, kw_only=True):
    """The fold of one sealed epoch, written out: all that a start needs, and no path outside its own folder.

    `sealed` is the manifest of the epoch as it was sealed: positions of sources, operators with their parallelism,
    schemas, watermarks, timers. `source_files` are all files that each source gave up to then. `bytes` and `rows` count
    what the tables hold.

    `directory` is never in the metadata beside the tables. Only the job that took the savepoint records where it was
    written to, if that was not below its own root.
    """

    savepoint_id: str
    job: str
    generation: int
    epoch: int
    manifest: str
    sealed: msgspec.Raw
    tables: tuple[SavepointTable, ...]
    source_files: tuple[tuple[SourceFile, ...], ...] = ()
    created_at: int
    trigger: str = "user"
    label: str = ""
    note: str = ""
    bytes: int = 0
    rows: int = 0
    directory: str | None = None

    @property
    def kind(self) -> Literal["canonical"]:
        """The kind, which distinguishes it from a native savepoint."""
        return "canonical"

    def base(self) -> Base:
        """Returns the tables as the base of the epoch; paths stay relative to the savepoint's folder."""
        return Base(
            job=self.job,
            generation=self.generation,
            epoch=self.epoch,
            checkpoint_id=0,
            manifest=self.manifest,
            full=True,
            files=tuple(file for table in self.tables for file in table.files),
            source_files=self.source_files,
            schemas=tuple(table.schema for table in self.tables),
        )


class SavepointReference(Record, frozen=True, kw_only=True):
    """In the directory that was requested for a native savepoint: where the savepoint is really stored.

    The directory holds nothing of the state. `root` is the address of the storage, and the savepoint is worth nothing
    without it: it is not `relocatable`. `note` says so to people.
    """

    savepoint_id: str
    job: str
    root: str
    manifest: str
    relocatable: bool
    note: str


Savepoint = Pin | CanonicalSavepoint

__all__ = ["CanonicalSavepoint", "Savepoint", "SavepointReference", "SavepointTable"]
