"""A power cut at a local Delta table leaves the names of files with the contents that were synced, and nothing else."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state_engine.errors import StorageError
from state_engine.storage.delta import (
    DeltaFile,
    append_files,
    create_table,
    ensure_table,
    live_files,
    prepare_schema,
    transaction_version,
)
from state_engine.storage.delta_durable import write_checkpoint
from state_engine.storage.local import LocalStorage
from state_engine.storage.parquet import write_parquet

SCHEMA = pa.schema([pa.field("v", pa.string())])


class Disk:
    """Which contents of files are durable.

    Attributes:
        synced: Names of the files that were synced, in order.
        before: Called before each sync and each new name.
    """

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.before: Callable[[], None] = lambda: None
        self.failing = ""
        self._sizes: dict[int, int] = {}

    def fsync(self, descriptor: int, fsync: Callable[[int], None]) -> None:
        self.before()
        name, status = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), os.fstat(descriptor)
        if self.failing and self.failing in name:
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)
        self.synced.append(name)
        self._sizes[status.st_ino] = status.st_size

    def cut(self, folder: Path, copy: Path, lucky: str) -> Path:
        """Copies what a power cut leaves: all names, and content that was synced or belongs to a `lucky` name."""
        copy.mkdir()
        for file in folder.rglob("*"):
            target = copy / file.relative_to(folder)
            if file.is_dir():
                target.mkdir()
            else:
                synced = None if lucky and lucky in file.name else self._sizes.get(file.stat().st_ino, 0)
                target.write_bytes(file.read_bytes()[:synced])
        return copy


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk, fsync = Disk(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: disk.fsync(descriptor, fsync))
    for name in ("link", "replace"):
        plain: Any = getattr(os, name)

        def watched(*args: Any, plain: Any = plain) -> None:
            disk.before()
            plain(*args)

        monkeypatch.setattr(os, name, watched)
    return disk


def append(table: str, version: int) -> int:
    written = write_parquet(LocalStorage(table), f"{version}.parquet", pa.table({"v": [str(version)]}, schema=SCHEMA))
    file = DeltaFile(f"{version}.parquet", written.length, written.rows, written.statistics)
    return append_files(table, [file], app_id="app", version=version, schema=SCHEMA)


def test_a_power_cut_at_any_sync_leaves_a_table_that_has_what_was_committed(tmp_path: Path, disk: Disk) -> None:
    table, cuts, committed = tmp_path / "table", 0, 0
    ensure_table(str(table), SCHEMA, {"delta.checkpointInterval": "3"})

    def look() -> None:
        nonlocal cuts
        for lucky in ("", "_last_checkpoint", ".json"):
            cuts += 1
            copy = str(disk.cut(table, tmp_path / "cut", lucky))
            assert (transaction_version(copy, "app") or 0) >= committed
            assert len(live_files(copy)) >= committed
            shutil.rmtree(copy)

    disk.before = look
    for version in range(1, 6):
        append(str(table), version)
        committed = version
    look()
    log = table / "_delta_log"
    assert [file.name[:20].lstrip("0") for file in sorted(log.glob("*.checkpoint.parquet"))] == ["2", "5"]
    assert not list(log.glob(".tmp-*"))
    assert cuts > 5 * 2 * 3


def test_what_a_power_cut_may_not_take_is_synced_when_a_commit_is_found_done(tmp_path: Path, disk: Disk) -> None:
    """The process that committed died before the sync, or the sync failed; others have committed since."""
    table = str(tmp_path / "table")
    ensure_table(table, SCHEMA)
    disk.failing = "1.json"
    with pytest.raises(StorageError, match="was not made durable"):
        append(table, 1)
    disk.failing = ""
    write_deltalake(table, pa.table({"v": ["another's"]}, schema=SCHEMA), mode="append")
    disk.synced.clear()
    file = DeltaFile("1.parquet", os.path.getsize(f"{table}/1.parquet"), 1)
    append_files(table, [file], app_id="app", version=1, schema=SCHEMA)
    assert {f"{1:020d}.json", f"{2:020d}.json", "_delta_log"} <= set(disk.synced)


def test_the_names_of_a_new_table_and_of_the_folders_above_it_are_synced(tmp_path: Path, disk: Disk) -> None:
    create_table(str(tmp_path / "new/folders/table"), SCHEMA)
    names = disk.synced
    assert {tmp_path.name, "new", "folders", "table", f"{0:020d}.json", "_delta_log"} <= set(names)
    assert names.index("folders") < names.index(f"{0:020d}.json") < names.index("_delta_log") < names.index("table")


def test_a_change_of_a_tables_features_is_synced(tmp_path: Path, disk: Disk) -> None:
    table = str(tmp_path / "table")
    create_table(table, SCHEMA)
    disk.synced.clear()
    prepare_schema(table, pa.schema([pa.field("at", pa.timestamp("us"))]))
    assert disk.synced[:2] == [f"{1:020d}.json", "_delta_log"]


def test_what_a_dead_process_left_in_the_log_goes_with_the_next_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "table"
    ensure_table(str(table), SCHEMA, {"delta.checkpointInterval": "2"})
    (table / "_delta_log/.tmp-of-the-dead").write_bytes(b"half")
    os.utime(table / "_delta_log/.tmp-of-the-dead", (1, 1))
    append(str(table), 1)
    assert sorted(file.name for file in (table / "_delta_log").iterdir()) == [
        f"{0:020d}.json",
        f"{1:020d}.checkpoint.parquet",
        f"{1:020d}.json",
        "_last_checkpoint",
    ]


def test_a_table_without_a_usable_hint_gets_its_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "table"
    ensure_table(str(table), SCHEMA, {"delta.checkpointInterval": "3"})
    for version in range(1, 4):
        append(str(table), version)
    (table / "_delta_log/_last_checkpoint").write_bytes(b"")
    for version in range(4, 6):
        append(str(table), version)
    assert b'"version":5' in (table / "_delta_log/_last_checkpoint").read_bytes()
    assert len(live_files(str(table))) == 5


def test_a_later_checkpoint_of_another_stays(tmp_path: Path) -> None:
    table = tmp_path / "table"
    ensure_table(str(table), SCHEMA, {"delta.checkpointInterval": "3"})
    for version in range(1, 6):
        append(str(table), version)
    before = sorted((table / "_delta_log").iterdir())
    write_checkpoint(str(table), 2)
    write_checkpoint(str(table), 5)
    assert sorted((table / "_delta_log").iterdir()) == before
    assert b'"version":5' in (table / "_delta_log/_last_checkpoint").read_bytes()
