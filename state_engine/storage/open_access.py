"""Opens the tables of a job, and the storage of its checkpoints' folds, by its settings and its storage."""

from state_engine.api.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.clock import Ids, RandomIds
from state_engine.storage import port
from state_engine.storage.checkpoint_storage import CheckpointStorageAccess
from state_engine.storage.delta_access import DeltaCheckpointStorageAccess
from state_engine.storage.stream_access import FsCheckpointStorageAccess, MemoryBackedCheckpointStorageAccess
from state_engine.storage.tables import PlainTables, Tables


def open_tables(storage: port.CheckpointStorage) -> Tables:
    """Returns Delta tables, or plain ones where delta-rs cannot write."""
    if storage.url.startswith("memory:"):
        return PlainTables(storage)
    from state_engine.storage.delta_tables import DeltaTables  # imported here: loading delta-rs takes time

    return DeltaTables(storage)


def open_access(
    setting: CheckpointStorage | None,
    storage: port.CheckpointStorage,
    *,
    tables: Tables | None = None,
    ids: Ids | None = None,
) -> CheckpointStorageAccess:
    """Returns the checkpoint storage that a setting selects, below the root of a job.

    Args:
        setting: What the job's author chose; None for Delta tables.
        storage: The bytes of the job.
        tables: Its tables; by default those that suit the storage.
        ids: Make new names.
    """
    ids = ids or RandomIds()
    if isinstance(setting, FileSystemCheckpointStorage):
        threshold, buffer = setting.get_min_file_size_threshold(), setting.get_write_buffer_size()
        return FsCheckpointStorageAccess(storage, ids, threshold=threshold, buffer_size=buffer)
    if isinstance(setting, JobManagerCheckpointStorage):
        return MemoryBackedCheckpointStorageAccess(ids, max_state_size=setting.get_max_state_size())
    return DeltaCheckpointStorageAccess(storage, tables or open_tables(storage))


__all__ = ["open_access", "open_tables"]
