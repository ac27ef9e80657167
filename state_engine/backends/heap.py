"""The heap backend: the keyed states of one subtask in the memory of its worker, as dicts or as columns."""

from collections.abc import Callable
from typing import Any

from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.backend import StatesOfOperator, naming
from state_engine.backends.entry_index import ByNamespace
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.shapes.maps import UserKeys
from state_engine.backends.shapes.table import Table
from state_engine.backends.stored_type import StoredType
from state_engine.backends.stores.dicts import DictLists, DictMaps, DictValues
from state_engine.backends.stores.list_runs import ListRuns
from state_engine.backends.stores.map_runs import MapRuns
from state_engine.backends.stores.segments import Segments
from state_engine.backends.stores.value_runs import ValueRuns
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_cleanup import IncrementalCleanup
from state_engine.backends.ttl_rules import TtlRules
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import StateSchema


class HeapStores:
    """Makes stores in memory.

    Args:
        codec: Of the keys.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec

    def values(self, stored: StoredType) -> DictValues:
        """Returns a store of values by entry."""
        return DictValues(self._codec)

    def lists(self, stored: StoredType) -> DictLists:
        """Returns a store of lists by entry."""
        return DictLists(self._codec)

    def maps(self, user_keys: UserKeys, stored: StoredType) -> DictMaps:
        """Returns a store of maps by entry."""
        return DictMaps(self._codec)

    def column_values(self, stored: StoredType) -> Segments:
        """Returns a store of values by columns."""
        return Segments(lambda: ValueRuns(stored.arrow))

    def column_lists(self, stored: StoredType, addressing: ByNamespace) -> Segments:
        """Returns a store of lists by columns."""
        return Segments(ListRuns)

    def column_maps(self, stored: StoredType) -> Segments:
        """Returns a store of maps by columns."""
        return Segments(lambda: MapRuns(stored.arrow))


class HeapKeyedStateBackend(StatesOfOperator):
    """All keyed states of one operator for one key-group range, in memory.

    Args:
        uid: The operator.
        codec: Its keys.
        key_groups: The range that this backend owns.
        context: The current key, shared with the operator.
        time: The operator's clocks, for states with a time to live.
    """

    def __init__(
        self,
        uid: str,
        codec: KeyCodec,
        key_groups: KeyGroupRange,
        context: KeyContext,
        time: OperatorTime | None = None,
    ) -> None:
        super().__init__(uid, codec, key_groups, context, time, HeapStores(codec))

    def resume(self) -> str | None:
        """Returns the token."""
        return self.token

    def start(self, token: str) -> None:
        """Starts with empty stores, as of a manifest. An instance is started once."""
        self.token = token

    def commit(self, token: str) -> None:
        """Records which manifest the stores reflect."""
        self.token = token
        self._forget_keys()

    def release(self) -> None:
        """Does nothing: no other worker can reach this memory."""

    def close(self) -> None:
        """Does nothing: the memory is freed with the instance."""

    def prefetch(self, keys: list[Any]) -> None:
        """Does nothing: everything is in memory."""

    @property
    def rows_in_memory(self) -> int:
        """Rows that count against the worker's memory: all."""
        return self.rows

    def _begin(self, name: str, table: Table, schema: StateSchema) -> None:
        with naming(name):
            for rows in self._log_of(schema, stamped=schema.ttl is not None):
                self._merge(table, schema, rows)
        self._tables[name] = table
        self._schemas[name] = schema

    def _expire(self, name: str, table: Any, config: StateTtlConfig, rules: TtlRules) -> Callable[..., None] | None:
        incremental = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        if incremental is None or not incremental.get_cleanup_size():
            return None
        cleanup = self._cleanups[name] = IncrementalCleanup(table, rules, incremental.get_cleanup_size())
        if incremental.run_cleanup_for_every_record():
            self.context.on_change(cleanup.accessed)
        return cleanup.accessed

    def _drop_expired(self, name: str, table: Any, rules: TtlRules) -> None:
        table.drop_expired(rules.expired)


__all__ = ["HeapKeyedStateBackend", "HeapStores"]
