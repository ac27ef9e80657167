"""Writes the history of a job with many checkpoints at once, as Dagster's reporter finds it after weeks."""

from pathlib import Path

import msgspec
from deltalake import DeltaTable
from msgspec.structs import replace

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import SCHEMA, CheckpointRow, encode_rows
from state_engine.log.paths import CHECKPOINTS
from state_engine.storage.delta import STATE_TABLE_PROPERTIES, ensure_table
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder

JOB = "flights"
TIME_MS = 60_000
"""Time between two checkpoints."""


class TickHistory:
    """The job: `write` writes its history, `publish` publishes one more checkpoint.

    Args:
        root: Root of the storage.
        states: Number of states of the job.
        keys: Number of keys of each state.
    """

    def __init__(self, root: Path, states: int, keys: int) -> None:
        self.root = root
        self._names = [f"state_{number}" for number in range(states)]
        self._keys = [f"key {number}" for number in range(keys)]
        schemas = [state("tally", name, "k string", "bigint") for name in self._names]
        self._job = JobBuilder(str(root), JOB, schemas, max_parallelism=128)
        self._publisher = CheckpointPublisher(self._job.storage, JOB)
        self._newest = 0

    def write(self, checkpoints: int) -> None:
        """Writes rows and Delta log of completed checkpoints, one commit each; the publisher then adds one more."""
        row = CheckpointRow(
            id="0", kind="checkpoint", status="completed", type="INCREMENTAL", generation=1, epoch=0, manifest="",
            triggered_at=0, completed_at=0, duration_ms=100,
        )  # fmt: skip
        table = self.root / JOB / CHECKPOINTS
        ensure_table(str(table), SCHEMA, STATE_TABLE_PROPERTIES)
        for number in range(1, checkpoints + 1):
            time_ms = 1_700_000_000_000 + number * TIME_MS
            one = replace(row, id=str(number), checkpoint_id=number, epoch=number, manifest=f"{number:064x}")
            _commit(table, number, replace(one, triggered_at=time_ms, completed_at=time_ms))
        DeltaTable(str(table)).create_checkpoint()
        self._newest = checkpoints
        self.publish()

    def publish(self) -> int:
        """Publishes one more checkpoint, and returns its id."""
        self._newest += 1
        rows = [put(key, self._newest) for key in self._keys]
        sealed = self._job.epoch({("tally", name): rows for name in self._names}, checkpoint_id=self._newest)
        self._publisher.begin(sealed)
        self._job.adopt(self._publisher.completed())
        return self._newest


def _commit(table: Path, number: int, row: CheckpointRow) -> None:
    """Writes one row and its log entry as delta-rs does, but without reading the table and without fsync."""
    name, data = encode_rows([row])
    (table / name).write_bytes(data)
    add = {
        "path": name, "partitionValues": {}, "size": data.size, "modificationTime": row.completed_at,
        "dataChange": True, "stats": '{"numRecords":1}',
    }  # fmt: skip
    transaction = {"appId": f"lakestate/{JOB}/g000001", "version": 0, "lastUpdated": row.completed_at}
    entries = [{"add": add}, {"txn": transaction}, {"commitInfo": {"operation": "WRITE"}}]
    lines = b"\n".join(msgspec.json.encode(entry) for entry in entries)
    (table / "_delta_log" / f"{number:020d}.json").write_bytes(lines)


__all__ = ["JOB", "TickHistory"]
