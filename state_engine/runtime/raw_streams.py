"""The streams that take raw state in a snapshot."""

import io
from abc import abstractmethod
from operator import index

from state_engine.api.raw_state import KeyedStateCheckpointOutputStream, OperatorStateCheckpointOutputStream
from state_engine.backends.raw_state import RawWritten
from state_engine.errors import JobDefinitionError, RawStateError
from state_engine.key_groups import KeyGroupRange

MAX_BYTES = 1 << 30
"""The most bytes that one subtask may write to one stream in a snapshot: memory holds them as one Arrow column."""


class _RawOutput(io.BufferedIOBase):
    """Base of both streams: a binary file in parts.

    Args:
        uid: The operator, for messages.
        what: What the stream takes, for messages.
    """

    _ended = False

    def __init__(self, uid: str, what: str) -> None:
        super().__init__()
        self._uid = uid
        self._what = what
        self._size = 0

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        """Whether the snapshot is over."""
        return self._ended

    def close(self) -> None:
        """Does nothing: wrappers close what they wrap, but only the engine knows when the snapshot is over."""

    def flush(self) -> None:
        """Does nothing: nothing is buffered."""

    def write(self, data: object, /) -> int:
        """Appends bytes to the current part, and returns their number.

        Raises:
            RawStateError: No part was started, the stream is closed, or it has more than `MAX_BYTES`.
            TypeError: `data` is not a bytes-like object.
        """
        self._check_open()
        try:
            view = memoryview(data)  # type: ignore[arg-type]
        except TypeError:
            kind = type(data).__name__
            raise TypeError(f"{self._what} takes bytes, not {kind}; encode it, for instance with struct") from None
        if not view.nbytes:
            return 0
        if self._size + view.nbytes > MAX_BYTES:
            raise RawStateError(
                f"Operator {self._uid!r} wrote more than {MAX_BYTES} bytes of {self._what} in one subtask.",
                action="Keep large data in keyed state: only its changes are written. Or raise the parallelism.",
            )
        self._part().write(view)
        self._size += view.nbytes
        return view.nbytes

    @abstractmethod
    def _part(self) -> io.BytesIO:
        """Returns the part that is being written."""

    def _check_open(self) -> None:
        if self._ended:
            raise RawStateError(
                f"Operator {self._uid!r} wrote {self._what} after the end of the snapshot.",
                action="Write only in snapshot_state, and flush any wrapper of the stream there.",
            )


class KeyedOutput(_RawOutput, KeyedStateCheckpointOutputStream):
    """Takes raw keyed state: bytes by key group.

    Args:
        uid: The operator.
        key_groups: The key groups of the subtask.
    """

    def __init__(self, uid: str, key_groups: KeyGroupRange) -> None:
        super().__init__(uid, "raw keyed state")
        self._key_groups = key_groups
        self._parts: dict[int, io.BytesIO] = {}
        self._current = self.NO_CURRENT_KEY_GROUP

    def start_new_key_group(self, key_group_id: int) -> None:
        self._check_open()
        key_group = index(key_group_id)
        first, last = self._key_groups
        if not first <= key_group <= last:
            raise RawStateError(
                f"Operator {self._uid!r} began key group {key_group} in its raw keyed state; its subtask has {first} "
                f"to {last}.",
                action="Write the key groups of get_key_group_list().",
            )
        if key_group in self._parts:
            raise RawStateError(
                f"Operator {self._uid!r} began key group {key_group} twice in the raw keyed state of one snapshot.",
                action="Write all of a key group before you start the next one.",
            )
        self._parts[key_group] = io.BytesIO()
        self._current = key_group

    def get_key_group_list(self) -> range:
        return range(self._key_groups.first, self._key_groups.last + 1)

    def is_key_group_already_started(self, key_group_id: int) -> bool:
        return key_group_id in self._parts

    def is_key_group_already_finished(self, key_group_id: int) -> bool:
        return key_group_id in self._parts and key_group_id != self._current

    def get_current_key_group(self) -> int:
        return self._current

    def _part(self) -> io.BytesIO:
        if self._current == self.NO_CURRENT_KEY_GROUP:
            raise RawStateError(
                f"Operator {self._uid!r} wrote raw keyed state that belongs to no key group.",
                action="Call start_new_key_group() before you write.",
            )
        return self._parts[self._current]

    def end(self) -> dict[int, bytes]:
        """Closes the stream; returns the bytes by key group."""
        self._ended = True
        parts, self._parts = self._parts, {}
        return {key_group: part.getvalue() for key_group, part in parts.items()}


class PartitionsOutput(_RawOutput, OperatorStateCheckpointOutputStream):
    """Takes raw operator state: bytes in partitions.

    Args:
        uid: The operator.
    """

    def __init__(self, uid: str) -> None:
        super().__init__(uid, "raw operator state")
        self._parts: list[io.BytesIO] = []

    def start_new_partition(self) -> None:
        self._check_open()
        self._parts.append(io.BytesIO())

    def get_number_of_partitions(self) -> int:
        return len(self._parts)

    def _part(self) -> io.BytesIO:
        if not self._parts:
            self._parts.append(io.BytesIO())
        return self._parts[-1]

    def end(self) -> list[bytes]:
        """Closes the stream; returns the bytes of each partition."""
        self._ended = True
        parts, self._parts = self._parts, []
        return [part.getvalue() for part in parts]


class RawOutputs:
    """The raw state streams of one snapshot, each created at its first use.

    Args:
        uid: The operator.
        key_groups: The key groups of the subtask; None without key.
    """

    def __init__(self, uid: str, key_groups: KeyGroupRange | None) -> None:
        self._uid = uid
        self._key_groups = key_groups
        self._keyed: KeyedOutput | None = None
        self._partitions: PartitionsOutput | None = None

    @property
    def keyed(self) -> KeyedOutput:
        """The stream of raw keyed state.

        Raises:
            JobDefinitionError: The operator has no key.
        """
        if self._key_groups is None:
            raise no_key(self._uid)
        if self._keyed is None:
            self._keyed = KeyedOutput(self._uid, self._key_groups)
        return self._keyed

    @property
    def partitions(self) -> PartitionsOutput:
        """The stream of raw operator state."""
        if self._partitions is None:
            self._partitions = PartitionsOutput(self._uid)
        return self._partitions

    def end(self) -> RawWritten:
        """Closes both streams; returns their bytes."""
        keyed = self._keyed.end() if self._keyed is not None else {}
        return RawWritten(keyed, self._partitions.end() if self._partitions is not None else [])


def no_key(uid: str) -> JobDefinitionError:
    """Returns the error for raw keyed state on a stream without key."""
    return JobDefinitionError(
        f"Operator {uid!r} asked for raw keyed state, but its stream has no key.",
        action="Call key_by(...) first, or use raw operator state.",
    )


__all__ = ["MAX_BYTES", "KeyedOutput", "PartitionsOutput", "RawOutputs", "no_key"]
