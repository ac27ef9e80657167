"""The Delta table of one sink, as the protocol sees it."""

from collections.abc import Sequence

import pyarrow as pa

from state_engine.log.records import OutputFile
from state_engine.storage import delta
from state_engine.storage.open import open_root
from state_engine.storage.staged import read_staged
from state_engine.storage.table_log import DeltaFile


class DeltaOutputTable:
    """Implements `OutputTable`.

    Args:
        path: Root of the table.
        schema: Columns of the output; None for a caller that only reads.
    """

    def __init__(self, path: str, schema: pa.Schema | None = None) -> None:
        self._path = path
        self._schema = schema
        self._opener = delta.DeltaOpener(path, schema)

    @property
    def path(self) -> str:
        return self._path

    def open(self) -> delta.DeltaVersion:
        return self._opener.open()

    def create(self) -> None:
        assert self._schema is not None
        delta.ensure_table(self._path, self._schema, delta.SINK_TABLE_PROPERTIES)

    def exists(self, path: str) -> bool:
        return open_root(self._path).exists(path)

    def check_files(self, added: Sequence[DeltaFile]) -> None:
        delta.check_files(self._path, added)

    def verify(self, files: Sequence[OutputFile]) -> None:
        for file in files:
            read_staged(open_root(self._path), file)


__all__ = ["DeltaOutputTable"]
