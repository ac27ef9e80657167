"""The code that the heap and the RocksDB backend share: the states of one operator, loaded from and written to the log.

A backend is a cache of the state as of one manifest, which its token names. Rows of the log bring it up to date. It can
be thrown away at any time. The token is None while the cache is being changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.keys import Numbers
from state_engine.api.timers import TimeDomain
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.delta import Delta, deltas
from state_engine.backends.entry_index import ByNamespace, ByPlace, EntryIndex, drop_unused
from state_engine.backends.key_numbers import KeyGroups
from state_engine.backends.keyed import StateRows
from state_engine.backends.keys import KeyCodec, KeyContext, split_entries
from state_engine.backends.layout import Layout, Stores, make_table
from state_engine.backends.made_states import made_state
from state_engine.backends.migration import migrate, rewritten, sorted_by_group
from state_engine.backends.schemas import TIMERS, check_same, state_schema, timer_schema
from state_engine.backends.shapes.column_timers import ColumnTimers
from state_engine.backends.shapes.table import ColumnTable, Table
from state_engine.backends.shapes.timers import EntryTimers, TimerTable
from state_engine.backends.stamps import oldest_access, split_stamps
from state_engine.backends.stored_type import StateValueError, StoredType
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_cleanup import IncrementalCleanup
from state_engine.backends.ttl_rules import TtlRules, ttl_rules
from state_engine.causes import shown
from state_engine.errors import RoutingError, YearOutOfRangeError
from state_engine.key_groups import KeyGroupRange
from state_engine.log import ops as log
from state_engine.log.evolution import evolve, is_migrated, reported
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.log.state_ttl import ALL, carry_ttl, forget_unknown
from state_engine.serialization.types import ddl_to_arrow

AnyTable = TypeVar("AnyTable", bound=Table)


class StatesOfOperator(ABC):
    """All keyed states of one operator for one key-group range.

    Args:
        uid: The operator.
        codec: Its keys.
        key_groups: The range that this backend owns.
        context: The current key, shared with the operator.
        time: The operator's clocks, for states with a time to live.
        stores: Make the stores of its tables.
    """

    def __init__(
        self,
        uid: str,
        codec: KeyCodec,
        key_groups: KeyGroupRange,
        context: KeyContext,
        time: OperatorTime | None,
        stores: Stores,
    ) -> None:
        self.uid = uid
        self.codec = codec
        self.key_groups = key_groups
        self.context = context
        self.time = time or OperatorTime()
        self.token: str | None = None
        self.timers_by_columns = False
        self._stores = stores
        self._index = EntryIndex(codec)
        self._by_namespace, self._by_place = ByNamespace(self._index), ByPlace(self._index)
        self._tables: dict[str, Table] = {}
        self._timer_tables: dict[str, TimerTable] = {}
        self._states: dict[str, Any] = {}
        self._schemas: dict[str, StateSchema] = {}
        self._restored: dict[str, StateSchema] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        self._migrated: dict[str, pa.Table] = {}
        self._cleanups: dict[str, IncrementalCleanup] = {}
        self._placed_last: tuple[Numbers, Any, tuple[Numbers, list[Any]]] | None = None
        self._load: StateRows = lambda _: ()
        self._sealed = OperatorTime()

    # What each backend does in its own way ----------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, name: str, table: Table, schema: StateSchema) -> None:
        """Registers a new table, and fills it from the log or from a cache of the log."""

    @abstractmethod
    def _expire(self, name: str, table: Any, config: StateTtlConfig, rules: TtlRules) -> Callable[..., None] | None:
        """Prepares the clean-up of a state with a time to live.

        Args:
            name: Name of the state.
            table: Table of the state.
            config: Its settings.
            rules: When its values expire.

        Returns:
            The function to call on each access; None if there is none.
        """

    @abstractmethod
    def _drop_expired(self, name: str, table: Any, rules: TtlRules) -> None:
        """Drops values that had already expired when the manifest of the token was sealed."""

    # Following the log ------------------------------------------------------------------------------------------------

    def attach(self, restored: Iterable[StateSchema], load: StateRows, sealed: OperatorTime | None = None) -> None:
        """See `KeyedStateBackend`."""
        self._restored = {s.name: s for s in restored if s.uid == self.uid and s.kind in ("keyed", "timer")}
        for name in [n for n in self._migrated if self._restored[n].schema_id == self._schemas[n].schema_id]:
            del self._migrated[name]  # an epoch that holds the state in its new type is sealed
        self._load = load
        self._sealed = sealed or OperatorTime(-(1 << 63))

    def _log_of(self, schema: StateSchema, *, stamped: bool) -> Iterator[pa.Table]:
        """Yields the log rows that a load of a state merges."""
        restored = self._restored.get(schema.name)
        if restored is not None:
            evolved = carry_ttl(evolve(restored, schema, ALL), schema, ALL)
            if is_migrated(restored, schema):
                whole = migrate(restored, schema, self._descriptors[schema.name], self._load(restored))
                self._migrated[schema.name] = whole
            for rows in [whole] if is_migrated(restored, schema) else self._load(evolved):
                yield forget_unknown(rows, evolved.unknown_until) if stamped else rows

    def apply(self, name: str, rows: pa.Table) -> None:
        """Merges log rows of one state, in order. Ignores a state that has no table yet: its first use loads it."""
        self.token = None
        table = self._tables.get(name)
        if table is not None:
            self._merge(table, self._schemas[name], rows)

    def _merge(self, table: Table, schema: StateSchema, rows: pa.Table) -> None:
        stamped = is_stamped(table)
        for delta in deltas(schema, rows, self.codec, stamped=stamped):
            if isinstance(delta, int):
                table.drop_group(delta)
                continue
            if stamped:
                _expect(table, split_stamps(delta.values)[1], delta.ops)
            table.merge(delta)

    def lacks(self, name: str) -> bool:
        """Returns whether a requested state still has to be loaded."""
        return False

    def _forget_keys(self) -> None:
        drop_unused(self._index, [t for t in self._tables.values() if isinstance(t, ColumnTable | ColumnTimers)])

    # States -----------------------------------------------------------------------------------------------------------

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        """See `KeyedStateBackend`."""
        name, schema = descriptor.name, state_schema(self.uid, self.codec.columns, descriptor)
        existing = self._schemas.get(name)
        if existing is not None:
            check_same(existing, schema)
            return self._states[name]
        self._descriptors[name] = descriptor
        table = self._new_table(descriptor, StoredType(descriptor.type_info, stamped=schema.ttl is not None), layout)
        self._begin(name, table, schema)
        rules, accessed = None, None
        if descriptor.ttl_config is not None and schema.ttl is not None:
            if descriptor.ttl_config.get_cleanup_strategies().in_full_snapshot():
                self._drop_expired(name, table, ttl_rules(schema.ttl, self._sealed))
            rules = ttl_rules(schema.ttl, self.time)
            accessed = self._expire(name, table, descriptor.ttl_config, rules)
        state = self._states[name] = made_state(descriptor, table, self.context, self.time, rules, accessed)
        return state

    def _new_table(self, descriptor: StateDescriptor, stored: StoredType, layout: Layout) -> Any:
        return make_table(descriptor, stored, layout, self._stores, self._by_namespace, self._by_place)

    def timers(self, domain: TimeDomain) -> TimerTable:
        """Returns the timers of one clock. The first call makes (and loads) them."""
        timers = self._timer_tables.get(TIMERS[domain])
        if timers is None:
            timers = (
                ColumnTimers(self._by_place, self._by_namespace) if self.timers_by_columns else EntryTimers(self.codec)
            )
            self._begin(TIMERS[domain], timers, timer_schema(self.uid, self.codec.columns, domain))
            self._timer_tables[TIMERS[domain]] = timers
        return timers

    def has_timers(self, domain: TimeDomain) -> bool:
        """Returns whether a clock may have timers, in this backend or in the log."""
        return TIMERS[domain] in self._tables or TIMERS[domain] in self._restored

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the requested states."""
        return tuple(reported(schema, self._restored.get(name)) for name, schema in self._schemas.items())

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of the states as of the token."""
        return tuple(StateStatistics(name=n, rows=t.rows, keys=t.keys) for n, t in self._tables.items())

    @property
    def rows(self) -> int:
        """Live rows over all states."""
        return sum(table.rows for table in self._tables.values())

    # An epoch ---------------------------------------------------------------------------------------------------------

    def freeze(self, processing_time: int) -> list[tuple[StateSchema, pa.Table]]:
        """See `KeyedStateBackend`."""
        for name, cleanup in self._cleanups.items():
            with naming(name):
                cleanup.run()
        self._placed_last = None
        changes = []
        seq = 0
        for name, table in self._tables.items():
            with naming(name):
                delta = table.freeze()
            schema, parts = self._schemas[name], []
            if name in self._migrated:
                parts.append(rewritten(schema, self._migrated[name], self.key_groups, seq))
                seq += parts[0].num_rows
            if delta is not None:
                parts.append(self._log_rows(schema, delta, table, processing_time, seq))
                seq += len(delta)
            if parts:
                changes.append((schema, parts[0] if len(parts) == 1 else sorted_by_group(parts)))  # each is sorted
        self._placed_last = None
        self._bind()
        return changes

    def _log_rows(self, schema: StateSchema, delta: Delta, table: Table, processing_time: int, seq: int) -> pa.Table:
        """Returns a delta of a table as rows of the log: sorted by key group, values without their stamps."""
        order, placed = self._placed(delta) if delta.numbers is None else self._placed_numbers(delta)
        count, columns, indices = len(order), list(placed), _indices(order)
        values, times = delta.values, None
        if is_stamped(table):
            values, times = split_stamps(values)
            _expect(table, times, delta.ops)
        if delta.user_keys is not None:
            columns.append(delta.user_keys.take(indices))
        columns.append(values.take(indices))
        columns.append(pa.array(delta.ops[order]))
        columns.append(pa.array(np.arange(seq, seq + count, dtype=np.int64)))
        if times is not None:
            columns.append(times.take(indices))
        else:
            touched = np.full(count, processing_time, dtype=np.int64)
            untouched = np.ones(count, dtype=bool) if schema.kind == "timer" else delta.ops[order] >= log.Op.DELETE
            columns.append(pa.array(touched, mask=untouched))
        return pa.table(columns, schema=log.log_schema(schema, ddl_to_arrow))

    def _placed(self, delta: Delta) -> "tuple[Numbers, list[Any]]":
        """Returns the order of the rows by key group, and their key groups, keys and namespaces in this order."""
        entries, counts = delta.runs()
        keys, namespaces = split_entries(entries)
        arrays = self.codec.write(keys)
        groups = self._own(self.codec.key_groups(keys, arrays), keys.__getitem__)
        arrays.append(pa.nulls(len(keys), pa.string()) if namespaces is None else pa.array(namespaces, pa.string()))
        of_rows = np.arange(len(keys)) if counts is None else np.repeat(np.arange(len(keys)), counts)
        order = _by_group(groups[of_rows])
        indices = _indices(of_rows[order])
        return order, [array.take(indices) for array in (pa.array(groups), *arrays)]

    def _placed_numbers(self, delta: Delta) -> "tuple[Numbers, list[Any]]":
        """Does the same as `_placed`. Caches it: two states of one function have the same keys in the same order."""
        numbers, namespaces, cached, keys = delta.numbers, delta.namespaces, self._placed_last, self._index.keys
        assert numbers is not None
        if cached is None or not (np.array_equal(cached[0], numbers) and cached[1].equals(namespaces)):
            groups = self._own(keys.groups[numbers], lambda at: keys.entries[numbers[at]])
            order = _by_group(groups)
            texts = namespaces.take(pa.array(order)).cast(pa.string())
            columns = [pa.array(groups[order]), *keys.columns(numbers[order]), texts]
            cached = self._placed_last = numbers, namespaces, (order, columns)
        return cached[2]

    def _own(self, groups: KeyGroups, key_at: Callable[[int], Any]) -> KeyGroups:
        """Returns the key groups of rows, after checking that all belong to the subtask."""
        first, last = self.key_groups
        foreign = np.flatnonzero((groups < first) | (groups > last))
        if len(foreign):
            row = int(foreign[0])
            raise RoutingError(
                f"Operator {self.uid!r} wrote state of key {shown(key_at(row))} in key group {groups[row]}, "
                f"which does not belong to its subtask (key groups {first} to {last}).",
                action="Only the engine may set the current key. If only the engine did, Spark and Python hash this "
                "key differently: report it with the key's type.",
            )
        return groups

    def settle(self) -> None:
        """Merges the pending changes, now that the manifest that names them is sealed."""
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

    def _bind(self) -> None:
        for state in self._states.values():
            state.bind()


def is_stamped(table: Table) -> bool:
    """Returns whether the values of a table have stamps; timers have none."""
    stored = getattr(table, "stored", None)
    return stored is not None and stored.stamped


def _expect(table: Any, times: Any, ops: Any) -> None:
    """Tells a table with a time to live how old the values are that rows of the log put into it."""
    table.oldest = min(table.oldest, oldest_access(times, ops))


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Adds the name of the state to errors about a value that its type does not admit or Python cannot represent."""
    try:
        yield
    except YearOutOfRangeError as error:
        raise YearOutOfRangeError(f"State {name!r}: {error.message}", action=error.action) from None
    except StateValueError as error:
        error.add_note(f"state {name!r}")
        raise


def _indices(order: Numbers) -> Any:
    return pa.array(order)


def _by_group(groups: KeyGroups) -> Numbers:
    return np.argsort(groups.astype(np.uint16), kind="stable")  # a radix sort for 16 bits


__all__ = ["StatesOfOperator", "is_stamped", "naming"]
