"""Implements the `Sinks` port for a job without its code: with its sinks as the newest manifest records them.

A restore of a stopped job rewinds Delta tables, and pays what is owed to them and to databases. It refuses output that
only sinks of the job's own code can take.
"""

from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa

from state_engine.connectors.known import check_address, opened
from state_engine.errors import SinkError
from state_engine.log.records import SinkTable
from state_engine.spark.graph.nodes import SinkNode, delta_sink
from state_engine.spark.graph.sinks import EpochId, ForeachEpochSink, MemorySink
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.storage import delta
from state_engine.storage.background import Inline
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage


class RecordedSinks(SinkCommits):
    """All sinks that a job ever had, except those with a Delta table that does not exist.

    Args:
        job: The job's name.
        recorded: The sinks of its newest manifest; the last entry of a uid counts.
        storage: Where output for other sinks than Delta is staged.
        log: The job's log.
    """

    def __init__(self, job: str, recorded: Sequence[SinkTable], storage: CheckpointStorage, log: ManifestLog) -> None:
        super().__init__(job, (), storage, log, lambda *_: None, show_records=False)  # manifests do not say
        last = {table.uid: table for table in recorded}
        nodes = [(table, node) for table in last.values() if (node := _node(table)) is not None]
        sinks, tables = [(node, pa.schema([])) for _, node in nodes], [table for table, _ in nodes]
        self._use(sinks, Inline(), tables)  # no thread outlives a restore

    def prepare(self) -> None:
        """Makes nothing: the job has made those that exist."""


def _node(table: SinkTable) -> SinkNode | None:
    if table.kind == "delta":
        exists = delta.table_version(table.table) is not None
        return SinkNode(table.uid, "main", delta_sink(table)) if exists else None
    if (system := opened(table)) is not None:
        check_address(system, table)
        return SinkNode(table.uid, "main", system)
    sink = MemorySink(table.table) if table.kind == "memory" else ForeachEpochSink(_refuse)
    return SinkNode(table.uid, "main", sink)


def _refuse(epoch: EpochId, rows: pa.Table) -> NoReturn:
    raise SinkError(
        f"Epoch {epoch.epoch} of job {epoch.job!r} may still owe its output to a sink that only the code of the job "
        "has.",
        action="Start the job with the restore (start(restore=...), lakestate run --restore), which calls it.",
    )


__all__ = ["RecordedSinks"]
