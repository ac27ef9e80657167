"""A commit that another application's commit overtakes is decided anew, and reports the version that it made."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from state_engine.storage import delta
from state_engine.storage.delta import DeltaFile, append_files, ensure_table
from state_engine.storage.local import LocalStorage
from state_engine.storage.parquet import write_parquet

SCHEMA = pa.schema([pa.field("key_group", pa.int32(), nullable=False), pa.field("v", pa.string())])


def test_the_version_of_a_commit_is_the_one_that_has_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs alone would silently move the commit after the other one: we would fsync the wrong log entry."""
    path = str(tmp_path / "state")
    ensure_table(path, SCHEMA)

    def append(name: str, app_id: str) -> int:
        rows = pa.table({"key_group": pa.array([0], pa.int32()), "v": [app_id]}, schema=SCHEMA)
        written = write_parquet(LocalStorage(path), name, rows)
        file = DeltaFile(name, written.length, written.rows, written.statistics, 1_700_000_000_000)
        return append_files(path, [file], app_id=app_id, version=1, schema=SCHEMA)

    load, loads = delta._load, 0

    def load_and_be_overtaken(path: str) -> DeltaTable:
        nonlocal loads
        handle, loads = load(path), loads + 1
        if loads == 1:
            assert append("other.parquet", "other") == 1
        return handle

    monkeypatch.setattr(delta, "_load", load_and_be_overtaken)
    assert append("mine.parquet", "mine") == 2
    assert pa.table(DeltaTable(path, version=2).get_add_actions()).num_rows == 2
    assert pa.table(DeltaTable(path, version=1).get_add_actions()).num_rows == 1
