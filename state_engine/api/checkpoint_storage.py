"""The choice of a checkpoint storage, as a job's author makes it; PyFlink's classes of the same names.

They are plain settings; `state_engine.storage` implements them. With each of them, all files are stored below the
job's state root, and every start may choose another one.
"""

import os

from state_engine.errors import JobDefinitionError

DATA_INLINE_THRESHOLD = 20 * 1024
"""Flink's default of `execution.checkpointing.data-inline-threshold`, in bytes."""
MAX_DATA_INLINE_THRESHOLD = 1024 * 1024


class CheckpointStorage:
    """Where checkpoints store the folded state. The choice does not change how epochs are sealed."""

    def __init__(self, checkpoint_path: str | os.PathLike[str] | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else os.fspath(checkpoint_path)

    def get_savepoint_path(self) -> str | None:
        """Returns None: the path of a savepoint is given when it is triggered."""
        return None


class DeltaCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in Delta tables, one per state, which SQL can read. The default; not in PyFlink."""

    def __init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "DeltaCheckpointStorage()"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in files of one state stream each; small streams are inlined in the checkpoint's record.

    Each key group in a stream can be read alone.

    Semantics: Flink's `FileSystemCheckpointStorage`.

    Args:
        checkpoint_path: The state root: a folder or URL; None for the job's own state root. If both are given, they
            must be the same.
        file_state_size_threshold: Largest stream that is stored in the record, in bytes; -1 or None for 20 KiB.
        write_buffer_size: Number of bytes that are buffered before a file is opened or written to; -1 for 4 KiB. A
            size below the threshold is raised to the threshold.

    Raises:
        JobDefinitionError: The threshold is above 1 MiB, or one of the numbers is below -1.
    """

    MAX_FILE_STATE_THRESHOLD = MAX_DATA_INLINE_THRESHOLD

    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str] | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        super().__init__(checkpoint_path)
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._threshold = _size("file_state_size_threshold", threshold, -1, self.MAX_FILE_STATE_THRESHOLD)
        self._buffer = _size("write_buffer_size", write_buffer_size, -1)

    def get_checkpoint_path(self) -> str | None:
        """Returns the state root; None if it is given elsewhere."""
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Returns the largest size, in bytes, of a stream that is stored in the checkpoint's record."""
        return self._threshold if self._threshold >= 0 else DATA_INLINE_THRESHOLD

    def get_write_buffer_size(self) -> int:
        """Returns the size of the write buffer in bytes."""
        return max(self._buffer if self._buffer >= 0 else 4 * 1024, self.get_min_file_size_threshold())

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({self._checkpoint_path!r}, {self.get_min_file_size_threshold()})"


class JobManagerCheckpointStorage(CheckpointStorage):
    """Stores all state in the checkpoint's record, so that a checkpoint is one file; for jobs with little state.

    Semantics: Flink's `JobManagerCheckpointStorage`. In Flink the record is in the job manager's memory and, with a
    path, on disk; here it is always durable.

    Args:
        checkpoint_path: The state root, as for `FileSystemCheckpointStorage`; None for the job's own state root.
        max_state_size: Maximum size of one state of an operator, in bytes; None for 5 MiB. A checkpoint with a larger
            state fails with `StateTooLargeError`.

    Raises:
        JobDefinitionError: `max_state_size` is not above 0.
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self, checkpoint_path: str | os.PathLike[str] | None = None, max_state_size: int | None = None
    ) -> None:
        super().__init__(checkpoint_path)
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._max_state_size = _size("max_state_size", size, 1)

    def get_checkpoint_path(self) -> str | None:
        """Returns the state root; None if it is given elsewhere."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Returns the maximum size of a state, in bytes."""
        return self._max_state_size

    def __repr__(self) -> str:
        return f"JobManagerCheckpointStorage({self._checkpoint_path!r}, {self._max_state_size})"


def checkpoint_storage_of(given: "CheckpointStorage | str") -> CheckpointStorage:
    """Returns the storage for a name, `delta`, `filesystem` or `memory` (also `jobmanager`), or for an instance.

    Raises:
        JobDefinitionError: This storage does not exist.
    """
    if isinstance(given, (DeltaCheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage)):
        return given
    if given == "delta":
        return DeltaCheckpointStorage()
    if given == "filesystem":
        return FileSystemCheckpointStorage()
    if given in ("memory", "jobmanager"):
        return JobManagerCheckpointStorage()
    raise JobDefinitionError(
        f"There is no checkpoint storage {given!r}.",
        action="Give 'delta', 'filesystem', 'memory', DeltaCheckpointStorage(), FileSystemCheckpointStorage() or "
        "JobManagerCheckpointStorage().",
    )


def path_of(storage: CheckpointStorage | None) -> str | None:
    """Returns the state root that a checkpoint storage was given; None without one."""
    return None if storage is None else storage._checkpoint_path


def _size(what: str, given: int, least: int, most: int | None = None) -> int:
    number: object = given
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or given < least or (most is not None and given > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise JobDefinitionError(f"The {what} is {given!r}.", action=f"Give a whole number of bytes {bounds}.")
    return given


__all__ = [
    "CheckpointStorage",
    "DeltaCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
    "checkpoint_storage_of",
    "path_of",
]
