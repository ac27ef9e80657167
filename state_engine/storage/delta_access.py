"""The checkpoint storage `delta`: a Parquet file per part, in a Delta table per state."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from state_engine.errors import StorageError
from state_engine.log.change_file import checksum_of
from state_engine.log.ops import ops_to_dictionary, table_schema
from state_engine.log.records import StateFile
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.checkpoint_storage import DELTA, FoldedPart, PublishedState, StorageTraits, WrittenPart
from state_engine.storage.parquet import ParquetFile, encode_parquet
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.tables import TableFile, Tables, put_once

CODEC: Literal["zstd"] = "zstd"


class DeltaCheckpointStorageAccess:
    """Writes parts as Parquet files and commits them to Delta tables.

    A part's name identifies its content, so a file that an earlier attempt left under it is used as it is.
    """

    def __init__(self, storage: CheckpointStorage, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables

    @property
    def traits(self) -> StorageTraits:
        return DELTA

    def active(self, folder: str) -> Sequence[str] | None:
        active = self._tables.active(folder)
        return active.names if active is not None else None

    def write(self, part: FoldedPart) -> WrittenPart:
        return write_parquet_part(self._storage, part)

    def commit(self, state: PublishedState) -> int | None:
        """Commits the new files, once, and checks that the table now holds the state's files.

        Raises:
            StorageError: The outcome is unknown, or another writer writes to the table. The next checkpoint is FULL.
        """
        active = self._tables.active(state.folder)
        prefix = f"{state.folder}/"
        wanted = {file.path.removeprefix(prefix) for file in state.files}
        present = set(active.names if active else ())
        # a full fold without rows may still change a type of the table
        if present == wanted and (bool(wanted) or active is None or not state.full):
            return active.version if active else None
        version = self._tables.commit(
            state.folder,
            [
                TableFile(file.path.removeprefix(prefix), file.length, file.rows, statistics)
                for file, statistics in state.written
            ],
            schema=table_schema(state.schema, ddl_to_arrow),
            app_id=state.app_id,
            version=state.epoch,
            overwrite=state.full,
            info={"lakestate.epoch": str(state.epoch), "lakestate.fold": "full" if state.full else "incremental"},
        )
        active = self._tables.active(state.folder)
        if active is None or set(active.names) != wanted:
            raise StorageError(
                f"The table {state.folder} does not hold the files of epoch {state.epoch}: another program writes to "
                "it, or an attempt of another release, which cut the key groups differently, has committed its own.",
                action="Do not write, optimise or vacuum state tables; the next checkpoint rewrites the table.",
            )
        return version


class EncodedPart(NamedTuple):
    """A part as the bytes of a Parquet file that is not written yet, and the description that it will get."""

    data: pa.Buffer
    written: WrittenPart


def write_parquet_part(storage: CheckpointStorage, part: FoldedPart) -> WrittenPart:
    """Writes a part as the Parquet file `<folder>/<stem>.parquet`, without adding it to a table."""
    return put_parquet_part(storage, encode_parquet_part(part))


def encode_parquet_part(part: FoldedPart) -> EncodedPart:
    """Encodes a part, which costs CPU. `put_parquet_part` does the rest, which waits for the disk."""
    data, encoded = encode_parquet(ops_to_dictionary(part.rows), codec=CODEC)
    file = StateFile(
        schema_id=part.schema.schema_id,
        path=f"{part.folder}/{part.stem}.parquet",
        length=encoded.length,
        checksum=encoded.checksum,
        rows=encoded.rows,
        first=encoded.row_groups[0][0],
        last=encoded.row_groups[-1][1],
        generation=part.generation,
        max_parallelism=part.max_parallelism,
        codec=CODEC,
        row_groups=encoded.row_groups,
    )
    return EncodedPart(data, WrittenPart(file, encoded.statistics))


def put_parquet_part(storage: CheckpointStorage, part: EncodedPart) -> WrittenPart:
    """Puts an encoded part; if an earlier attempt left one under its name, that one is used as it is."""
    file = part.written.file
    if put_once(storage, file.path, part.data):
        return part.written
    data = pa.py_buffer(storage.get(file.path))
    existing = _describe(file.path, data, expected_rows=file.rows)
    file = replace(
        file,
        length=existing.length,
        checksum=existing.checksum,
        first=existing.row_groups[0][0],
        last=existing.row_groups[-1][1],
        row_groups=existing.row_groups,
    )
    return WrittenPart(file, existing.statistics)


def _describe(path: str, data: pa.Buffer, *, expected_rows: int) -> ParquetFile:
    """Describes a file that an attempt of another release left: the same rows in other bytes."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    if metadata.num_rows != expected_rows:
        raise StorageError(
            f"{path} holds {metadata.num_rows} rows of an earlier attempt, expected {expected_rows}.",
            action="Nothing was published; the next checkpoint uses other names.",
        )
    groups = []
    for index in range(metadata.num_row_groups):
        row_group = metadata.row_group(index)
        bounds = row_group.column(0).statistics
        if bounds is None:
            raise StorageError(f"{path} has no bounds for its key groups.", action="Remove the file; nothing names it.")
        groups.append((int(str(bounds.min)), int(str(bounds.max)), row_group.num_rows))
    statistics = msgspec.json.encode({"numRecords": metadata.num_rows}).decode()
    return ParquetFile(data.size, checksum_of(data), metadata.num_rows, tuple(groups), statistics)


__all__ = [
    "DeltaCheckpointStorageAccess",
    "EncodedPart",
    "encode_parquet_part",
    "put_parquet_part",
    "write_parquet_part",
]
