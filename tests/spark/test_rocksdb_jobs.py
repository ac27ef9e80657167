"""Jobs with state in RocksDB: workers rotate and share databases; jobs restart, rescale, are restored, lose disks."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from support import Input, assert_counts, assert_tally, count_job, outputs, run_all, tally_job

from state_engine.api import EmbeddedRocksDBStateBackend

pytestmark = pytest.mark.spark


def on(disk: Path) -> EmbeddedRocksDBStateBackend:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(disk))
    backend.get_memory_configuration().set_fixed_memory_per_slot("16mb")
    return backend


@pytest.mark.long  # test_shared_jobs.py has all shapes on both backends
@pytest.mark.parametrize(
    "starts",
    [
        ((2, "rocksdb"), (3, "rocksdb"), (1, "heap")),
        ((2, "rocksdb"), (3, "rocksdb"), (1, "heap"), (3, "rocksdb")),
    ],
    ids=len,
)
def test_all_shapes_over_restarts_at_other_parallelisms_and_backends(
    spark: Any, tmp_path: Path, starts: tuple[tuple[int, str], ...]
) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path)
    source = Input(tmp_path / "in")
    rocks = on(tmp_path / "disk")
    for parallelism, name in starts:
        source.add_many(2, rows=40)
        backend = rocks if name == "rocksdb" else name
        job = tally_job(
            source.stream(spark), root, "tally", sinks, parallelism, max_parallelism=13, state_backend=backend
        )
        run_all(job)
        assert_tally(root, "tally", sinks, source.all)


@pytest.mark.parametrize("epochs", [8, pytest.param(20, marks=pytest.mark.long)])
def test_workers_of_a_host_share_one_database_per_range(spark: Any, tmp_path: Path, epochs: int) -> None:
    root, disk = tmp_path / "root", tmp_path / "disk"
    source = Input(tmp_path / "in").add_many(epochs, rows=30)
    options = {"parallelism": 3, "max_parallelism": 13, "state_backend": on(disk)}
    run_all(count_job(source.stream(spark), root, "sharing", **options))
    assert_counts(root, "sharing", source.all)
    databases = [folder.parent.relative_to(disk) for folder in disk.glob("**/db")]
    assert sorted(str(folder.parent.name) for folder in databases) == ["1.0-4.13", "1.5-8.13", "1.9-12.13"]
    assert {folder.name for folder in databases} == {"0"}, "a worker waited for a database without success"


@pytest.mark.long  # `backends/test_rocksdb_epochs.py` goes back without Spark
@pytest.mark.parametrize(
    "there",
    [("epoch:1/3", "epoch:1/2"), pytest.param(("epoch:1/3", "epoch:1/2", "epoch:2/5"), marks=pytest.mark.long)],
    ids=len,
)
def test_back_to_an_older_epoch_and_on(spark: Any, tmp_path: Path, there: tuple[str, ...]) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(3, rows=30)

    def job() -> Any:
        return count_job(source.stream(spark), root, "back", max_parallelism=13, state_backend=on(tmp_path / "disk"))

    run_all(job())
    for back in there:
        run_all(job(), restore=back)
        assert_counts(root, "back", source.all)


def test_a_disk_that_was_emptied_costs_a_load(spark: Any, tmp_path: Path) -> None:
    root, disk, source = tmp_path / "root", tmp_path / "disk", Input(tmp_path / "in")
    for _ in range(2):
        source.add_many(1, rows=30)
        run_all(count_job(source.stream(spark), root, "emptied", state_backend=on(disk)))
        assert_counts(root, "emptied", source.all)
        shutil.rmtree(disk)
