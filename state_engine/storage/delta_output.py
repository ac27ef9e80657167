"""The Delta table of one sink, as the protocol sees it."""

import logging
from collections.abc import Sequence

import pyarrow as pa
from deltalake.exceptions import DeltaError

from state_engine.errors import LakestateError, SinkError
from state_engine.log.records import OutputFile
from state_engine.storage import delta
from state_engine.storage.background import Background, OneThread
from state_engine.storage.delta_append import Appender, AppendVersion
from state_engine.storage.delta_durable import write_checkpoint
from state_engine.storage.open import open_root
from state_engine.storage.staged import read_staged
from state_engine.storage.table_log import DeltaFile

_log = logging.getLogger(__name__)


class DeltaOutputTable:
    """Implements `OutputTable`.

    Args:
        path: Root of the table.
        schema: Columns of the output; None for a caller that only reads.
        background: Where checkpoints of the table's log are written; a thread by default.
        partition_by: Columns by which the output is divided.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema | None = None,
        background: Background | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._schema = schema
        self._partition_by = tuple(partition_by)
        self._opener = delta.DeltaOpener(path, schema, partition_by)
        self._appender = Appender(path, open_root(path), self._loaded, self._write_checkpoint_if_due)
        self._checkpoint_interval = 0
        self._newest_due = 0
        self._background = background or OneThread("delta-checkpoint", daemon=False)

    @property
    def path(self) -> str:
        return self._path

    def open(self) -> delta.DeltaVersion:
        return self._opener.open()

    def open_to_append(self, app_ids: Sequence[str]) -> AppendVersion:
        return self._appender.open(app_ids)

    def _loaded(self) -> delta.DeltaVersion:
        version = self.open()
        self._checkpoint_interval = version.checkpoint_interval
        return version

    def _write_checkpoint_if_due(self, version: int) -> None:
        if (version + 1) % self._checkpoint_interval == 0:
            self._newest_due = version
            self._background.submit(lambda: self._write_checkpoint(version))

    def _write_checkpoint(self, version: int) -> None:
        """Writes a checkpoint, unless a later one has become due while it waited."""
        if version < self._newest_due:
            return
        try:
            write_checkpoint(self._path, version)
        except (DeltaError, OSError, LakestateError) as error:  # readers begin with an older one, and take longer
            _log.warning("A checkpoint of the log of %s could not be written: %s", self._path, error)

    def create(self) -> None:
        assert self._schema is not None
        delta.create_table(self._path, self._schema, delta.SINK_TABLE_PROPERTIES, self._partition_by)
        delta.ensure_table(self._path, self._schema, delta.SINK_TABLE_PROPERTIES)  # another one may have been there

    def exists(self, path: str) -> bool:
        return open_root(self._path).exists(path)

    def check_files(self, added: Sequence[DeltaFile]) -> None:
        for file in added:
            if self._schema is not None and tuple(file.partition_values) != self._partition_by:
                raise SinkError(
                    f"{file.path} was staged for {self._path} while it was divided by "
                    f"{list(file.partition_values) or 'no column'}; now it is divided by "
                    f"{list(self._partition_by) or 'no column'}.",
                    action="Give the table and the sink the former partitions, and start once to add what is owed. Or "
                    "start once with keep_output=True: output that is owed and cannot be paid is then left out.",
                )
        delta.check_files(self._path, added)

    def verify(self, files: Sequence[OutputFile]) -> None:
        for file in files:
            read_staged(open_root(self._path), file)


__all__ = ["DeltaOutputTable"]
