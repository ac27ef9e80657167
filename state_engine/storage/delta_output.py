"""The Delta table of one sink, as the protocol sees it."""

from collections.abc import Sequence

import pyarrow as pa

from state_engine.errors import NotFoundError
from state_engine.storage import delta
from state_engine.storage.port import open_root
from state_engine.storage.table_log import DeltaFile, Obstacle


class DeltaOutputTable:
    """Implements `OutputTable`.

    Args:
        path: Root of the table.
        schema: Columns of the output.
    """

    def __init__(self, path: str, schema: pa.Schema | None = None) -> None:
        self._path = path
        self._schema = pa.schema([]) if schema is None else schema

    @property
    def path(self) -> str:
        return self._path

    def open(self) -> delta.DeltaVersion:
        return delta.open_version(self._path)

    def create(self) -> None:
        delta.ensure_table(self._path, self._schema, delta.SINK_TABLE_PROPERTIES)

    def other_columns(self) -> list[str]:
        try:
            return [str(column) for column in self.open().others(self._schema)]
        except NotFoundError:
            return []

    def obstacles(self) -> list[Obstacle]:
        return delta.obstacles(self._path)

    def exists(self, path: str) -> bool:
        return open_root(self._path).exists(path)

    def check_files(self, added: Sequence[DeltaFile]) -> None:
        delta.check_files(self._path, added)


__all__ = ["DeltaOutputTable"]
