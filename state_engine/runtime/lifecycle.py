"""The calls to one instance of a function other than records and timers, in Flink's order.

```
initialize_state ─> open ─┬─> notify_… ─> timers, records ─> [finish] ─> snapshot_state ─┬─> close
                          └──────────────────────── each epoch ──────────────────────────┘
```
"""

import io
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from state_engine.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    OperatorStateStore,
    StateInitializationContext,
    StateSnapshotContext,
)
from state_engine.api.functions import Function, KeyedStateStore, RuntimeContext
from state_engine.api.raw_state import (
    KeyedStateCheckpointOutputStream,
    KeyGroupStatePartitionStreamProvider,
    OperatorStateCheckpointOutputStream,
    StatePartitionStreamProvider,
)
from state_engine.backends.keys import NO_KEY, KeyContext
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.causes import WorkerEndsError, cause_line
from state_engine.errors import LakestateError
from state_engine.iterating import whole
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.co_adapters import CoAdapter
from state_engine.runtime.raw_streams import RawOutputs, no_key
from state_engine.serialization.copies import copied

_log = logging.getLogger(__name__)

Failed = Callable[[BaseException, str], BaseException]


class RestoredFrom(NamedTuple):
    """The sealed epoch that an instance continues from.

    Attributes:
        checkpoint_id: The id that `snapshot_state` got in that epoch; None in logs older than checkpoint ids.
        timestamp: Its processing time, in ms.
    """

    checkpoint_id: int | None
    timestamp: int


class InitializationContext(StateInitializationContext):
    """The argument of `initialize_state`.

    Args:
        restored: The epoch that the instance continues from; None for a first start.
        operator_states: Operator state and raw state of the subtask.
        keyed_states: Keyed state.
        keyed: Whether the operator has a key.
    """

    def __init__(
        self,
        restored: RestoredFrom | None,
        operator_states: OperatorStateBackend,
        keyed_states: KeyedStateStore,
        *,
        keyed: bool,
    ) -> None:
        self._restored = restored
        self._operator_states = operator_states
        self._keyed_states = keyed_states
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored.checkpoint_id if self._restored is not None else None

    def get_restored_checkpoint_timestamp(self) -> int | None:
        return self._restored.timestamp if self._restored is not None else None

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator_states

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed_states

    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        if not self._keyed:
            raise no_key(self._operator_states.uid)
        data_by_group = self._operator_states.raw.keyed()
        return [KeyGroupStatePartitionStreamProvider(io.BytesIO(data), group) for group, data in data_by_group.items()]

    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        return [StatePartitionStreamProvider(io.BytesIO(data)) for data in self._operator_states.raw.partitions()]


class SnapshotContext(StateSnapshotContext):
    """The argument of `snapshot_state`, at the end of an epoch.

    Args:
        checkpoint_id: Id of the checkpoint that covers the epoch.
        epoch: Its number.
        timestamp: Its processing time, in ms.
        raw: Takes raw state.
    """

    def __init__(self, checkpoint_id: int, epoch: int, timestamp: int, raw: RawOutputs) -> None:
        self._checkpoint_id = checkpoint_id
        self._epoch = epoch
        self._timestamp = timestamp
        self._raw = raw

    def get_checkpoint_id(self) -> int:
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self._timestamp

    def get_epoch(self) -> int:
        return self._epoch

    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        return self._raw.keyed

    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        return self._raw.partitions


class LifeCycle:
    """Makes the life cycle calls to one instance of a function.

    Args:
        function: The function that the operator runs; it may wrap the author's.
        keys: The current key; during these calls no key is current.
        failed: Makes the operator's failure from what the author's code raised.
    """

    def __init__(self, function: Function, keys: KeyContext, failed: Failed) -> None:
        self._function = function
        self._authors = authors_function(function)
        self._keys = keys
        self._failed = failed
        self._begun = False

    @property
    def keeps_fields(self) -> bool:
        """Whether the function keeps in fields what it stored: its fields then must not be older than its states."""
        return isinstance(self._authors, CheckpointedFunction)

    def begin(self, context: StateInitializationContext, runtime: RuntimeContext) -> None:
        """Initialises the function's state and opens it."""
        self._begun = True
        if isinstance(self._authors, CheckpointedFunction):
            with self._called("initialize_state()"):
                self._authors.initialize_state(context)
        with self._called("open()"):
            self._function.open(runtime)

    def notify(self, completed: Iterable[int], aborted: Iterable[int]) -> None:
        """Notifies the function of checkpoints that ended."""
        if isinstance(self._authors, CheckpointListener):
            for checkpoint_id in completed:
                with self._called("notify_checkpoint_complete()"):
                    self._authors.notify_checkpoint_complete(checkpoint_id)
            for checkpoint_id in aborted:
                with self._called("notify_checkpoint_aborted()"):
                    self._authors.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> list[Any]:
        """Tells the function that the input has ended; returns its last rows."""
        with self._called("finish()"):
            return [copied(row) for row in whole(self._function.finish() or ())]

    def snapshot(self, context: StateSnapshotContext) -> None:
        """Lets the function store what its fields hold."""
        if isinstance(self._authors, CheckpointedFunction):
            with self._called("snapshot_state()"):
                self._authors.snapshot_state(context)

    def close(self) -> None:
        """Closes the function, once, if it was begun, even if `begin` failed."""
        if self._begun:
            self._begun = False
            self._keys.entry = NO_KEY
            self._function.close()

    def dispose(self, whose: str) -> None:
        """As `close`, but an error that the function raises is logged, and not raised again."""
        try:
            self.close()
        except WorkerEndsError:
            raise
        except BaseException as error:
            _log.warning("close() of %s raised %s", whose, cause_line(error))

    @contextmanager
    def _called(self, what: str) -> Iterator[None]:
        self._keys.entry = NO_KEY
        try:
            yield
        except LakestateError:
            raise
        except BaseException as error:
            raise self._failed(error, f"{what} raised") from error


def authors_function(function: Any) -> Any:
    """Returns the author's function, unwrapped from its adapter if there is one."""
    return function.function if isinstance(function, (Adapter, CoAdapter)) else function


def is_listener(function: Any) -> bool:
    """Returns whether a function is a `CheckpointListener`."""
    return isinstance(authors_function(function), CheckpointListener)


__all__ = [
    "InitializationContext",
    "LifeCycle",
    "RestoredFrom",
    "SnapshotContext",
    "authors_function",
    "is_listener",
]
