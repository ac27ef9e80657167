"""What a keyed state backend does: the port between the runtime, which drives it, and heap or RocksDB behind it.

A backend is a cache. It stands for one manifest, its *token*, or for nothing. The life of an instance:

```
resume ── token ──> settle, or apply; commit     for each manifest since the token
   │                                │
   └─ None ───────> start           └─────────> attach ──> open the function ──> records ──> freeze ──> release
```
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.timers import TimeDomain
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.layout import Layout
from state_engine.backends.shapes.timers import TimerTable
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import StateSchema, StateStatistics

StateRows = Callable[[StateSchema], Iterable[pa.Table]]


class KeyedStateBackend(Protocol):
    """All keyed states of one operator for one key-group range.

    Attributes:
        uid: The operator.
        timers_by_columns: Whether its function gets the timers that are due together; set before any is asked for.
    """

    uid: str
    timers_by_columns: bool

    @property
    def key_groups(self) -> KeyGroupRange:
        """The range that this backend owns."""
        ...

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the states that were asked for."""
        ...

    @property
    def rows(self) -> int:
        """Live rows over all states."""
        ...

    @property
    def rows_in_memory(self) -> int:
        """Those that count against the worker's memory between epochs."""
        ...

    # Following the log ---------------------------------------------------------------------------------------------

    def resume(self) -> str | None:
        """Takes up the base and returns the token; None if it stands for nothing.

        Raises:
            LocalStateError: There is no place for a base.
        """
        ...

    def start(self, token: str, /) -> None:
        """Begins with nothing, which stands for a manifest; states are loaded with `attach`, or when asked for."""
        ...

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None, /) -> None:
        """Says where states that are not there can be loaded from, as of the token; called before records.

        Args:
            restored: Schemas that the log knows.
            load: Gives the log rows of one state for this backend's key groups, oldest first, with their positions.
            sealed: Processing time and watermark of the manifest that the token names. A load drops what had expired
                then, where its time to live asks for that; nothing without it.
        """
        ...

    def settle(self) -> None:
        """Moves the pending changes into the base: the manifest that names them is sealed."""
        ...

    def lacks(self, name: str, /) -> bool:
        """Says whether a state that was asked for will be loaded with `attach`: rows in front of it do not matter."""
        ...

    def apply(self, name: str, rows: pa.Table, /) -> None:
        """Applies log rows of one state, in order. A state that nobody asked for is loaded when somebody does."""
        ...

    def commit(self, token: str, /) -> None:
        """Says which manifest the base stands for, with all that was settled and applied."""
        ...

    # An epoch ------------------------------------------------------------------------------------------------------

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES, /) -> Any:
        """Returns the state of this name, made (and loaded) on the first call.

        Args:
            descriptor: Of the state.
            layout: How it will be asked; the first call counts.

        Raises:
            DuplicateStateError: The name was used for another type, or another time to live, in this operator.
            StateTypeChangedError: The log has it with a type that cannot become this one.
            StateMigrationError: The function that converts its values failed.
            TtlTimeChangedError: Its time to live goes by another time than that of its rows.
        """
        ...

    def timers(self, domain: TimeDomain, /) -> TimerTable:
        """Returns the timers of one clock, made on the first call."""
        ...

    def has_timers(self, domain: TimeDomain, /) -> bool:
        """Says whether there may be timers of a clock, in this backend or in the log."""
        ...

    def prefetch(self, keys: list[Any], /) -> None:
        """Is told the keys of the records that come next."""
        ...

    def freeze(self, processing_time: int, /) -> list[tuple[StateSchema, pa.Table]]:
        """Turns what the epoch wrote into change sets, sorted by key group, and keeps it pending.

        Args:
            processing_time: The epoch's, in ms: `last_access` of every row that is there afterwards, where the state
                has no time to live.

        Raises:
            StateValueError: A value does not fit its state's type; the backend is then only good for `forget`.
            RoutingError: State was written under a key of another subtask; likewise.
            LocalStateError: What was read cannot be relied on.
        """
        ...

    def forget(self) -> None:
        """Drops what the epoch wrote and what is pending: the attempt failed, or another one was sealed."""
        ...

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of the states as of the token."""
        ...

    def release(self) -> None:
        """Says that the task is over; another worker may take the base before the next `resume`."""
        ...

    def close(self) -> None:
        """Lets go of everything; what lies on disk stays for others."""
        ...


MakeBackend = Callable[[str, KeyCodec, KeyGroupRange, KeyContext, OperatorTime], KeyedStateBackend]
"""Makes an empty backend of (uid, codec, key groups, context, the operator's clocks)."""


__all__ = ["KeyedStateBackend", "MakeBackend", "StateRows"]
