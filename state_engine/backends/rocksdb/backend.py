"""The RocksDB backend: the keyed states of one subtask in a database on the worker's disk; timers are in memory.

The life of a backend, epoch by epoch:

1. `resume` takes the database and returns the token of the manifest that it reflects.
2. The caller settles or applies what the log has since, and calls `commit` after each manifest.
3. `attach` passes the function that loads the states that the database lacks.
4. Records are processed.
5. `release` lets other workers take the database.

All changes between two commits are kept in memory, and written at once.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.backend import StatesOfOperator, is_stamped
from state_engine.backends.keyed import StateRows
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.rocksdb.bases import StateInDatabase
from state_engine.backends.rocksdb.cells import state_range
from state_engine.backends.rocksdb.database import LocalDatabase
from state_engine.backends.rocksdb.store import Changes, StateMeta
from state_engine.backends.rocksdb.stores import RocksDBStores
from state_engine.backends.rocksdb.timers import TimerLog
from state_engine.backends.rocksdb.ttl_sweep import TtlSweep, sweep_of
from state_engine.backends.shapes.table import ColumnTable, Table
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_rules import TtlRules
from state_engine.key_groups import KeyGroupRange
from state_engine.log.evolution import evolve, is_migrated, types_of
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import ALL

_LOAD_ROWS = 50_000


class RocksDBKeyedStateBackend(StatesOfOperator):
    """All keyed states of one operator for one key-group range, in a database.

    Args:
        uid: The operator.
        codec: Its keys.
        key_groups: The range that this backend owns.
        context: The current key, shared with the operator.
        time: The operator's clocks, for states with a time to live.
        database: Stores the states.
    """

    def __init__(
        self,
        uid: str,
        codec: KeyCodec,
        key_groups: KeyGroupRange,
        context: KeyContext,
        time: OperatorTime,
        database: LocalDatabase,
    ) -> None:
        self._made = RocksDBStores(database, codec)
        super().__init__(uid, codec, key_groups, context, time, self._made)
        self.database = database
        self._loads = True
        self._in_database: dict[str, StateInDatabase] = {}
        self._lacking: set[str] = set()
        self._found: dict[str, StateMeta] = {}
        self._fresh: set[str] = set()
        self._sweeps: dict[str, TtlSweep] = {}

    # Life -------------------------------------------------------------------------------------------------------------

    def resume(self) -> str | None:
        """Takes the database; returns the token of the manifest that it reflects, None if it reflects none.

        Raises:
            LocalStateError: No database can be opened or made.
        """
        if self.database.acquire():
            self.token = self.database.store.meta.token
            self._loads = False
            self._lacking, self._found = set(), {}
            for name in self._tables:
                self._connect(name)
        return self.token

    def start(self, token: str) -> None:
        """Starts with an empty database, as of a manifest; discards the content of an existing one."""
        self.database.discard()
        store = self.database.store
        store.meta.token = self.token = token
        store.write(Changes())
        self._lacking = set(self._tables)

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None) -> None:
        super().attach(restored, load, sealed)
        self._loads = True
        for name, stored in self._found.items():
            if (stored.unknown_until, stored.types) != (self._unknown_until(name), self._types(name)):
                self._lacking.add(name)  # the time to live, or the type, was changed and changed back
        self._found = {}
        for name in self._tables.keys() - self._migrated.keys():
            if name in self._restored and is_migrated(self._restored[name], self._schemas[name]):
                self._lacking.add(name)  # an earlier attempt converted it, and this one has to write it
        for name in sorted(self._lacking):
            self._load_state(name)
        self._lacking = set()

    def commit(self, token: str) -> None:
        """Writes, at once, all that was settled and applied, and the manifest that the database now reflects."""
        store, changes = self.database.store, Changes()
        metas = {}
        for name in self._tables:
            if name not in self._lacking:
                self._in_database[name].write(changes)
                metas[name] = self._meta(name)
        # States that no function has requested here did not catch up.
        changes.ranges.extend(state_range(s.number) for name, s in store.meta.states.items() if name not in metas)
        store.meta.states = metas
        store.meta.token = token
        store.write(changes)
        self.token = token
        self._forget_keys()

    def release(self) -> None:
        """Lets other workers take the database."""
        self.database.release()

    def close(self) -> None:
        """Closes the database."""
        self.database.close()

    @property
    def rows_in_memory(self) -> int:
        """Rows that count against the worker's memory: timers."""
        return sum(table.rows for table in self._timer_tables.values())

    def prefetch(self, keys: list[Any]) -> None:
        """Reads, at once, what records with these keys are likely to need."""
        distinct = list(dict.fromkeys(keys))
        for held in self._in_database.values():
            held.prefetch(distinct)

    # States -----------------------------------------------------------------------------------------------------------

    def _begin(self, name: str, table: Table, schema: StateSchema) -> None:
        self._tables[name] = table
        self._schemas[name] = schema
        held: Any = table
        if schema.kind == "timer":
            self._in_database[name] = TimerLog(self.database, self._made.cells(), schema, held)
        else:
            self._in_database[name] = held.store if isinstance(table, ColumnTable) else held.base
        self._connect(name)

    def _connect(self, name: str) -> None:
        """Connects a state to its cells in the database, or loads it: now, or with the next `attach`."""
        stored, held = self.database.store.meta.states.get(name), self._in_database[name]
        if stored is not None and stored.form == held.form and self._serves(stored, self._schemas[name]):
            self._found[name] = stored
            held.cells.number = stored.number
            held.take(stored)
            if name in self._sweeps:
                self._sweeps[name].cursor = stored.cursor
        elif self._loads:
            self._load_state(name)
        else:
            self._lacking.add(name)

    def _load_state(self, name: str) -> None:
        """Loads a state from the log, piece by piece, under a number that `Meta` names once the state is complete."""
        store, held, schema = self.database.store, self._in_database[name], self._schemas[name]
        held.cells.number = store.begin_load(name)
        held.empty()
        for rows in self._log_of(schema, stamped=is_stamped(self._tables[name])):
            for start in range(0, rows.num_rows, _LOAD_ROWS):
                piece, changes = rows.slice(start, _LOAD_ROWS), Changes()
                self._merge(self._tables[name], schema, piece)
                held.stage(piece)
                held.write(changes)
                store.load(changes)
                self._forget_keys()
        self._fresh.add(name)
        store.end_load(name, self._meta(name))

    def _serves(self, found: StateMeta, schema: StateSchema) -> bool:
        """Returns whether a state of the database is the requested one.

        Before `attach` the types in the log are unknown; `attach` checks them.
        """
        if (found.schema_id, found.ttl) != (schema.schema_id, schema.ttl):
            return False
        restored = self._restored.get(schema.name) if self._loads else None
        return restored is None or (found.types == self._types(schema.name) and not is_migrated(restored, schema))

    def lacks(self, name: str) -> bool:
        return name in self._lacking

    def _meta(self, name: str) -> StateMeta:
        held, stored = self._in_database[name], self._found.get(name)
        table, schema = self._tables[name], self._schemas[name]
        return StateMeta(
            schema_id=schema.schema_id,
            number=held.cells.number,
            rows=table.rows,
            keys=table.keys,
            single=held.one_cell,
            ttl=schema.ttl,
            unknown_until=self._unknown_until(name) if stored is None else stored.unknown_until,
            types=self._types(name) if stored is None else stored.types,
            cursor=self._sweeps[name].cursor if name in self._sweeps else b"",
            form=held.form,
        )

    def _types(self, name: str) -> str:
        """Returns a digest of all types that the values went through."""
        restored = self._restored.get(name)
        types = types_of(self._schemas[name] if restored is None else evolve(restored, self._schemas[name], ALL))
        return hashlib.sha256("\n".join(types).encode()).hexdigest()[:16]

    def _unknown_until(self, name: str) -> int | None:
        restored = self._restored.get(name)
        return None if restored is None else restored.unknown_until

    def _drop_expired(self, name: str, table: Any, rules: TtlRules) -> None:
        # What the database had already stays until it is read or overwritten: dropping it would mean reading all of it.
        if name in self._fresh:
            table.drop_expired(rules.expired)

    def _expire(self, name: str, table: Any, config: StateTtlConfig, rules: TtlRules) -> Callable[..., None] | None:
        # As in Flink, there is no clean-up by access: checking the keys in turn would read the disk all the time.
        strategy = config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
        if strategy is not None and strategy.get_query_time_after_num_entries() > 0:
            size = strategy.get_query_time_after_num_entries()
            sweep = self._sweeps[name] = sweep_of(table, rules, size, self.key_groups)
            stored = self.database.store.meta.states.get(name)
            sweep.cursor = stored.cursor if stored is not None and name not in self._fresh else b""
        return None

    # An epoch ---------------------------------------------------------------------------------------------------------

    def freeze(self, processing_time: int) -> list[tuple[StateSchema, pa.Table]]:
        self.database.store.check()  # a function may have caught the error and continued with incomplete data
        for sweep in self._sweeps.values():
            sweep.run()
        changes = super().freeze(processing_time)
        for schema, rows in changes:
            self._in_database[schema.name].freeze(rows)
        return changes

    def settle(self) -> None:
        for name in self._lacking:
            self._tables[name].forget()  # they will be loaded as of a later manifest
        super().settle()
        for held in self._in_database.values():
            held.settle()

    def forget(self) -> None:
        super().forget()
        for held in self._in_database.values():
            held.forget()

    def apply(self, name: str, rows: pa.Table) -> None:
        if name not in self._lacking:
            super().apply(name, rows)
            if name in self._in_database:
                self._in_database[name].stage(rows)


__all__ = ["RocksDBKeyedStateBackend"]
