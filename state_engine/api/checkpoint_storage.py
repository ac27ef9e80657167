"""Where checkpoints keep state, as a job's author names it; PyFlink's classes of the same names.

They are plain settings. What they stand for is in `state_engine.storage`. Whichever is chosen, everything lies below
the job's state root, and any start may choose another one.
"""

import os

from state_engine.errors import JobDefinitionError

DATA_INLINE_THRESHOLD = 20 * 1024
"""Flink's default of `execution.checkpointing.data-inline-threshold`, in bytes."""
MAX_DATA_INLINE_THRESHOLD = 1024 * 1024


class CheckpointStorage:
    """Where checkpoints keep the state that they fold. Epochs are sealed in the same way with each."""

    def __init__(self, checkpoint_path: str | os.PathLike[str] | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else os.fspath(checkpoint_path)

    def get_savepoint_path(self) -> str | None:
        """Returns None: where a savepoint goes is said when it is triggered."""
        return None


class DeltaCheckpointStorage(CheckpointStorage):
    """Delta tables, one per state, which anyone can read with SQL. The default; PyFlink has nothing like it."""

    def __init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "DeltaCheckpointStorage()"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Files of one stream each, in which every key group can be read alone; small ones lie in the checkpoint's record.

    Semantics: Flink's `FileSystemCheckpointStorage`.

    Args:
        checkpoint_path: The state root: a folder or URL; None for what the job has. A job that is given both needs the
            same one.
        file_state_size_threshold: Streams up to so many bytes are stored in the record; -1 or None for 20 KiB.
        write_buffer_size: Bytes that are gathered before a file is opened or written to; at least the threshold, which
            is also what -1 comes to, or 4 KiB if that is more.

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
        """Returns the state root; None if it is said elsewhere."""
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Returns up to how many bytes a stream is stored in the checkpoint's record."""
        return self._threshold if self._threshold >= 0 else DATA_INLINE_THRESHOLD

    def get_write_buffer_size(self) -> int:
        """Returns the size of the write buffer in bytes."""
        return max(self._buffer if self._buffer >= 0 else 4 * 1024, self.get_min_file_size_threshold())

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({self._checkpoint_path!r}, {self.get_min_file_size_threshold()})"


class JobManagerCheckpointStorage(CheckpointStorage):
    """The checkpoint's own record: for jobs with little state, whose checkpoints are then one file each.

    Semantics: Flink's `JobManagerCheckpointStorage`. There the record is in the job manager's memory and, with a path,
    on disk; here it is always durable.

    Args:
        checkpoint_path: The state root, as for `FileSystemCheckpointStorage`; None for what the job has.
        max_state_size: How many bytes a state of an operator may have, at most; None for 5 MiB. A checkpoint of
            more fails with `StateTooLargeError`.

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
        """Returns the state root; None if it is said elsewhere."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Returns how many bytes a state may have."""
        return self._max_state_size

    def __repr__(self) -> str:
        return f"JobManagerCheckpointStorage({self._checkpoint_path!r}, {self._max_state_size})"


def checkpoint_storage_of(given: "CheckpointStorage | str") -> CheckpointStorage:
    """Returns the storage that a job names: `delta`, `filesystem`, `memory` (also `jobmanager`), or an instance.

    Raises:
        JobDefinitionError: There is no such storage.
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
    """Returns the state root that a checkpoint storage names, if it names one."""
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
