"""The tables of a job as Delta tables."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from state_engine.errors import NotFoundError
from state_engine.storage.delta import (
    DeltaFile,
    append_files,
    create_table,
    prepare_schema,
    version_and_files,
)
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.table_log import Fence
from state_engine.storage.tables import ActiveFiles, TableFile


class DeltaTables:
    """Delta tables below the root of a job."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._url = storage.url.rstrip("/")

    def active(self, table: str) -> ActiveFiles | None:
        try:
            version, files = version_and_files(f"{self._url}/{table}")
        except NotFoundError:
            return None
        return ActiveFiles(version, tuple(files))

    def commit(
        self,
        table: str,
        files: Sequence[TableFile],
        *,
        schema: pa.Schema,
        app_id: str,
        version: int,
        overwrite: bool = False,
        info: Mapping[str, str] | None = None,
        fence: Fence | None = None,
    ) -> int:
        path = f"{self._url}/{table}"
        if overwrite:
            prepare_schema(path, schema)
        else:
            create_table(path, schema)
        adds = [DeltaFile(file.name, file.length, file.rows, file.statistics) for file in files]
        return append_files(
            path,
            adds,
            app_id=app_id,
            version=version,
            schema=schema,
            overwrite=overwrite,
            checked=not overwrite,
            info=info,
            fence=fence,
        )


__all__ = ["DeltaTables"]
