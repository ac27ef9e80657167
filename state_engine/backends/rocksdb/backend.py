"""The RocksDB backend: the heap backend's tables and states over a database on the worker's disk.

Life, epoch by epoch: `resume` takes the database and says which manifest it stands for; the caller settles or applies
what the log has since, and `commit`s after each manifest; `attach` says where states are loaded from that the
database lacks; records run; `release` lets other workers have the database. All that lies between two commits is
in memory, and one write.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.heap import HeapKeyedStateBackend, TableT
from state_engine.backends.keyed import StateRows
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.rocksdb.bases import Base
from state_engine.backends.rocksdb.cells import Cells, state_range
from state_engine.backends.rocksdb.database import LocalDatabase
from state_engine.backends.rocksdb.store import Changes, StateMeta
from state_engine.backends.rocksdb.tables import rocks_table
from state_engine.backends.rocksdb.timers import TimerLog
from state_engine.backends.rocksdb.ttl_sweep import TtlSweep, sweep_of
from state_engine.backends.tables import HeapTable, ValueTable
from state_engine.backends.time import OperatorTime
from state_engine.backends.timers import TimerTable
from state_engine.backends.ttl_rules import TtlRules
from state_engine.key_groups import KeyGroupRange
from state_engine.log.evolution import evolve, is_migrated, types_of
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import ALL

_LOAD_ROWS = 50_000


class RocksDBKeyedStateBackend(HeapKeyedStateBackend):
    """All keyed states of one operator for one key-group range, in a database.

    Args:
        uid: The operator.
        codec: Its keys.
        key_groups: The range that this backend owns.
        context: The current key, shared with the operator.
        time: The operator's clocks, for states with a time to live.
        database: Where the states lie.
    """

    cleans_incrementally = False  # as in Flink: going through the keys in turn would read the disk all day

    def __init__(
        self,
        uid: str,
        codec: KeyCodec,
        key_groups: KeyGroupRange,
        context: KeyContext,
        time: OperatorTime,
        database: LocalDatabase,
    ) -> None:
        super().__init__(uid, codec, key_groups, context, time)
        self.database = database
        self._loads = True
        self._lacking: set[str] = set()
        self._found: dict[str, StateMeta] = {}
        self._fresh: set[str] = set()
        self._sweeps: dict[str, TtlSweep] = {}
        self._timer_logs: dict[str, TimerLog] = {}

    # Life ----------------------------------------------------------------------------------------------------------

    def resume(self) -> str | None:
        """Takes the database; returns the token it stands for, None if it stands for nothing.

        Raises:
            LocalStateError: There is none and there can be none.
        """
        if self.database.acquire():
            self.token = self.database.store.meta.token
            self._loads = False
            self._lacking, self._found = set(), {}
            for name, table in self._tables.items():
                self._connect(table, self._schemas[name])
        return self.token

    def start(self, token: str) -> None:
        """Begins with an empty database that stands for a manifest; what is there is discarded."""
        self.database.discard()
        store = self.database.store
        store.meta.token = self.token = token
        store.write(Changes())
        self._lacking = set(self._tables)

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None) -> None:
        super().attach(restored, load, sealed)
        self._loads = True
        for name, found in self._found.items():
            if (found.unknown_until, found.types) != (self._unknown_until(name), self._types(name)):
                self._lacking.add(name)  # somebody changed the time to live, or the type, and changed it back
        self._found = {}
        for name in self._tables.keys() - self._migrated.keys():
            if name in self._restored and is_migrated(self._restored[name], self._schemas[name]):
                self._lacking.add(name)  # an earlier attempt converted it, and this one has to write it
        for name in sorted(self._lacking):
            self._load_table(self._tables[name], self._schemas[name])
        self._lacking = set()

    def commit(self, token: str) -> None:
        """Writes all that was settled and applied, and what it stands for now, at once."""
        store, changes = self.database.store, Changes()
        there = {}
        for name, table in self._tables.items():
            if name not in self._lacking:
                self._base(name).write(changes)
                there[name] = self._meta(table, self._schemas[name])
        # States that no function has asked for here were not caught up.
        changes.ranges.extend(state_range(s.number) for name, s in store.meta.states.items() if name not in there)
        store.meta.states = there
        store.meta.token = token
        store.write(changes)
        self.token = token
        self._forget_keys()

    def release(self) -> None:
        """Lets other workers have the database."""
        self.database.release()

    def close(self) -> None:
        """Closes the database."""
        self.database.close()

    @property
    def rows_in_memory(self) -> int:
        """Rows that count against the worker's memory: timers."""
        return sum(table.rows for table in self._tables.values() if isinstance(table, TimerTable))

    def prefetch(self, keys: list[Any]) -> None:
        """Reads at once what records with these keys are likely to ask for."""
        distinct = list(dict.fromkeys(keys))
        for name in self._tables:
            self._base(name).prefetch(distinct)

    # States --------------------------------------------------------------------------------------------------------

    def _new_table(self, descriptor: StateDescriptor) -> HeapTable:
        return rocks_table(descriptor, self.database, self._cells, self._numbers)

    def _cells(self) -> Cells:
        return Cells(0, self.codec)

    def _loaded(self, table: TableT, schema: StateSchema) -> TableT:
        self._tables[schema.name] = table
        self._schemas[schema.name] = schema
        if isinstance(table, TimerTable):
            self._timer_logs[schema.name] = TimerLog(self.database, self._cells(), schema)
        self._connect(table, schema)
        return table

    def _base(self, name: str) -> Base | TimerLog:
        """Returns what of a state lies in the database."""
        return self._timer_logs.get(name) or self._tables[name].base  # type: ignore[return-value]

    def _connect(self, table: HeapTable, schema: StateSchema) -> None:
        """Lets a table stand on what the database has of it, or has it loaded, now or with the next `attach`."""
        found = self.database.store.meta.states.get(schema.name)
        base = self._base(schema.name)
        if found is not None and found.form == base.form and self._serves(found, schema):
            self._found[schema.name] = found
            base.abandon()
            base.cells.number = found.number
            if isinstance(table, TimerTable):
                table.empty()
                for rows in self._timer_logs[schema.name].read():
                    self._apply(table, rows)
            else:
                table.rows = found.rows
                base.live = found.keys
                if schema.name in self._sweeps:
                    self._sweeps[schema.name].cursor = found.cursor
        elif self._loads:
            self._load_table(table, schema)
        else:
            self._lacking.add(schema.name)

    def _load_table(self, table: HeapTable, schema: StateSchema) -> None:
        """Loads a state from the log, piece by piece, under a number that is named when it is there as a whole."""
        store, base = self.database.store, self._base(schema.name)
        base.cells.number = store.begin_load(schema.name)
        base.abandon()
        if isinstance(table, TimerTable):
            table.empty()
        else:
            table.rows = base.live = 0
        for rows in self._log_of(schema, table):
            for start in range(0, rows.num_rows, _LOAD_ROWS):
                piece, changes = rows.slice(start, _LOAD_ROWS), Changes()
                self._apply(table, piece)
                if isinstance(base, TimerLog):
                    base.stage(piece)
                base.write(changes)
                store.load(changes)
                self._forget_keys()
        self._fresh.add(schema.name)
        store.end_load(schema.name, self._meta(table, schema))

    def _serves(self, found: StateMeta, schema: StateSchema) -> bool:
        """Whether a state of the database is the one that is asked for; without a manifest `attach` looks again."""
        if (found.schema_id, found.ttl) != (schema.schema_id, schema.ttl):
            return False
        restored = self._restored.get(schema.name) if self._loads else None
        return restored is None or (found.types == self._types(schema.name) and not is_migrated(restored, schema))

    def lacks(self, name: str) -> bool:
        return name in self._lacking

    def _meta(self, table: HeapTable, schema: StateSchema) -> StateMeta:
        base, found = self._base(schema.name), self._found.get(schema.name)
        single = isinstance(table, ValueTable)
        unknown_until = self._unknown_until(schema.name) if found is None else found.unknown_until
        types = self._types(schema.name) if found is None else found.types
        rows, keys = table.rows, table.keys
        cursor = self._sweeps[schema.name].cursor if schema.name in self._sweeps else b""
        return StateMeta(
            schema.schema_id, base.cells.number, rows, keys, single, schema.ttl, unknown_until, types, cursor, base.form
        )

    def _types(self, name: str) -> str:
        """A digest of all types that the values went through."""
        restored = self._restored.get(name)
        types = types_of(self._schemas[name] if restored is None else evolve(restored, self._schemas[name], ALL))
        return hashlib.sha256("\n".join(types).encode()).hexdigest()[:16]

    def _unknown_until(self, name: str) -> int | None:
        restored = self._restored.get(name)
        return None if restored is None else restored.unknown_until

    def _drop_stamps(self, table: HeapTable, name: str, rules: TtlRules) -> None:
        """What the database had already stays until it is read or overwritten: it costs a walk over all of it."""
        if name in self._fresh:
            super()._drop_stamps(table, name, rules)

    def freeze(self, processing_time: int) -> list[tuple[StateSchema, pa.Table]]:
        self.database.store.check()  # a function may have caught the error and gone on with less than there is
        for sweep in self._sweeps.values():
            sweep.run()
        changes = super().freeze(processing_time)
        for schema, rows in changes:
            if schema.name in self._timer_logs:
                self._timer_logs[schema.name].freeze(rows)
        return changes

    def _clean_up(self, table: HeapTable, name: str, config: StateTtlConfig, rules: TtlRules) -> None:
        strategy = config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
        if strategy is not None and strategy.get_query_time_after_num_entries() > 0:
            size = strategy.get_query_time_after_num_entries()
            sweep = self._sweeps[name] = sweep_of(table, rules, size, self.key_groups)
            found = self.database.store.meta.states.get(name)
            sweep.cursor = found.cursor if found is not None and name not in self._fresh else b""

    def settle(self) -> None:
        for name in self._lacking:
            self._tables[name].forget()  # they will be loaded as of a later manifest
        super().settle()
        for name, own in self._timer_logs.items():
            for rows in own.settle():
                self._apply(self._tables[name], rows)

    def forget(self) -> None:
        super().forget()
        for own in self._timer_logs.values():
            own.forget()

    def apply(self, name: str, rows: pa.Table) -> None:
        if name not in self._lacking:
            super().apply(name, rows)
            if name in self._timer_logs:
                self._timer_logs[name].stage(rows)

    def _drop_group(self, table: HeapTable, key_group: int) -> None:
        if isinstance(table, TimerTable):
            super()._drop_group(table, key_group)
        else:
            table.drop_group(key_group)  # type: ignore[attr-defined]


__all__ = ["RocksDBKeyedStateBackend"]
