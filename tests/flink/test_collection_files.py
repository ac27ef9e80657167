"""The file of `from_collection`, which a restore reads again."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state_engine.flink.collections import write_collection

BATCH = pa.record_batch({"v": pa.array([1, 2])})


def test_a_collection_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every later start would treat an empty file of that name as the collection."""
    fsync, seen = os.fsync, []

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        seen.append((os.path.isdir(f"/proc/self/fd/{descriptor}"), len(list(tmp_path.rglob("*.parquet")))))

    monkeypatch.setattr(os, "fsync", watched)
    folder = write_collection(str(tmp_path), "job", 0, BATCH)
    assert (False, 0) in seen, "its content, before it has a name"
    assert seen[-1] == (True, 1), "its name"
    assert write_collection(str(tmp_path), "job", 0, BATCH) == folder
    [file] = folder.iterdir()
    assert pq.read_table(file).column("v").to_pylist() == [1, 2]
