"""Reads staged output for a sink: the very bytes that the epoch's manifest names."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.errors import MissingFileError, NotFoundError
from state_engine.log.records import OutputFile
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.whole_file import check_whole


def read_staged(storage: CheckpointStorage, file: OutputFile) -> bytes:
    """Reads a staged file and compares it with the length and checksum in its manifest.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: It is not what was staged.
    """
    remedy = (
        "Bring the file back from a backup, or restore an older checkpoint or savepoint. Or start once with "
        "keep_output=True: output that is owed and cannot be paid is then left out."
    )
    try:
        data = storage.get(file.path)
    except NotFoundError as error:
        raise MissingFileError(
            f"The staged output {file.path} is gone before its sink had it.", action=remedy
        ) from error
    check_whole(data, file, named=f"The staged output {file.path}", remedy=remedy)
    return data


class StagedRows:
    """The rows of staged files, which can be read repeatedly.

    Args:
        storage: Where they are.
        files: The files, in the order in which their rows are returned.
    """

    def __init__(self, storage: CheckpointStorage, files: Sequence[OutputFile]) -> None:
        self._storage = storage
        self._files = files

    @property
    def num_rows(self) -> int:
        """How many rows there are, as they were counted when they were staged."""
        return sum(file.rows for file in self._files)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Reads file by file, so that the bytes of one file, and one batch of its rows, are in memory at a time.

        Raises:
            MissingFileError, DamagedFileError: As `read_staged`.
        """
        for file in self._files:
            with pq.ParquetFile(pa.BufferReader(read_staged(self._storage, file))) as opened:
                yield from opened.iter_batches()

    def table(self) -> pa.Table:
        """Returns all rows; raises as `__iter__`. There is at least one file."""
        tables = [pq.read_table(pa.BufferReader(read_staged(self._storage, file))) for file in self._files]
        return pa.concat_tables(tables)


__all__ = ["StagedRows", "read_staged"]
