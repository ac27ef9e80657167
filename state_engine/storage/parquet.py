"""Writes and reads a Parquet file of a state table or staged output: row groups by key group, checksums, statistics."""

import base64
import io
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError
from state_engine.log.change_file import checksum_of
from state_engine.log.ops import KEY_GROUP
from state_engine.log.records import StateFile
from state_engine.storage.parquet_forms import ParquetCodec, forms_of
from state_engine.storage.port import CheckpointStorage, ObjectReader
from state_engine.storage.statistics import delta_statistics
from state_engine.storage.whole_file import check_whole

TARGET_ROWS = 1 << 17
MAX_ROWS = 1 << 20
THREADS_FROM = 1 << 14
"""Bytes of a file from which threads make reading faster, if a processor is idle. Below, they only cost time."""

_SMALL = 1 << 10  # bytes of a table that compression makes hardly smaller, and twice as slow to write and to read
_BUFFER = 1 << 16
_ROOM = 1 << 20  # for headers and footer

_REMEDY = "Restore an older checkpoint or savepoint, or bring the file back from a backup."

RowGroup = tuple[int, int, int]


class ParquetFile(NamedTuple):
    """A written file: the values for its handle and its add action.

    `row_groups` lists (first key group, last key group, rows); empty if the table has no column `key_group`.
    `checksum` is `xxh3:` and 32 hex digits over the whole file, `statistics` Delta's JSON.
    """

    length: int
    checksum: str
    rows: int
    row_groups: tuple[RowGroup, ...]
    statistics: str


def encode_parquet(
    table: pa.Table, *, codec: ParquetCodec = "zstd", target_rows: int = TARGET_ROWS, max_rows: int = MAX_ROWS
) -> tuple[pa.Buffer, ParquetFile]:
    """Encodes a table as one Parquet file.

    Args:
        table: Rows; sorted by the column `key_group`, if it has one. A dictionary-encoded column is written, and read
            again, as a column of the type of its values.
        codec: Compression of the pages: `zstd`, `snappy`, `lz4` or `none`.
        target_rows: Key groups share a row group until it has this number of rows; a key group with that many rows gets
            its own. So at most 2 · rows / target_rows + 1 row groups exist, for any number of key groups.
        max_rows: A row group never has more; a larger key group gets several.

    Raises:
        ValueError: the rows are not sorted by key group.
    """
    groups: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
    if KEY_GROUP in table.column_names:
        groups = table.column(KEY_GROUP).to_numpy().astype(np.int64, copy=False)
        if (np.diff(groups) < 0).any():
            raise ValueError("The rows of a state table are not sorted by key group.")
    cuts = _cuts(table.num_rows, groups, target_rows, max_rows)
    data = _encoded(table, cuts, forms_of(table, codec if table.nbytes > _SMALL else "none"))
    row_groups = () if groups is None else tuple((int(groups[a]), int(groups[b - 1]), b - a) for a, b in cuts)
    return data, ParquetFile(data.size, checksum_of(data), table.num_rows, row_groups, delta_statistics(table))


def _encoded(table: pa.Table, cuts: list[tuple[int, int]], forms: dict[str, Any]) -> pa.Buffer:
    """Returns the file, with a row group for each cut.

    It first tries one buffer that is surely large enough: a growing buffer is copied each time it grows, and new memory
    has to be cleared. The part of a large buffer that is not written to is never touched.
    """
    with suppress(OSError, MemoryError):  # values take more space than in memory, or the memory does not suffice
        return _encoded_in_room(table, cuts, forms)
    growing = pa.BufferOutputStream()
    _write_row_groups(growing, table, cuts, forms)
    return growing.getvalue()


def _encoded_in_room(table: pa.Table, cuts: list[tuple[int, int]], forms: dict[str, Any]) -> pa.Buffer:
    room = pa.allocate_buffer(2 * table.nbytes + _ROOM)
    with pa.FixedSizeBufferWriter(room) as sink:
        _write_row_groups(sink, table, cuts, forms)
        return room.slice(0, sink.tell())


def _write_row_groups(sink: Any, table: pa.Table, cuts: list[tuple[int, int]], forms: dict[str, Any]) -> None:
    read = pa.schema([field.with_type(_read_as(field.type)) for field in table.schema])
    read = read.with_metadata(table.schema.metadata)
    same = read == table.schema
    with pq.ParquetWriter(sink, table.schema, write_page_checksum=True, store_schema=same, **forms) as writer:
        for start, stop in cuts:
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)
        if not same:  # this is the schema with which Arrow reads the file: values instead of dictionaries
            writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(read.serialize().to_pybytes()).decode()})


def _read_as(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def write_parquet(
    storage: CheckpointStorage,
    path: str,
    table: pa.Table,
    *,
    codec: ParquetCodec = "zstd",
    target_rows: int = TARGET_ROWS,
    max_rows: int = MAX_ROWS,
) -> ParquetFile:
    """Writes a table as one new Parquet file, durable on return; arguments as of `encode_parquet`.

    For a Delta table outside the job's root give `open_root(table)` as the storage. Delta is not told.

    Raises:
        AlreadyExistsError: the name is taken; make a new one.
    """
    data, written = encode_parquet(table, codec=codec, target_rows=target_rows, max_rows=max_rows)
    storage.put_exclusive(path, data)
    return written


def read_parquet(storage: ObjectReader, file: StateFile, first: int, last: int) -> pa.Table | None:
    """Reads the rows of key groups `first` to `last`, both inclusive; None if there are none.

    Only the footer and the row groups that overlap are fetched; the checksums of their pages are verified. If all
    overlap, the file is fetched whole, and its own checksum is verified.

    Raises:
        MissingFileError: the file is gone.
        DamagedFileError: length, a checksum or the content is not what the handle says.
    """
    wanted = [i for i, (low, high, _) in enumerate(file.row_groups) if low <= last and high >= first]
    if file.rows == 0 or file.last < first or file.first > last or (file.row_groups and not wanted):
        return None
    whole = len(wanted) == len(file.row_groups)
    try:
        source = pa.BufferReader(_whole(storage, file)) if whole else pa.PythonFile(_Ranges(storage, file), mode="r")
        reader = pq.ParquetFile(source, pre_buffer=not whole, page_checksum_verification=True)
        threads = file.length >= THREADS_FROM
        table = reader.read(use_threads=threads) if whole else reader.read_row_groups(wanted, use_threads=threads)
    except NotFoundError as error:
        raise MissingFileError(f"The state file {file.path} is gone.", action=_REMEDY) from error
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"The state file {file.path} cannot be read: {error}.", action=_REMEDY) from error
    expected = file.rows if whole else sum(file.row_groups[index][2] for index in wanted)
    if table.num_rows != expected:
        raise DamagedFileError(f"{file.path} has {table.num_rows} rows, expected {expected}.", action=_REMEDY)
    if KEY_GROUP in table.column_names:
        groups = table.column(KEY_GROUP).to_numpy()
        start, stop = np.searchsorted(groups, first, side="left"), np.searchsorted(groups, last, side="right")
        table = table.slice(int(start), int(stop - start))
    return table if table.num_rows else None


def read_parquet_head(storage: ObjectReader, file: StateFile, rows: int, at_most: int) -> pa.Table | None:
    """Reads the first rows of a file, at most `rows` and page by page; None if that takes more than `at_most` bytes.

    Raises:
        MissingFileError: the file is gone.
        DamagedFileError: it cannot be read.
    """
    try:
        source = pa.PythonFile(_Ranges(storage, file, at_most), mode="r")
        reader = pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
        batches = reader.iter_batches(batch_size=rows, row_groups=[0], use_threads=False)
        return pa.Table.from_batches([next(batches)]) if file.rows else None
    except _TooMuchError:
        return None
    except NotFoundError as error:
        raise MissingFileError(f"The state file {file.path} is gone.", action=_REMEDY) from error
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"The state file {file.path} cannot be read: {error}.", action=_REMEDY) from error


def _whole(storage: ObjectReader, file: StateFile) -> bytes:
    data = storage.get(file.path)
    check_whole(data, file, named=f"The state file {file.path}", remedy=_REMEDY)
    return data


class _TooMuchError(Exception):
    """More than `at_most` bytes would be read."""


class _Ranges(io.RawIOBase):
    """A file of a storage for Arrow to seek and read: one ranged get per read, of at most `at_most` bytes in all."""

    def __init__(self, storage: ObjectReader, file: StateFile, at_most: int | None = None) -> None:
        self._fetch: Callable[[int, int], bytes] = lambda at, length: storage.get_range(file.path, at, length)
        self._length = file.length
        self._left = at_most
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = self._length - self._at if size < 0 else min(size, self._length - self._at)
        if self._left is not None:
            self._left -= length
            if self._left < 0:
                raise _TooMuchError
        data = self._fetch(self._at, length) if length > 0 else b""
        self._at += len(data)
        return data


def _cuts(
    rows: int, groups: "np.ndarray[tuple[int], np.dtype[np.int64]] | None", target_rows: int, max_rows: int
) -> list[tuple[int, int]]:
    """Cuts rows into row groups: at borders of key groups, and inside key groups that are larger than `max_rows`."""
    borders = [0, rows] if groups is None else [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), rows]
    cuts: list[tuple[int, int]] = []
    start = 0
    for low, high in pairwise(borders):
        if low > start and (high - low >= target_rows or high - start > max_rows):
            cuts.append((start, low))
            start = low
        if high - start >= target_rows:
            cuts += [(at, min(at + max_rows, high)) for at in range(start, high, max_rows)]
            start = high
    return [*cuts, (start, rows)] if start < rows else cuts


__all__ = [
    "MAX_ROWS",
    "TARGET_ROWS",
    "THREADS_FROM",
    "ParquetCodec",
    "ParquetFile",
    "encode_parquet",
    "read_parquet",
    "read_parquet_head",
    "write_parquet",
]
