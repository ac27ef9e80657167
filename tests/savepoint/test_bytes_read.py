"""A restore at another parallelism reads its key groups, and no more than the row groups that contain them."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import start

from state_engine.key_groups import range_of
from state_engine.savepoint import trigger_savepoint
from state_engine.storage.open import open_storage
from state_engine.storage.parquet import encode_parquet
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.changes import put
from state_engine.testing.counting import CountingStorage
from state_engine.testing.sample_jobs import COUNT, sample_job

KEYS = 4_000
GROUPS = 13
FOOTER = 64 << 10  # Arrow fetches this much at once from the end of a file


@pytest.fixture
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Segment:
    """A job that began with a canonical savepoint: one file, a row group per key group."""
    row_groups: Any = partial(encode_parquet, codec="none", target_rows=1)
    monkeypatch.setattr("state_engine.storage.delta_access.encode_parquet", lambda table, codec: row_groups(table))
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    job = sample_job(old)
    job.epoch({("aircraft", "count"): [put(f"N{number:07d}" + "x" * 200, number) for number in range(KEYS)]})
    savepoint = trigger_savepoint(old, "flights", kind="canonical", directory=str(tmp_path / "backup"))
    head = start(new, "copy", savepoint.directory, parallelism=4)
    assert head.base is not None
    storage = open_storage(new, "copy")
    return Segment(storage, read_base(storage, head.base), ())


@pytest.mark.parametrize("parallelism", [1, 2, 4, 13])
def test_each_subtask_reads_its_part(restored: Segment, parallelism: int) -> None:
    assert restored.base is not None
    [file] = restored.base.files
    assert len(file.row_groups) == GROUPS
    rows = read = 0
    for subtask in range(parallelism):
        groups = range_of(subtask, parallelism, GROUPS)
        counting = CountingStorage(restored.storage)
        live = load_groups([restored._replace(storage=counting)], COUNT, groups.first, groups.last)
        share = live.num_rows / KEYS
        assert set(live["key_group"].to_pylist()) == set(range(groups.first, groups.last + 1))
        assert set(counting.bytes_read) == {file.path}
        assert counting.total() <= share * file.length * 1.05 + FOOTER
        rows += live.num_rows
        read += counting.total()
    assert rows == KEYS, "no two subtasks read the same rows"
    assert read <= file.length * 1.05 + parallelism * FOOTER


def test_key_groups_that_are_not_needed_are_not_read(restored: Segment) -> None:
    counting = CountingStorage(restored.storage)
    assert restored.base is not None
    for file in restored.base.files:
        assert file.length > 10 * FOOTER
    load_groups([restored._replace(storage=counting)], COUNT, 0, 0)
    assert counting.total() < restored.base.files[0].length / 4
