"""A stream on each checkpoint storage: checkpoints, folds, restarts, a rescale while it runs, a restore."""

from pathlib import Path
from typing import Any

import pytest
from support import (
    Input,
    assert_counts,
    assert_tally,
    count_job,
    counted,
    newest,
    outputs,
    run_all,
    state_of,
    tally_job,
    wait_for,
    with_epochs,
)

from state_engine.api import CheckpointConfig, FileSystemCheckpointStorage, JobManagerCheckpointStorage
from state_engine.errors import CheckpointFailuresError
from state_engine.inspect import open_job
from state_engine.log.records import Base
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import read_base

pytestmark = pytest.mark.spark

STORAGES: dict[str, Any] = {
    "delta": "delta",
    "filesystem": FileSystemCheckpointStorage(file_state_size_threshold=256),
    "memory": "memory",
}


def config(storage: str, interval: int = 50) -> CheckpointConfig:
    return CheckpointConfig().set_checkpoint_interval(interval).set_checkpoint_storage(STORAGES[storage])


def completed(root: Path, job: str) -> list[Any]:
    return [row for row in open_job(str(root), job).checkpoints() if row.status == "completed"]


def base_of(root: Path, job: str, row: Any = None) -> Base:
    return read_base(open_storage(str(root), job), (row or completed(root, job)[-1]).base)


@pytest.mark.long  # `checkpoint/test_publish_to_storages.py` publishes to each; the next test restores from one
@pytest.mark.parametrize(
    "storage",
    ["filesystem", pytest.param("delta", marks=pytest.mark.long), pytest.param("memory", marks=pytest.mark.long)],
)
def test_checkpoints_restarts_and_rescales(spark: Any, tmp_path: Path, started: Any, storage: str) -> None:
    root, sinks, source = tmp_path / "root", outputs(tmp_path / "out"), Input(tmp_path / "in").add_many(2)

    def job() -> Any:
        stream = source.stream(spark)
        return tally_job(stream, root, "shapes", sinks, max_parallelism=13, checkpoint_config=config(storage))

    client = with_epochs(started(job().start(trigger_interval_ms=50)), 2, of_input=True)
    wait_for(lambda: completed(root, "shapes"), "a checkpoint")
    assert client.rescale({"tally": 4, "totals": 1}).result(60)
    source.add_many(2)
    with_epochs(client, 4, of_input=True)
    client.trigger_checkpoint().result(60)
    client.stop()

    base = base_of(root, "shapes")
    assert base.storage == storage
    kinds = {(file.format, file.inlined is not None) for file in base.files}
    assert (
        kinds
        == {
            "delta": {("parquet", False)},
            "filesystem": {("stream", False)},
            "memory": {("stream", True)},
        }[storage]
    )
    tables = [path.parent for path in (root / "shapes").glob("*/*/_delta_log")]
    assert bool(tables) == (storage == "delta")

    source.add_many(1)
    run_all(job())  # its manifests adopt a base
    adopted = newest(root, "shapes").base
    assert adopted is not None
    for path in (root / "shapes" / "_epochs" / "g000001" / "changes").iterdir():
        if int(path.name[1:11]) <= adopted.epoch:
            path.unlink()  # files from before the base are not read any more
    source.add_many(1)
    run_all(job(), parallelism=3)
    assert_tally(root, "shapes", sinks, source.all)


@pytest.mark.parametrize("storage", ["memory", pytest.param("filesystem", marks=pytest.mark.long)])
def test_a_restore_from_a_checkpoint(spark: Any, tmp_path: Path, started: Any, storage: str) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(2)

    def job() -> Any:
        return count_job(source.stream(spark), root, "restored", checkpoint_config=config(storage, 3_600_000))

    client = with_epochs(started(job().start(trigger_interval_ms=50)), 2, of_input=True)
    checkpoint = client.trigger_checkpoint().result(60)
    source.add_many(2)
    with_epochs(client, 4, of_input=True)
    client.stop()
    client = started(job().start(restore=f"checkpoint:{checkpoint}", parallelism=3, keep_output=True))
    wait_for(lambda: sum(epoch.records for epoch in client.epochs) >= 120, "the records after the checkpoint")
    client.stop()
    expected = {k: times for _, k, times in counted(source.all)}
    assert state_of(root, "restored", "count", "count") == expected


@pytest.mark.long
def test_a_job_moves_from_storage_to_storage(spark: Any, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in")
    for storage in ("delta", "filesystem", "memory", "delta"):
        source.add_many(2)  # the first epoch may come before the interval has passed
        run_all(count_job(source.stream(spark), root, "moving", checkpoint_config=config(storage, 10)))
        assert base_of(root, "moving").storage == storage
    assert_counts(root, "moving", source.all)


@pytest.mark.long  # `checkpoint/test_publish_to_storages.py`
def test_memory_refuses_what_is_too_large_and_loses_nothing(spark: Any, tmp_path: Path, started: Any) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    small = CheckpointConfig().set_checkpoint_interval(10)
    small.set_checkpoint_storage(JobManagerCheckpointStorage(max_state_size=500))
    client = started(count_job(source.stream(spark), root, "large", checkpoint_config=small).start())
    wait_for(lambda: client.state == "FAILED", "the failure")
    with pytest.raises(CheckpointFailuresError, match="more than the 500 that the checkpoint storage 'memory' takes"):
        client.await_termination()
    source.add_many(1)
    larger = CheckpointConfig().set_checkpoint_storage(JobManagerCheckpointStorage(str(root)))
    client = started(count_job(source.stream(spark), root, "large", checkpoint_config=larger).start())
    with_epochs(client, 1, of_input=True)
    checkpoint = client.trigger_checkpoint().result(60)
    client.stop()
    assert [row.checkpoint_id for row in completed(root, "large")] == [checkpoint]
    assert_counts(root, "large", source.all)
