"""Completed checkpoints are listed and counted by file names; only those that the caller reads are loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.table import SCHEMA, CheckpointRow, CheckpointStatus, CheckpointTable
from state_engine.log.paths import CHECKPOINTS
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.tables import TableFile

Append = Callable[..., None]


def row(number: int, status: CheckpointStatus = "completed", *, kind: str = "checkpoint") -> CheckpointRow:
    return CheckpointRow(
        id=str(number) if kind == "checkpoint" else f"sp-{number}",
        kind=kind,  # type: ignore[arg-type]
        checkpoint_id=number if kind == "checkpoint" else None,
        status=status,
        generation=1,
        epoch=number,
        manifest=f"hash of {number}",
        triggered_at=number,
        completed_at=number,
        duration_ms=0,
    )


class Table(CheckpointTable):
    """Counts what it reads."""

    def __init__(self, storage: CheckpointStorage) -> None:
        super().__init__(storage, open_tables(storage))
        self.reads = 0
        self._commits = 0

    def add(self, *rows: CheckpointRow) -> None:
        self._commits += 1
        self.append(rows, app_id="test", version=self._commits)

    def read(self, name: str) -> list[CheckpointRow]:
        self.reads += 1
        return super().read(name)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(open_storage(f"memory://{tmp_path}", "flights"))


def test_a_job_without_checkpoints_has_none(table: Table) -> None:
    completed = CompletedCheckpoints(table)
    assert completed.newest() is None
    assert list(completed) == []
    assert completed.find(1) is None
    assert completed.count_after(0) == 0


def test_counting_reads_nothing_and_the_newest_costs_one_read(table: Table) -> None:
    for number in range(1, 31):
        table.add(row(number))
    completed = CompletedCheckpoints(table)
    assert [completed.count_after(number) for number in (0, 1, 29, 30, 31)] == [30, 29, 1, 0, 0]
    assert table.reads == 0
    newest = completed.newest()
    assert newest is not None
    assert newest.checkpoint_id == 30
    assert completed.newest() == completed.find(30)
    assert table.reads == 1


@pytest.mark.parametrize("status", [one for one in get_args(CheckpointStatus) if one != "completed"])
def test_those_that_came_to_nothing_are_neither_counted_nor_read(table: Table, status: CheckpointStatus) -> None:
    table.add(row(1))
    table.add(row(2, status))
    table.add(row(3, "aborted"), row(4, "subsumed"), row(5))
    for number in range(6, 26):
        table.add(row(number, status))
    completed = CompletedCheckpoints(table)
    assert completed.count_after(0) == 2
    assert [one.checkpoint_id for one in completed] == [5, 1]
    assert completed.find(2) is None
    assert completed.find(3) is None
    assert table.reads == 2


def test_savepoints_are_no_checkpoints(table: Table) -> None:
    table.add(row(1))
    table.add(row(2, kind="savepoint"))
    completed = CompletedCheckpoints(table)
    assert [one.checkpoint_id for one in completed] == [1]
    assert table.savepoint_ids() == {"sp-2"}


def test_a_compacted_table_is_read_whole(tmp_path: Path) -> None:
    table = Table(open_storage(f"memory://{tmp_path}", "flights"))
    for number in range(1, 6):
        table.add(row(number, "failed" if number == 4 else "completed"))
    files = table.files()
    assert files is not None
    data = table._storage.get(f"{CHECKPOINTS}/{files[0].name}")
    table._storage.put_exclusive(f"{CHECKPOINTS}/other.parquet", data)
    kept = [TableFile(file.name, len(table._storage.get(f"{CHECKPOINTS}/{file.name}")), 1) for file in files[1:]]
    compacted = [*kept, TableFile("other.parquet", len(data), 1)]
    table._tables.commit(CHECKPOINTS, compacted, schema=SCHEMA, app_id="other", version=1, overwrite=True)
    assert table.files() is None
    completed = CompletedCheckpoints(table)
    assert [one.checkpoint_id for one in completed] == [5, 3, 2, 1]
    assert completed.count_after(2) == 2


def test_a_listing_does_not_change_later(table: Table) -> None:
    table.add(row(1))
    completed = CompletedCheckpoints(table)
    table.add(row(2))
    assert [one.checkpoint_id for one in completed] == [1]
    assert [one.checkpoint_id for one in CompletedCheckpoints(table)] == [2, 1]
