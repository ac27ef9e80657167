"""The port of a keyed state backend: the runtime calls it, and heap and RocksDB implement it.

A backend is a cache. It reflects one manifest, named by its *token*, or none. The life of an instance:

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
        timers_by_columns: Whether its function gets all due timers together; set before any timer is requested.
    """

    uid: str
    timers_by_columns: bool

    @property
    def key_groups(self) -> KeyGroupRange:
        """The range that this backend owns."""
        ...

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the requested states."""
        ...

    @property
    def rows(self) -> int:
        """Live rows over all states."""
        ...

    @property
    def rows_in_memory(self) -> int:
        """Live rows that count against the worker's memory between epochs."""
        ...

    # Following the log ---------------------------------------------------------------------------------------------

    def resume(self) -> str | None:
        """Opens the base and returns its token; None if it reflects no manifest.

        Raises:
            LocalStateError: No base can be opened or made.
        """
        ...

    def start(self, token: str, /) -> None:
        """Starts with an empty base, as of a manifest; `attach` loads states, or their first use does."""
        ...

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None, /) -> None:
        """Passes the function that loads missing states, as of the token; called before records are processed.

        Args:
            restored: Schemas that the log contains.
            load: Returns the log rows of one state for this backend's key groups, oldest first, with their positions.
            sealed: Processing time and watermark of the manifest that the token names. A load drops what had expired
                then, if the state's time to live requests that. Without this argument it drops nothing.
        """
        ...

    def settle(self) -> None:
        """Moves the pending changes into the base, now that the manifest that names them is sealed."""
        ...

    def lacks(self, name: str, /) -> bool:
        """Returns whether `attach` will load a requested state; rows before that load do not matter."""
        ...

    def apply(self, name: str, rows: pa.Table, /) -> None:
        """Applies log rows of one state, in order. A state that was not requested yet is loaded on first use."""
        ...

    def commit(self, token: str, /) -> None:
        """Records which manifest the base reflects, with all that was settled and applied."""
        ...

    # An epoch ------------------------------------------------------------------------------------------------------

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES, /) -> Any:
        """Returns the state of this name. The first call makes (and loads) it.

        Args:
            descriptor: Of the state.
            layout: How it will be accessed; the first call counts.

        Raises:
            DuplicateStateError: The name was used for another type, or another time to live, in this operator.
            StateTypeChangedError: The log has it with a type that cannot become this one.
            StateMigrationError: The function that converts its values failed.
            TtlTimeChangedError: Its time to live goes by another time than that of its rows.
        """
        ...

    def timers(self, domain: TimeDomain, /) -> TimerTable:
        """Returns the timers of one clock. The first call makes them."""
        ...

    def has_timers(self, domain: TimeDomain, /) -> bool:
        """Returns whether a clock may have timers, in this backend or in the log."""
        ...

    def prefetch(self, keys: list[Any], /) -> None:
        """Announces the keys of the next records."""
        ...

    def freeze(self, processing_time: int, /) -> list[tuple[StateSchema, pa.Table]]:
        """Turns what the epoch wrote into change sets, sorted by key group, and keeps it pending.

        Args:
            processing_time: The epoch's, in ms: the `last_access` of every row that exists afterwards, if the state has
                no time to live.

        Raises:
            StateValueError: A value does not fit its state's type. Then only `forget` may be called.
            RoutingError: State was written under a key of another subtask. Then only `forget` may be called.
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
        """Ends the task; another worker may take the base before the next `resume`."""
        ...

    def close(self) -> None:
        """Releases everything; files on disk stay for others."""
        ...


MakeBackend = Callable[[str, KeyCodec, KeyGroupRange, KeyContext, OperatorTime], KeyedStateBackend]
"""Makes an empty backend of (uid, codec, key groups, context, the operator's clocks)."""


__all__ = ["KeyedStateBackend", "MakeBackend", "StateRows"]
