"""Checkpoint storages as settings: Flink's defaults and bounds, and which state root they mean."""

from pathlib import Path
from typing import Any

import pytest

from state_engine.api import (
    CheckpointConfig,
    CheckpointStorage,
    DeltaCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.errors import JobDefinitionError
from state_engine.spark import StreamJob


def test_defaults_are_flinks() -> None:
    files, memory = FileSystemCheckpointStorage("file:///tmp/a"), JobManagerCheckpointStorage()
    assert files.get_checkpoint_path() == "file:///tmp/a"
    assert files.get_min_file_size_threshold() == 20 * 1024
    assert FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD == 1024 * 1024
    assert memory.get_checkpoint_path() is None
    assert memory.get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == 5 * 1024 * 1024
    assert {one.get_savepoint_path() for one in (files, memory, DeltaCheckpointStorage())} == {None}
    assert FileSystemCheckpointStorage("a", -1, -1).get_min_file_size_threshold() == 20 * 1024


@pytest.mark.parametrize(
    ("threshold", "given", "buffer"),
    [(None, -1, 20 * 1024), (0, -1, 4096), (0, 10, 10), (100, 10, 100), (1 << 20, 1 << 21, 1 << 21)],
)
def test_the_buffer_holds_what_may_be_inlined(threshold: int | None, given: int, buffer: int) -> None:
    assert FileSystemCheckpointStorage("a", threshold, given).get_write_buffer_size() == buffer


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSystemCheckpointStorage("a", 1024 * 1024 + 1),
        lambda: FileSystemCheckpointStorage("a", -2),
        lambda: FileSystemCheckpointStorage("a", 10, -2),
        lambda: FileSystemCheckpointStorage("a", True),
        lambda: JobManagerCheckpointStorage(max_state_size=0),
    ],
)
def test_sizes_out_of_bounds_are_refused(make: Any) -> None:
    with pytest.raises(JobDefinitionError, match="Give a whole number of bytes"):
        make()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("delta", DeltaCheckpointStorage),
        ("filesystem", FileSystemCheckpointStorage),
        ("memory", JobManagerCheckpointStorage),
        ("jobmanager", JobManagerCheckpointStorage),
        (JobManagerCheckpointStorage(), JobManagerCheckpointStorage),
    ],
)
def test_a_configuration_takes_names_and_instances(given: Any, kind: type[CheckpointStorage]) -> None:
    config = CheckpointConfig()
    assert config.get_checkpoint_storage() is None
    assert config.set_checkpoint_storage(given) is config
    assert isinstance(config.get_checkpoint_storage(), kind)


@pytest.mark.parametrize("given", ["tape", CheckpointStorage(), None])
def test_other_storages_are_refused(given: Any) -> None:
    with pytest.raises(JobDefinitionError, match="There is no checkpoint storage"):
        CheckpointConfig().set_checkpoint_storage(given)


def test_the_root_is_said_once_or_twice_the_same(tmp_path: Path) -> None:
    config = CheckpointConfig().set_checkpoint_storage_dir(tmp_path)
    assert StreamJob("a", checkpoint_config=config).root == str(tmp_path)
    assert StreamJob("a", root=f"file://{tmp_path}/", checkpoint_config=config).root == str(tmp_path)
    bucket = CheckpointConfig().set_checkpoint_storage(JobManagerCheckpointStorage("s3://bucket/state/"))
    assert StreamJob("a", root="s3://bucket/state", checkpoint_config=bucket).root == "s3://bucket/state"
    with pytest.raises(JobDefinitionError, match=r"state root is /elsewhere, and the checkpoint storage is at"):
        StreamJob("a", root="/elsewhere", checkpoint_config=config)
    with pytest.raises(JobDefinitionError, match="no state root"):
        StreamJob("a", checkpoint_config=CheckpointConfig().set_checkpoint_storage("filesystem"))
    with pytest.raises(JobDefinitionError, match="no state root"):
        StreamJob("a")
