"""Reads files of a published state, of either format, and inlined ones: by range of key groups, or whole and verified.

The checkpoint storage that a job has now does not matter here: each handle names the format of its file.
"""

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import StateFile
from state_engine.log.state_stream import decode_blocks
from state_engine.storage.parquet import THREADS_FROM, read_parquet, read_parquet_head
from state_engine.storage.port import ObjectReader

_REMEDY = "Restore an older checkpoint or savepoint, or bring the file back from a backup."


def read_state_file(storage: ObjectReader, file: StateFile, first: int, last: int) -> pa.Table | None:
    """Reads the rows of key groups `first` to `last`, both inclusive; None if there are none.

    From a stream exactly the prologue and the blocks of these key groups are fetched, and verified by their own
    checksums; for a Parquet file see `read_parquet`. If all key groups are wanted, the file is fetched whole, and its
    own checksum is verified.

    Raises:
        MissingFileError: The file is gone.
        DamagedFileError: Length, a checksum or the content is not what the handle says.
    """
    if file.format == "parquet":
        return read_parquet(storage, file, first, last)
    wanted = [index for index, (group, _, _) in enumerate(file.row_groups) if first <= group <= last]
    if not wanted:
        return None
    low, high = wanted[0], wanted[-1]
    if file.inlined is None and len(wanted) == len(file.row_groups):
        return decode_state_file(fetch_state_file(storage, file), file)
    prologue, data = _fetch(storage, file, low, high)
    start = file.spans[low][0]
    blocks = [
        (file.row_groups[index][0], file.row_groups[index][2], _slice(data, file.spans[index], start))
        for index in range(low, high + 1)
    ]
    return decode_blocks(prologue, blocks, path=file.path)


def read_head(storage: ObjectReader, file: StateFile, rows: int, *, at_most: int) -> pa.Table | None:
    """Reads the first rows of a file, in the columns of a state table.

    A file of at most `at_most` bytes is read whole. From a larger one only its first pages, for at most `rows` rows of
    its first row group, or its first block are fetched. None if these have more than `at_most` bytes, which happens if
    the values themselves are large.

    Raises:
        MissingFileError: The file is gone.
        DamagedFileError: What was read is not what the handle says.
    """
    if file.length <= at_most:
        return decode_state_file(fetch_state_file(storage, file), file)
    if file.format == "parquet":
        return read_parquet_head(storage, file, rows, at_most)
    first = file.row_groups[0][0]
    return read_state_file(storage, file, first, first) if sum(file.spans[0]) <= at_most else None


def fetch_state_file(storage: ObjectReader, file: StateFile) -> bytes:
    """Returns all bytes of a file, verified by length and checksum.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: It has other bytes.
    """
    try:
        data = storage.get(file.path) if file.inlined is None else file.inlined
    except NotFoundError as error:
        raise MissingFileError(f"The state file {file.path} is gone.", action=_REMEDY) from error
    if len(data) != file.length:
        raise DamagedFileError(f"{file.path} has {len(data)} bytes, expected {file.length}.", action=_REMEDY)
    if (actual := checksum_of(data)) != file.checksum:
        raise DamagedFileError(f"{file.path} has the checksum {actual}, expected {file.checksum}.", action=_REMEDY)
    return data


def decode_state_file(data: bytes, file: StateFile) -> pa.Table:
    """Returns all rows of a file from its bytes, in the columns of a state table.

    Raises:
        DamagedFileError: The bytes are no such file, or hold other rows than the handle says.
    """
    if file.format == "parquet":
        try:
            reader = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            table = reader.read(use_threads=len(data) >= THREADS_FROM)
        except (pa.ArrowException, OSError) as error:
            raise DamagedFileError(f"The state file {file.path} cannot be read: {error}.", action=_REMEDY) from error
        if table.num_rows != file.rows:
            raise DamagedFileError(f"{file.path} has {table.num_rows} rows, expected {file.rows}.", action=_REMEDY)
        return table
    blocks = [
        (group, rows, _slice(data, span, 0)) for (group, _, rows), span in zip(file.row_groups, file.spans, strict=True)
    ]
    return decode_blocks(data[: file.spans[0][0]] if file.spans else data, blocks, path=file.path)


def _fetch(storage: ObjectReader, file: StateFile, low: int, high: int) -> tuple[bytes, bytes]:
    """Returns the prologue, and the bytes from one block to another one, both included."""
    head = file.spans[0][0]
    start, stop = file.spans[low][0], sum(file.spans[high])
    if file.inlined is not None:
        return file.inlined[:head], file.inlined[start:stop]
    try:
        if start == head:  # the two are adjacent
            data = storage.get_range(file.path, 0, stop)
            return data[:head], data[head:]
        return storage.get_range(file.path, 0, head), storage.get_range(file.path, start, stop - start)
    except NotFoundError as error:
        raise MissingFileError(f"The state file {file.path} is gone.", action=_REMEDY) from error


def _slice(data: bytes, span: tuple[int, int], start: int) -> bytes:
    offset, length = span
    return data[offset - start : offset - start + length]


__all__ = ["decode_state_file", "fetch_state_file", "read_head", "read_state_file"]
