"""Raw state: bytes that a function writes and reads itself; Flink's Java API, by its names.

Lakestate knows of them only to which key group, or to which partition, they belong.
"""

import io
from abc import abstractmethod
from typing import BinaryIO


class KeyedStateCheckpointOutputStream(io.BufferedIOBase):
    """Takes a subtask's raw keyed state in a snapshot, key group by key group.

    A binary file object: what writes to files (`struct`, `io.TextIOWrapper`, `gzip`, Arrow's IPC) can write to it.
    `close` does nothing, since the engine closes it when `snapshot_state` has returned. Flush what is wrapped around it
    until then.
    """

    NO_CURRENT_KEY_GROUP = -1
    """What `get_current_key_group` returns before the first one."""

    @abstractmethod
    def start_new_key_group(self, key_group_id: int) -> None:
        """Begins a key group; the one before is complete. One that nothing is written to is stored as empty.

        Raises:
            RawStateError: It does not belong to the subtask, or was begun before, or the stream is closed.
        """

    @abstractmethod
    def get_key_group_list(self) -> range:
        """Returns the key groups that may be written: those of the subtask, ascending."""

    @abstractmethod
    def is_key_group_already_started(self, key_group_id: int) -> bool:
        """Says whether a key group was begun."""

    @abstractmethod
    def is_key_group_already_finished(self, key_group_id: int) -> bool:
        """Says whether a key group was begun, and another one after it."""

    @abstractmethod
    def get_current_key_group(self) -> int:
        """Returns the key group that `write` goes to, or `NO_CURRENT_KEY_GROUP`."""


class OperatorStateCheckpointOutputStream(io.BufferedIOBase):
    """Takes a subtask's raw operator state in a snapshot, partition by partition; else as the stream of keyed state.

    At another parallelism whole partitions are given to subtasks, as the elements of a list state are.
    """

    @abstractmethod
    def start_new_partition(self) -> None:
        """Begins a partition; the one before is complete. Writing without it begins the first one.

        Raises:
            RawStateError: The stream is closed.
        """

    @abstractmethod
    def get_number_of_partitions(self) -> int:
        """Returns how many partitions were begun."""


class StatePartitionStreamProvider:
    """A partition of restored raw state.

    Args:
        stream: Its bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def get_stream(self) -> BinaryIO:
        """Returns the stream to read the partition from, which ends where the partition does; always the same one."""
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
