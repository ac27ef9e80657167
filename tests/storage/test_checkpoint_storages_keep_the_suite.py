"""The conformance suite, for every checkpoint storage that is shipped."""

from pathlib import Path

import pytest

from state_engine.api import (
    DeltaCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.testing.checkpoint_storage_suite import CheckpointStorageSuite


class TestDelta(CheckpointStorageSuite):
    setting = DeltaCheckpointStorage()
    name = "delta"


class TestPlainTables(CheckpointStorageSuite):
    setting = DeltaCheckpointStorage()
    name = "delta"

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"memory://{tmp_path}"


class TestFileSystem(CheckpointStorageSuite):
    setting = FileSystemCheckpointStorage(file_state_size_threshold=0, write_buffer_size=100)
    name = "filesystem"


class TestFileSystemThatInlines(CheckpointStorageSuite):
    setting = FileSystemCheckpointStorage()
    name = "filesystem"


class TestFileSystemOnAnotherRoot(CheckpointStorageSuite):
    setting = FileSystemCheckpointStorage(file_state_size_threshold=2000)
    name = "filesystem"

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"memory://{tmp_path}"


class TestMemory(CheckpointStorageSuite):
    setting = JobManagerCheckpointStorage()
    name = "memory"
