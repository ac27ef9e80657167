"""State of a subtask as a whole, and what a function is told of checkpoints: Flink's Java API, by its names.

A `CheckpointedFunction` or a `CheckpointListener` is mixed into any function of `api.functions`.
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
    """Gives the operator states of a subtask; the same object for the same name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Returns a list of the subtask's own.

        At another parallelism the lists of all subtasks, one behind the other, are cut into even pieces.
        """

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Returns a list of which every subtask sees the elements of all.

        `add`, `update` and `clear` change the subtask's own elements. `get` gives those of all subtasks in order: its
        own as they are, those of the others as of the newest sealed epoch.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Returns a map that is the same in all subtasks; see `api.broadcast`."""


class FunctionInitializationContext(ABC):
    """What a function may know, and ask for, when an instance of it begins."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Says whether there is a sealed epoch in which this operator ran, so that there may be state."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id that `snapshot_state` was given in the epoch this instance goes on from; None without one."""

    @abstractmethod
    def get_restored_checkpoint_timestamp(self) -> int | None:
        """Returns the processing time (ms) of the epoch that this instance goes on from; None without one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the store of keyed states; without a key, asking it for one is refused."""


class StateInitializationContext(FunctionInitializationContext):
    """A `FunctionInitializationContext` that gives raw state as well. In Flink only operators get it."""

    @abstractmethod
    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """Returns what the last snapshot wrote for each key group of this subtask, ascending; at any parallelism.

        Raises:
            JobDefinitionError: The stream has no key.
        """

    @abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """Returns the subtask's partitions in the order in which they were written.

        At another parallelism the partitions of all subtasks, one behind the other, are cut into even pieces.
        """


class FunctionSnapshotContext(ABC):
    """What a function may know at the end of an epoch."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint that covers this epoch: the one it carries, else the next one.

        So all that was snapshot with an id at or below *n* is covered when `notify_checkpoint_complete(n)` comes.
        """

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns the epoch's processing time, in ms."""

    @abstractmethod
    def get_epoch(self) -> int:
        """Returns the epoch's number."""


class StateSnapshotContext(FunctionSnapshotContext):
    """A `FunctionSnapshotContext` that takes raw state as well. In Flink only operators get it.

    A snapshot is complete: raw state that `snapshot_state` does not write is gone. What it writes again as it was costs
    nothing in the log. Both streams are closed when `snapshot_state` has returned.
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
    """Mixed into a function that keeps something for the subtask as a whole.

    Every sealed epoch can be restored, so `snapshot_state` is called at the end of every epoch, not of every
    checkpoint; and an instance may begin at any epoch, in another worker, also in the middle of a job's life. A
    function must therefore do the same whether it goes on or was made anew from what `snapshot_state` stored: what it
    keeps in fields has to be a copy of its state, or of no consequence.
    """

    @abstractmethod
    def initialize_state(self, context: StateInitializationContext) -> None:
        """Called once for each instance, in front of `open`: asks for states and fills fields from them."""

    @abstractmethod
    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Called at the end of every epoch, behind its last record: stores in states what fields hold."""


class CheckpointListener(ABC):  # noqa: B024 - as in Flink, a listener need not care about both
    """Mixed into a function that wants to know which checkpoints completed.

    It is told with the epoch behind, in front of any timer or record. As in Flink a notification may be left out (the
    job ended or was started again in between), and never takes anything back: a later id covers all earlier ones, and a
    restore stands for the checkpoint it goes on from. What raises fails the job; the checkpoint stays completed.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint has become visible."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when a checkpoint was given up; the next one covers what it would have covered."""


__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "OperatorStateStore",
    "StateInitializationContext",
    "StateSnapshotContext",
]
