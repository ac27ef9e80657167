"""Stages output (E5): what a subtask emits is durable under a unique name before its ack names it."""

import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.clock import RandomIds
from state_engine.epoch.ports import EpochPlan
from state_engine.log.change_file import checksum_of
from state_engine.log.paths import output_path
from state_engine.log.records import OutputFile
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.wire.task_spec import StageSpec
from state_engine.storage.create import create_under_new_name
from state_engine.storage.open import open_root
from state_engine.storage.partitions import Partition, partitions_of
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.statistics import delta_statistics


class Stages:
    """The outputs of one attempt of one subtask.

    Args:
        specs: The sinks of the operator's outputs.
        uid: The operator.
        subtask: Its number.
        plan: The epoch.
    """

    def __init__(self, specs: tuple[StageSpec, ...], uid: str, subtask: int, plan: EpochPlan) -> None:
        self._specs = specs
        self._uid = uid
        self._subtask = subtask
        self._plan = plan
        self._batches: dict[str, list[pa.RecordBatch]] = {s.output: [] for s in specs if s.table != ""}

    def add(self, outputs: Mapping[str, pa.RecordBatch]) -> None:
        """Takes the batches that the operator made of one input batch."""
        for output, batch in outputs.items():
            if output in self._batches:
                timed = batch.schema.names[-1] == EVENT_TIME  # for the next operator; a sink gets the author's columns
                self._batches[output].append(batch.select(batch.schema.names[:-1]) if timed else batch)

    def write(self, storage: CheckpointStorage) -> tuple[OutputFile, ...]:
        """Writes one Parquet file per sink that gets rows, or one for each partition; durable on return."""
        files = []
        encoded: dict[str, tuple[pa.Buffer, pa.Table]] = {}
        for spec in self._specs:
            batches = self._batches.get(spec.output)
            if not batches or spec.table == "":  # a discarding sink gets nothing, even if other sinks read the output
                continue
            if spec.partition_by:
                for part in partitions_of(pa.Table.from_batches(batches), spec.partition_by):
                    files.append(self._write(spec, _encode(part.rows), part.rows, storage, part))
                continue
            if spec.output not in encoded:
                table = pa.Table.from_batches(batches)
                encoded[spec.output] = (_encode(table), table)
            files.append(self._write(spec, *encoded[spec.output], storage))
        return tuple(files)

    def _write(
        self,
        spec: StageSpec,
        data: pa.Buffer,
        table: pa.Table,
        storage: CheckpointStorage,
        part: Partition | None = None,
    ) -> OutputFile:
        plan = self._plan
        in_table = spec.table is not None
        folder = f"{part.folder}/" if part is not None else ""

        def name(attempt: str) -> str:
            if in_table:
                return f"{folder}part-g{plan.generation:06d}-e{plan.epoch:010d}-{self._subtask}-{attempt}.parquet"
            return output_path(plan.generation, plan.epoch, self._uid, self._subtask, attempt, spec.sink)

        target = open_root(spec.table) if spec.table is not None else storage
        return OutputFile(
            output=spec.sink,
            path=create_under_new_name(target, RandomIds(), name, data),
            in_table=in_table,
            length=data.size,
            checksum=checksum_of(data),
            rows=table.num_rows,
            statistics=delta_statistics(table) if in_table else "",
            partition=dict(part.values) if part is not None else {},
        )


def _encode(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        store_schema=False,
        use_deprecated_int96_timestamps=False,
        write_page_checksum=True,
    )
    return sink.getvalue()


class Stopwatch:
    """Milliseconds per phase of a task, for the ack."""

    def __init__(self) -> None:
        self.timings: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Adds the time since the last lap to a phase."""
        now = time.perf_counter()
        self.timings[phase] = round(self.timings.get(phase, 0.0) + (now - self._last) * 1000, 3)
        self._last = now


__all__ = ["Stages", "Stopwatch"]
