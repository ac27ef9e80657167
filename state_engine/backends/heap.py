"""The heap backend: the keyed state of one subtask as Python dicts, columnar at its edges.

It is a cache: it stands for one manifest (its token), is caught up by log rows, and can be thrown away at any time.
The token is invalid (None) while the cache is being changed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from state_engine.api.keys import Keys, Numbers
from state_engine.api.timers import TimeDomain
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.column_timers import ColumnTimerTable
from state_engine.backends.heap_tables import column_methods, heap_table, row_methods, stamped_row_methods
from state_engine.backends.key_numbers import KeyGroups, KeyNumbers
from state_engine.backends.keyed import StateRows
from state_engine.backends.keys import KeyCodec, KeyContext, Namespaced, join_entries, split_entries
from state_engine.backends.migration import migrate, rewritten, sorted_by_group
from state_engine.backends.namespaced_tables import NamespacedTable
from state_engine.backends.namespaced_timers import NamespacedTimerTable
from state_engine.backends.places import NamespaceNumbers, PlacedTable
from state_engine.backends.schemas import TIMERS, check_same, state_schema, timer_schema
from state_engine.backends.stamped_tables import StampedTable
from state_engine.backends.stamps import join_stamps, oldest_access
from state_engine.backends.states import FoldedValue, with_default
from state_engine.backends.tables import HeapTable, LogRows, StateValueError
from state_engine.backends.time import OperatorTime
from state_engine.backends.timers import TimerTable
from state_engine.backends.ttl import ttl_state
from state_engine.backends.ttl_cleanup import ColumnCleanup, IncrementalCleanup
from state_engine.backends.ttl_rules import TtlRules, ttl_rules
from state_engine.causes import shown
from state_engine.errors import RoutingError, YearOutOfRangeError
from state_engine.key_groups import KeyGroupRange
from state_engine.log import ops as log
from state_engine.log.evolution import evolve, is_migrated, reported
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.log.state_ttl import ALL, carry_ttl, forget_unknown
from state_engine.serialization.types import ddl_to_arrow

TableT = TypeVar("TableT", bound=HeapTable)


class HeapKeyedStateBackend:
    """All keyed states of one operator for one key-group range.

    Args:
        uid: The operator.
        codec: Its keys.
        key_groups: The range that this backend owns.
        context: The current key, shared with the operator.
        time: The operator's clocks, for states with a time to live.
    """

    cleans_incrementally = True
    """Whether states with a time to live look for expired values with each access, if their settings say so."""

    def __init__(
        self,
        uid: str,
        codec: KeyCodec,
        key_groups: KeyGroupRange,
        context: KeyContext,
        time: OperatorTime | None = None,
    ) -> None:
        self.uid = uid
        self.codec = codec
        self.key_groups = key_groups
        self.context = context
        self.time = time or OperatorTime()
        self.token: str | None = None
        self.timers_by_columns = False
        self._tables: dict[str, HeapTable] = {}
        self._states: dict[str, Any] = {}
        self._schemas: dict[str, StateSchema] = {}
        self._restored: dict[str, StateSchema] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        self._migrated: dict[str, pa.Table] = {}
        self._cleanups: dict[str, IncrementalCleanup] = {}
        self._numbers = KeyNumbers(codec)
        self._namespaces = NamespaceNumbers()
        self._placed_last: tuple[Numbers, Any, tuple[Numbers, list[Any]]] | None = None
        self._load: StateRows = lambda _: ()
        self._sealed = OperatorTime()

    def resume(self) -> str | None:
        """Returns the token."""
        return self.token

    def start(self, token: str) -> None:
        """Begins with nothing that stands for a manifest. An instance is started once."""
        self.token = token

    def commit(self, token: str) -> None:
        """Says which manifest the base stands for."""
        self.token = token
        self._forget_keys()

    def release(self) -> None:
        """Does nothing: no other worker can reach this memory."""

    def close(self) -> None:
        """Does nothing: whoever lets go of the instance frees its memory."""

    def prefetch(self, keys: list[Any]) -> None:
        """Does nothing: everything is at hand."""

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None) -> None:
        """Says where states that no function has asked for yet can be loaded from, as of the token.

        Args:
            restored: Schemas that the log knows.
            load: Gives the log rows of one state for this backend's key groups, oldest first, with their positions.
            sealed: Processing time and watermark (`settled_time`) of the manifest that the token names. A load drops
                what had expired then, where its time to live asks for that; nothing without it.
        """
        self._restored = {s.name: s for s in restored if s.uid == self.uid and s.kind in ("keyed", "timer")}
        for name in [n for n in self._migrated if self._restored[n].schema_id == self._schemas[n].schema_id]:
            del self._migrated[name]  # an epoch that holds the state in its new type is sealed
        self._load = load
        self._sealed = sealed or OperatorTime(-(1 << 63))

    def state(self, descriptor: StateDescriptor) -> Any:
        """Returns the state of this name, made (and loaded) on the first call.

        Raises:
            DuplicateStateError: The name was used for another type, or another time to live, in this operator.
            StateTypeChangedError: The log has it with a type that cannot become this one.
            StateMigrationError: The function that converts its values failed.
            TtlTimeChangedError: Its time to live goes by another time than that of its rows.
        """
        schema = state_schema(self.uid, self.codec.columns, descriptor)
        known = self._schemas.get(descriptor.name)
        if known is not None:
            check_same(known, schema)
            return self._states[descriptor.name]
        self._descriptors[descriptor.name] = descriptor
        table = self._loaded(self._new_table(descriptor), schema)
        made = self._states[descriptor.name] = with_default(descriptor, self._facade(descriptor, table))
        made.columns = column_methods(descriptor, table, made, self.context, self.time, self.prefetch)
        return made

    def timers(self, domain: TimeDomain) -> TimerTable:
        """Returns the timers of one clock, made (and loaded) on the first call."""
        known = self._tables.get(TIMERS[domain])
        if known is None:
            known = self._loaded(self._new_timers(), timer_schema(self.uid, self.codec.columns, domain))
        assert isinstance(known, TimerTable)
        return known

    def has_timers(self, domain: TimeDomain) -> bool:
        """Says whether there may be timers of a clock, in this backend or in the log."""
        return TIMERS[domain] in self._tables or TIMERS[domain] in self._restored

    def _new_table(self, descriptor: StateDescriptor) -> HeapTable:
        return heap_table(descriptor, self._numbers, self._namespaces)

    def _new_timers(self) -> TimerTable:
        if any(descriptor.few_times for descriptor in self._descriptors.values()):
            return NamespacedTimerTable(self._numbers)
        return ColumnTimerTable(self._numbers, self._namespaces) if self.timers_by_columns else TimerTable()

    def _loaded(self, table: TableT, schema: StateSchema) -> TableT:
        with _named(schema.name):
            for rows in self._log_of(schema, table):
                self._apply(table, rows)
        self._tables[schema.name] = table
        self._schemas[schema.name] = schema
        return table

    def _log_of(self, schema: StateSchema, table: HeapTable) -> Iterator[pa.Table]:
        """Yields the rows that a load of a state applies."""
        restored = self._restored.get(schema.name)
        if restored is not None:
            known = carry_ttl(evolve(restored, schema, ALL), schema, ALL)
            if is_migrated(restored, schema):
                whole = migrate(restored, schema, self._descriptors[schema.name], self._load(restored))
                self._migrated[schema.name] = whole
            for rows in [whole] if is_migrated(restored, schema) else self._load(known):
                yield forget_unknown(rows, known.unknown_until) if table.stamped else rows

    def _facade(self, descriptor: StateDescriptor, table: Any) -> Any:
        config, ttl = descriptor.ttl_config, self._schemas[descriptor.name].ttl
        if config is None or ttl is None:
            return row_methods(descriptor, table, self.context)
        strategies = config.get_cleanup_strategies()
        if strategies.in_full_snapshot():
            self._drop_stamps(table, descriptor.name, ttl_rules(ttl, self._sealed))
        rules, accessed = ttl_rules(ttl, self.time), None
        self._clean_up(table, descriptor.name, config, rules)
        incremental = strategies.get_incremental_cleanup_strategy()
        if self.cleans_incrementally and incremental is not None and incremental.get_cleanup_size():
            by_columns = isinstance(table, StampedTable)
            cleanup = (ColumnCleanup if by_columns else IncrementalCleanup)(
                table, rules, incremental.get_cleanup_size()
            )
            accessed = cleanup.accessed
            self._cleanups[descriptor.name] = cleanup
            if incremental.run_cleanup_for_every_record():
                self.context.on_change(accessed)
        if isinstance(table, StampedTable):
            return stamped_row_methods(descriptor, table, self.context, rules, accessed)
        folds = isinstance(descriptor, ReducingStateDescriptor | AggregatingStateDescriptor)
        original = FoldedValue(table, self.context) if folds else row_methods(descriptor, table, self.context)
        return ttl_state(descriptor, original, rules, accessed)

    def _clean_up(self, table: HeapTable, name: str, config: StateTtlConfig, rules: TtlRules) -> None:
        """Prepares what a backend cleans up between accesses."""

    def _drop_stamps(self, table: HeapTable, name: str, rules: TtlRules) -> None:
        table.drop_stamps(rules.expired)

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the states that were asked for."""
        return tuple(reported(schema, self._restored.get(name)) for name, schema in self._schemas.items())

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of the states as of the token."""
        return tuple(StateStatistics(name=n, rows=t.rows, keys=t.keys) for n, t in self._tables.items())

    @property
    def rows(self) -> int:
        """Live rows over all states."""
        return sum(table.rows for table in self._tables.values())

    @property
    def rows_in_memory(self) -> int:
        """Rows that count against the worker's memory: all."""
        return self.rows

    def freeze(self, processing_time: int) -> list[tuple[StateSchema, pa.Table]]:
        """Turns the overlay of the epoch into change sets, sorted by key group, and keeps it pending.

        Args:
            processing_time: The epoch's, in ms: `last_access` of every row that is there afterwards, where the state
                has no time to live. Rows that remove something have none, nor have timers.

        Raises:
            StateValueError: A value does not fit its state's type; the backend is then only good for `forget`.
            RoutingError: State was written under a key of another subtask; likewise.
        """
        for name, cleanup in self._cleanups.items():
            with _named(name):
                cleanup.run()
        self._placed_last = None
        changes = []
        seq = 0
        for name, table in self._tables.items():
            with _named(name):
                rows = table.freeze()
            schema, parts = self._schemas[name], []
            if name in self._migrated:
                parts.append(rewritten(schema, self._migrated[name], self.key_groups, seq))
                seq += parts[0].num_rows
            if rows is not None:
                parts.append(self._log_table(schema, rows, processing_time, seq))
                seq += len(rows.ops)
            if parts:
                changes.append((schema, parts[0] if len(parts) == 1 else sorted_by_group(parts)))  # each is sorted
        self._placed_last = None
        self._bind()
        return changes

    def _log_table(self, schema: StateSchema, rows: LogRows, processing_time: int, seq: int) -> pa.Table:
        order, placed = self._placed(rows) if rows.numbers is None else self._placed_numbers(rows)
        count = len(order)
        columns, indices = list(placed), cast(Any, pa.array(order))
        if rows.user_keys is not None:
            columns.append(rows.user_keys.take(indices))
        columns.append(rows.values.take(indices))
        columns.append(pa.array(rows.ops[order]))
        columns.append(pa.array(np.arange(seq, seq + count, dtype=np.int64)))
        if rows.times is not None:
            columns.append(rows.times.take(indices))
        else:
            touched = np.full(count, processing_time, dtype=np.int64)
            untouched = np.ones(count, dtype=bool) if schema.kind == "timer" else rows.ops[order] >= log.Op.DELETE
            columns.append(pa.array(touched, mask=untouched))
        return pa.table(columns, schema=log.log_schema(schema, ddl_to_arrow))

    def _placed(self, rows: LogRows) -> "tuple[Numbers, list[Any]]":
        """Returns the order of rows by key group, and in this order their key groups, keys and namespaces."""
        keys, namespaces = split_entries(rows.entries)
        arrays = self.codec.write(keys)
        groups = self._own(self.codec.key_groups(keys, arrays), keys.__getitem__)
        arrays.append(pa.nulls(len(keys), pa.string()) if namespaces is None else pa.array(namespaces, pa.string()))
        order = _by_group(groups)
        indices: Any = pa.array(order)
        return order, [pa.array(groups[order]), *(array.take(indices) for array in arrays)]

    def _placed_numbers(self, rows: LogRows) -> "tuple[Numbers, list[Any]]":
        """As `_placed`. Two states of one function have the same keys in the same order: these are placed once."""
        numbers, namespaces, known = rows.numbers, rows.namespaces, self._placed_last
        if known is None or not (np.array_equal(known[0], numbers) and known[1].equals(namespaces)):
            groups = self._own(self._numbers.groups[numbers], lambda at: self._numbers.entries[numbers[at]])
            order = _by_group(groups)
            texts = namespaces.take(pa.array(order)).cast(pa.string())
            columns = [pa.array(groups[order]), *self._numbers.columns(numbers[order]), texts]
            known = self._placed_last = numbers, namespaces, (order, columns)
        return known[2]

    def _own(self, groups: KeyGroups, key_at: Callable[[int], Any]) -> KeyGroups:
        """Returns the key groups of rows, if all are those of the subtask."""
        first, last = self.key_groups
        strange = np.flatnonzero((groups < first) | (groups > last))
        if len(strange):
            at = int(strange[0])
            raise RoutingError(
                f"Operator {self.uid!r} wrote state of key {shown(key_at(at))}, whose key group {groups[at]} "
                f"does not belong to its subtask (key groups {first} to {last}).",
                action="Let the engine alone set the current key. If it did, Spark and Python hash this key "
                "differently; report it with the key's type.",
            )
        return groups

    def settle(self) -> None:
        """Moves the pending changes into the base: the manifest that names them is sealed."""
        self.token = None
        for table in self._tables.values():
            table.settle()
        self._bind()

    def forget(self) -> None:
        """Drops overlay and pending changes: the attempt failed, or another one was sealed."""
        for table in self._tables.values():
            table.forget()
        for cleanup in self._cleanups.values():
            cleanup.expect_old()
        self._bind()

    def lacks(self, name: str) -> bool:
        """Says whether a state that was asked for is still to be loaded."""
        return False

    def apply(self, name: str, rows: pa.Table) -> None:
        """Applies log rows of one state, in order. A state that nobody asked for is loaded when somebody does."""
        self.token = None
        table = self._tables.get(name)
        if table is not None:
            self._apply(table, rows)

    def _apply(self, table: HeapTable, rows: pa.Table) -> None:
        for piece in _between_resets(rows):
            if isinstance(piece, int):
                self._drop_group(table, piece)
                continue
            columns: list[Any] = [piece.column(c.name) for c in self.codec.columns]
            namespaces: Any = piece.column(log.NAMESPACE)
            user_keys: Any = piece.column(log.USER_KEY) if log.USER_KEY in piece.column_names else None
            values: Any = piece.column(log.VALUE)
            ops = piece.column(log.OP).to_numpy()
            if table.stamped:
                times: Any = piece.column(log.LAST_ACCESS)
                values = join_stamps(values, times)
                table.oldest = min(table.oldest, oldest_access(times, ops))
            if isinstance(table, NamespacedTable):
                keys = Keys([column.combine_chunks() for column in columns], self.codec.read)
                numbers = self._numbers.of_each(keys)[keys.codes]
                values = values if table.stamped else values.combine_chunks()
                table.apply_numbers(numbers, namespaces.combine_chunks(), ops, values, user_keys)
                continue
            there = namespaces.null_count < len(namespaces)
            entries = join_entries(self.codec.read(columns), namespaces.to_pylist() if there else None)
            table.apply(entries, ops, values, user_keys)

    def _drop_group(self, table: HeapTable, key_group: int) -> None:
        if isinstance(table, NamespacedTable):
            table.drop_keys(self._numbers.groups == key_group)
        else:
            table.drop_entries(partial(self._lies_in, key_group))

    def _lies_in(self, key_group: int, entry: Any) -> bool:
        return self.codec.key_group(entry.key if type(entry) is Namespaced else entry) == key_group

    def _forget_keys(self) -> None:
        """Windows come and go, and so may keys: what no table holds any more loses its number."""
        tables = [table for table in self._tables.values() if isinstance(table, NamespacedTable)]
        rows = sum(table.rows for table in tables)
        new = self._numbers.drop_unused((numbers for table in tables for numbers in table.used()), rows)
        if new is not None:
            for table in tables:
                table.renumber(new)
        placed = [table for table in tables if isinstance(table, PlacedTable)]
        new = self._namespaces.drop_unused(numbers for table in placed for numbers in table.used_namespaces())
        if new is not None:
            for table in placed:
                table.renumber_namespaces(new)

    def _bind(self) -> None:
        for state in self._states.values():
            state.bind()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Says of which state a value is that its type does not admit, or that Python has not."""
    try:
        yield
    except YearOutOfRangeError as error:
        raise YearOutOfRangeError(f"State {name!r}: {error.message}", action=error.action) from None
    except StateValueError as error:
        error.add_note(f"state {name!r}")
        raise


def _between_resets(rows: pa.Table) -> Iterator[pa.Table | int]:
    """Cuts rows at `reset_group` rows, which are given as the key group's number."""
    ops = rows.column(log.OP).to_numpy()
    start = 0
    for index in np.flatnonzero(ops == log.Op.RESET_GROUP).tolist():
        if index > start:
            yield rows.slice(start, index - start)
        yield rows.column(log.KEY_GROUP)[index].as_py()
        start = index + 1
    if start < rows.num_rows:
        yield rows.slice(start)


def _by_group(groups: KeyGroups) -> Numbers:
    return np.argsort(groups.astype(np.uint16), kind="stable")  # a radix sort for 16 bits


__all__ = ["HeapKeyedStateBackend", "StateRows"]
