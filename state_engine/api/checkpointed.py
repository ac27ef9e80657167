"""State of a subtask as a whole, and notifications about checkpoints: Flink's Java API, under its names.

Mix `CheckpointedFunction` or `CheckpointListener` into any function of `api.functions`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from state_engine.api.broadcast import BroadcastState
from state_engine.api.descriptors import ListStateDescriptor, MapStateDescriptor
from state_engine.api.functions import KeyedStateStore
from state_engine.api.raw_state import (
    KeyedStateCheckpointOutputStream,
    KeyGroupStatePartitionStreamProvider,
    OperatorStateCheckpointOutputStream,
    StatePartitionStreamProvider,
)
from state_engine.api.state import ListState


class OperatorStateStore(ABC):
    """Gives access to the operator states of a subtask; returns the same object for the same name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Returns a list that belongs to this subtask.

        At another parallelism the lists of all subtasks are joined in order, and divided into even parts.
        """

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Returns a list in which every subtask sees the elements of all subtasks.

        `add`, `update` and `clear` change the subtask's own elements. `get` returns the elements of all subtasks in
        order: its own as they are now, those of the others as of the newest sealed epoch.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Returns a map that is the same in all subtasks; see `api.broadcast`."""


class FunctionInitializationContext(ABC):
    """Gives a new instance of a function its states, and tells from which epoch it continues."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Returns whether this operator ran in a sealed epoch, so that it may have state."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id that `snapshot_state` got in the epoch from which this instance continues.

        None without such an epoch.
        """

    @abstractmethod
    def get_restored_checkpoint_timestamp(self) -> int | None:
        """Returns the processing time (ms) of the epoch from which this instance continues; None without one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the store of keyed states. On a stream without key, it refuses to return a state."""


class StateInitializationContext(FunctionInitializationContext):
    """A `FunctionInitializationContext` that also gives raw state. In Flink only operators get it."""

    @abstractmethod
    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """Returns what the last snapshot wrote for each key group of this subtask, ascending.

        It does so at any parallelism.

        Raises:
            JobDefinitionError: The stream has no key.
        """

    @abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """Returns the subtask's partitions in the order in which they were written.

        At another parallelism the partitions of all subtasks are joined in order, and divided into even parts.
        """


class FunctionSnapshotContext(ABC):
    """Tells a function, at the end of an epoch, which epoch and checkpoint its snapshot belongs to."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint that covers this epoch: the one it carries, else the next one.

        When `notify_checkpoint_complete(n)` is called, checkpoints cover all snapshots with an id at or below *n*.
        """

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns the epoch's processing time, in ms."""

    @abstractmethod
    def get_epoch(self) -> int:
        """Returns the epoch's number."""


class StateSnapshotContext(FunctionSnapshotContext):
    """A `FunctionSnapshotContext` that also takes raw state. In Flink only operators get it.

    A snapshot is complete: raw state that `snapshot_state` does not write is lost. Raw state that it writes again
    unchanged adds nothing to the log. Both streams are closed after `snapshot_state` returns.
    """

    @abstractmethod
    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        """Returns the stream for bytes by key group; always the same one.

        Raises:
            JobDefinitionError: The stream has no key.
        """

    @abstractmethod
    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        """Returns the stream for bytes of the subtask as a whole; always the same one."""


class CheckpointedFunction(ABC):
    """Mix this into a function that keeps state for the subtask as a whole.

    Every sealed epoch can be restored, so `snapshot_state` is called at the end of every epoch, not only of those with
    a checkpoint. An instance may begin at any epoch, in another worker, also in the middle of a job's life. A function
    must therefore behave the same whether it continues or was created anew from what `snapshot_state` stored. Whatever
    it keeps in fields must be a copy of its state, or have no effect on its results.
    """

    @abstractmethod
    def initialize_state(self, context: StateInitializationContext) -> None:
        """Called once for each instance, before `open`: gets the states, and fills fields from them."""

    @abstractmethod
    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Called at the end of every epoch, after its last record: stores the contents of fields in states."""


class CheckpointListener(ABC):  # noqa: B024 - as in Flink, a listener need not care about both
    """Mix this into a function that needs to know which checkpoints completed.

    The methods are called at the beginning of the epoch after the checkpoint ended, before any timer or record. As in
    Flink, a notification may be missing, because the job ended or was restarted in between. No notification revokes an
    earlier one: a later id covers all earlier ones, and a restore implies that its checkpoint completed. An exception
    in these methods fails the job; the checkpoint stays completed.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint has become visible."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when a checkpoint ended without completing; the next one covers its epochs."""


__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "OperatorStateStore",
    "StateInitializationContext",
    "StateSnapshotContext",
]
