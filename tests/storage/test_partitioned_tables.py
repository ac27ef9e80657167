"""A sink over a partitioned Delta table: commits, a restore, and a table with other partitions. No JVM."""

import datetime
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state_engine.epoch.ports import EpochPlan
from state_engine.epoch.table_sink import TableSink
from state_engine.errors import SinkError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Ack, Manifest, OperatorEpoch, OutputFile, Span
from state_engine.spark.wire.task_spec import StageSpec
from state_engine.spark.worker.staging import Stages
from state_engine.storage.delta_output import DeltaOutputTable
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage

SCHEMA = pa.schema([("n", pa.int64()), ("shop", pa.string()), ("day", pa.date32())])
BY = ("day", "shop")
FIRST, SECOND = datetime.date(2026, 11, 29), datetime.date(2026, 11, 30)

Row = tuple[int, str | None, datetime.date | None]


class Stage:
    """A log, and a sink that divides its table."""

    def __init__(self, folder: Path, partition_by: Sequence[str] = BY) -> None:
        self.path = str(folder / "table")
        self.log = ManifestLog(MemoryStorage(), "job")
        self.log.create_birth_id("ab" * 16, 1)
        table = DeltaOutputTable(self.path, SCHEMA, partition_by=partition_by)
        self.sink = TableSink("job", "out", table, self.log, lambda: 7)
        self.by = tuple(partition_by)

    def staged(self, epoch: int, *rows: Row) -> tuple[OutputFile, ...]:
        """Stages rows as a task does."""
        plan = EpochPlan(
            job="job", root="", generation=1, epoch=epoch, incarnation="a", predecessor="", predecessor_epoch=epoch - 1,
            predecessor_generation=1, processing_time=0, operators=(),
        )  # fmt: skip
        stages = Stages((StageSpec("out", "main", self.path, self.by),), "op", 0, plan)
        stages.add(
            {"main": pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)}
        )
        return stages.write(MemoryStorage())

    def seal(self, epoch: int, before: StoredManifest | None, *rows: Row) -> StoredManifest:
        """Seals an epoch with these rows, and commits it."""
        outputs = self.staged(epoch, *rows)
        ack = Ack(uid="op", subtask=0, attempt="a", records_in=1, records_out=1, outputs=outputs)
        sealed = self.log.put(
            Manifest(
                job="job", generation=1, epoch=epoch, kind="epoch", incarnation="a", incarnation_number=1,
                predecessor=before.hash if before else "", processing_time=epoch,
                lineage=(Span(generation=1, first=1),),
                operators={"op": OperatorEpoch(parallelism=1, max_parallelism=13, acks=(ack,))},
            )
        )  # fmt: skip
        self.sink.commit(1, epoch, outputs, verify=True)
        return sealed

    def rows(self) -> list[Row]:
        table = DeltaTable(self.path).to_pyarrow_table().select(SCHEMA.names)
        return sorted(((row["n"], row["shop"], row["day"]) for row in table.to_pylist()), key=str)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.sink.create()
    return stage


def test_rows_have_the_values_of_their_partitions_through_a_restore(stage: Stage) -> None:
    one: list[Row] = [(1, "a", FIRST), (2, "b", FIRST), (3, None, None), (4, "ü/%=", SECOND)]
    two: list[Row] = [(5, "a", FIRST), (6, "x y", SECOND)]
    first = stage.seal(1, None, *one)
    stage.seal(2, first, *two)
    both = sorted([*one, *two], key=str)
    assert DeltaTable(stage.path).metadata().partition_columns == list(BY)
    assert stage.rows() == both
    stage.sink.rewind(first, 2, keep_output=False)
    assert stage.rows() == sorted(one, key=str)
    assert first.manifest.operators["op"].acks[0].outputs[0].partition.keys() == set(BY)


def test_readers_skip_the_files_of_other_partitions(stage: Stage) -> None:
    stage.seal(1, None, (1, "a", FIRST), (2, "b", FIRST), (3, "a", SECOND))
    files = DeltaTable(stage.path).file_uris(file_pruning_predicate=[("day", "=", "2026-11-29"), ("shop", "=", "b")])
    assert len(files) == 1
    assert "day=2026-11-29/shop=b/part-g000001-e0000000001-0-" in files[0]


def test_output_that_was_staged_for_other_partitions_is_not_added(stage: Stage, tmp_path: Path) -> None:
    """The driver dies before the commit, and the owner divides the table otherwise before the next start."""
    owed = Stage(tmp_path, ()).staged(1, (1, "a", FIRST))
    with pytest.raises(SinkError, match=r"divided by no column; now it is divided by \['day', 'shop'\]"):
        stage.sink.commit(1, 1, owed)
    assert stage.rows() == []


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (["day"], BY, "it is partitioned by 'day'"),
        (["shop", "day"], BY, "it is partitioned by 'shop', 'day'"),
        ([], BY, "it is not partitioned"),
        (["day"], (), "it is partitioned by 'day'"),
    ],
)
def test_a_table_with_other_partitions_is_refused(
    tmp_path: Path, found: list[str], wanted: Sequence[str], said: str
) -> None:
    stage = Stage(tmp_path, wanted)
    write_deltalake(stage.path, pa.Table.from_pylist([], SCHEMA), partition_by=found or None)
    with pytest.raises(SinkError, match=said) as raised:
        stage.sink.check()
    assert (f"partition_by={found}" if found else "leave partition_by out") in raised.value.action
    with pytest.raises(SinkError, match=said):
        stage.sink.commit(1, 1, stage.staged(1, (1, "a", FIRST)))
    assert stage.rows() == []
