"""Raw state: bytes that a function writes and reads itself; Flink's Java API, under its names.

Lakestate only knows the key group or the partition to which the bytes belong.
"""

import io
from abc import abstractmethod
from typing import BinaryIO


class KeyedStateCheckpointOutputStream(io.BufferedIOBase):
    """The stream to which a function writes a subtask's raw keyed state in a snapshot, key group by key group.

    It is a binary file object: whatever writes to files (`struct`, `io.TextIOWrapper`, `gzip`, Arrow's IPC) can write
    to it. `close` does nothing, since the engine closes the stream after `snapshot_state` returns. Flush any wrapper
    around it before `snapshot_state` returns.
    """

    NO_CURRENT_KEY_GROUP = -1
    """What `get_current_key_group` returns before the first key group was started."""

    @abstractmethod
    def start_new_key_group(self, key_group_id: int) -> None:
        """Starts a key group and finishes the previous one. A key group without bytes is stored as empty.

        Raises:
            RawStateError: It does not belong to the subtask, or was started before, or the stream is closed.
        """

    @abstractmethod
    def get_key_group_list(self) -> range:
        """Returns the key groups that may be written: those of the subtask, ascending."""

    @abstractmethod
    def is_key_group_already_started(self, key_group_id: int) -> bool:
        """Returns whether a key group was started."""

    @abstractmethod
    def is_key_group_already_finished(self, key_group_id: int) -> bool:
        """Returns whether a key group was started, and another one after it."""

    @abstractmethod
    def get_current_key_group(self) -> int:
        """Returns the key group that `write` goes to, or `NO_CURRENT_KEY_GROUP`."""


class OperatorStateCheckpointOutputStream(io.BufferedIOBase):
    """The stream to which a function writes a subtask's raw operator state in a snapshot, partition by partition.

    At another parallelism whole partitions are distributed to subtasks, as the elements of a list state are. Otherwise
    it works as `KeyedStateCheckpointOutputStream`.
    """

    @abstractmethod
    def start_new_partition(self) -> None:
        """Starts a partition and finishes the previous one. A write without this call starts the first partition.

        Raises:
            RawStateError: The stream is closed.
        """

    @abstractmethod
    def get_number_of_partitions(self) -> int:
        """Returns the number of partitions that were started."""


class StatePartitionStreamProvider:
    """A partition of restored raw state.

    Args:
        stream: Its bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def get_stream(self) -> BinaryIO:
        """Returns the partition's bytes as a stream that ends with the partition; always the same stream."""
        return self._stream


class KeyGroupStatePartitionStreamProvider(StatePartitionStreamProvider):
    """The restored raw keyed state of a key group.

    Args:
        stream: Its bytes.
        key_group_id: The key group.
    """

    def __init__(self, stream: BinaryIO, key_group_id: int) -> None:
        super().__init__(stream)
        self._key_group_id = key_group_id

    def get_key_group_id(self) -> int:
        """Returns the key group."""
        return self._key_group_id


__all__ = [
    "KeyGroupStatePartitionStreamProvider",
    "KeyedStateCheckpointOutputStream",
    "OperatorStateCheckpointOutputStream",
    "StatePartitionStreamProvider",
]
