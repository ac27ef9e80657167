"""The log of one operator in memory, as a harness seals it, and snapshots of its state."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from state_engine.api.timers import TimeDomain
from state_engine.api.type_hints import parse_ddl
from state_engine.backends.keys import KeyCodec, join_entries
from state_engine.backends.schemas import RAW_KEYED, RAW_OPERATOR, TIMERS
from state_engine.epoch.compatibility import merge_schemas
from state_engine.errors import StateTypeChangedError
from state_engine.key_groups import KeyGroupRange
from state_engine.log.evolution import convert_rows, counts
from state_engine.log.fold import fold
from state_engine.log.ops import KEY_GROUP, NAMESPACE, USER_KEY, VALUE, log_schema, with_position
from state_engine.log.records import Manifest, StateSchema
from state_engine.serialization.convert import key_reader, reader
from state_engine.serialization.types import ddl_to_arrow

Changes = list[tuple[StateSchema, pa.Table]]


class OperatorSubtaskState:
    """The state of an operator, or of one of its subtasks, as of a sealed epoch. `snapshot()` creates it.

    Args:
        manifest: Describes the operator: its keys, max parallelism and schemas.
        tables: Live rows of each state, in the columns of the log.
    """

    def __init__(self, manifest: Manifest, tables: dict[str, pa.Table]) -> None:
        self.manifest = manifest
        self._tables = tables
        self._schemas = {schema.name: schema for schema in manifest.schemas}

    def states(self) -> dict[str, dict[Any, Any]]:
        """Returns the contents of every keyed state, by name.

        Each is a dict from key to value; the values of a list state are lists, those of a map state dicts, those of
        reducing and aggregating states accumulators. A key of several columns is a tuple. Rows that a function put as
        dataclasses or tuples are `Row`s here: the log does not record Python classes.
        """
        keyed = [name for name, schema in self._schemas.items() if schema.kind == "keyed" and name != RAW_KEYED]
        return {name: _contents(self._schemas[name], self._tables[name]) for name in keyed}

    def broadcast_states(self) -> dict[str, dict[Any, Any]]:
        """Returns the map of every broadcast state, by name. A harness of one subtask has them only for subtask 0."""
        maps = {}
        for name, schema in self._schemas.items():
            if schema.kind == "broadcast":
                table = self._tables[name]
                user_keys = key_reader(parse_ddl(schema.user_key or ""))(table.column(USER_KEY))
                maps[name] = dict(zip(user_keys, _values(schema, table), strict=True))
        return maps

    def operator_states(self) -> dict[str, list[list[Any]]]:
        """Returns the lists of every operator list state, by name: one list for each subtask, in order.

        Empty lists after the last list with elements are omitted.
        """
        lists = [s for s in self._schemas.values() if s.kind == "operator" and s.name != RAW_OPERATOR]
        return {schema.name: _lists(schema, self._tables[schema.name]) for schema in lists}

    def raw_keyed_state(self) -> dict[int, bytes]:
        """Returns the bytes of the raw keyed state, by key group."""
        if RAW_KEYED not in self._tables:
            return {}
        table = self._tables[RAW_KEYED]
        values = _values(self._schemas[RAW_KEYED], table)
        return dict(zip(table.column(KEY_GROUP).to_numpy().tolist(), values, strict=True))

    def raw_operator_state(self) -> list[list[bytes]]:
        """Returns the partitions of the raw operator state, subtask by subtask, as `operator_states` does lists."""
        return _lists(self._schemas[RAW_OPERATOR], self._tables[RAW_OPERATOR]) if RAW_OPERATOR in self._tables else []

    def timers(self, domain: TimeDomain) -> dict[Any, list[int]]:
        """Returns the times of the registered timers of a clock, ascending, by key."""
        name = TIMERS[domain]
        contents = _contents(self._schemas[name], self._tables[name]) if name in self._tables else {}
        return {key: sorted(times) for key, times in contents.items()}

    def has(self, name: str) -> bool:
        """Returns whether a state of this name exists."""
        return name in self._tables

    def table(self, name: str) -> pa.Table:
        """Returns the live rows of a state in the columns of its table: key group, key, value and more."""
        if name not in self._tables:
            raise KeyError(f"There is no state {name!r} here, only {sorted(self._tables)}.")
        return self._tables[name]

    def key_groups(self) -> set[int]:
        """Returns the key groups that have keyed state or a timer."""
        return self._groups(of_operator=False)

    def subtasks(self) -> set[int]:
        """Returns the subtasks that have operator state."""
        return self._groups(of_operator=True)

    def _groups(self, *, of_operator: bool) -> set[int]:
        kinds = {name: schema.kind in ("operator", "broadcast") for name, schema in self._schemas.items()}
        tables = [table for name, table in self._tables.items() if kinds[name] == of_operator]
        return {int(group) for table in tables for group in table.column(KEY_GROUP).to_numpy()}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {table.num_rows} rows" for name, table in self._tables.items())
        return f"OperatorSubtaskState({sizes})"


def _lists(schema: StateSchema, table: pa.Table) -> list[list[Any]]:
    subtasks: list[int] = table.column(KEY_GROUP).to_numpy().tolist()
    lists: list[list[Any]] = [[] for _ in range(max(subtasks, default=-1) + 1)]
    for subtask, value in zip(subtasks, _values(schema, table), strict=True):
        lists[subtask].append(value)
    return lists


def _contents(schema: StateSchema, table: pa.Table) -> dict[Any, Any]:
    keys = KeyCodec(schema.key, 1).read([table.column(column.name) for column in schema.key])
    entries = join_entries(keys, table.column(NAMESPACE).to_pylist())
    values = _values(schema, table)
    contents: dict[Any, Any] = {}
    if schema.user_key is not None:
        user_keys = key_reader(parse_ddl(schema.user_key))(table.column(USER_KEY))
        for entry, user_key, value in zip(entries, user_keys, values, strict=True):
            contents.setdefault(entry, {})[user_key] = value
    elif schema.shape == "list":
        for entry, value in zip(entries, values, strict=True):
            contents.setdefault(entry, []).append(value)
    else:
        contents = dict(zip(entries, values, strict=True))
    return contents


def _values(schema: StateSchema, table: pa.Table) -> list[Any]:
    return reader(parse_ddl(schema.value))(table.column(VALUE))


def repackage_state(*snapshots: OperatorSubtaskState) -> OperatorSubtaskState:
    """Joins the snapshots of several subtasks, as Flink's harness does.

    Raises:
        StateTypeChangedError: A state has different types in two snapshots.
        ValueError: Two snapshots contain the same key group or subtask, so they are not of different subtasks.
    """
    return reduce(_together, snapshots)


def _together(left: OperatorSubtaskState, right: OperatorSubtaskState) -> OperatorSubtaskState:
    shared = sorted(left.key_groups() & right.key_groups())
    if shared:
        raise ValueError(f"Key groups {shared[:10]} are in two snapshots; give one snapshot of each subtask.")
    if shared := sorted(left.subtasks() & right.subtasks()):
        raise ValueError(f"Subtasks {shared[:10]} are in two snapshots; give one snapshot of each subtask.")
    others = {schema.name: schema for schema in left.manifest.schemas}
    for schema in right.manifest.schemas:
        if (other := others.get(schema.name, schema)).schema_id != schema.schema_id:
            raise StateTypeChangedError(
                f"State {schema.name!r} has the type {schema.value} in one snapshot and {other.value} in another.",
                action="Take all snapshots after the first epoch of the new type, or all before it.",
            )
    newest = max(left.manifest, right.manifest, key=lambda manifest: manifest.epoch)
    schemas = merge_schemas(left.manifest.schemas, right.manifest.schemas, newest.epoch)
    tables = {}
    for schema in schemas:
        parts = [part.table(schema.name) for part in (left, right) if part.has(schema.name)]
        tables[schema.name] = fold(schema, parts)
    time = max(left.manifest.processing_time, right.manifest.processing_time)
    return OperatorSubtaskState(replace(newest, schemas=schemas, processing_time=time), tables)


class OperatorLog:
    """The sealed changes of one operator, state by state, oldest epoch first."""

    def __init__(self) -> None:
        self.schemas: tuple[StateSchema, ...] = ()
        self._tables: dict[str, list[tuple[int, pa.Table]]] = {}

    def restore(self, snapshot: OperatorSubtaskState) -> None:
        """Starts the log with the contents of a snapshot."""
        self.schemas = snapshot.manifest.schemas
        epoch = snapshot.manifest.epoch
        self._tables = {schema.name: [(epoch, snapshot.table(schema.name))] for schema in self.schemas}

    def seal(self, epoch: int, changes: Changes, schemas: Iterable[StateSchema]) -> None:
        """Adds the changes that the subtasks froze in an epoch.

        Raises:
            StateTypeChangedError: The log has a state with a type that cannot be migrated to this one.
            TtlTimeChangedError: In the log its time to live is measured in another time.
        """
        self.schemas = merge_schemas(self.schemas, schemas, epoch - 1)
        for schema, rows in changes:
            self._tables.setdefault(schema.name, []).append((epoch, with_position(rows, epoch)))

    def loader(self, key_groups: KeyGroupRange) -> Callable[[StateSchema], Iterable[pa.Table]]:
        """Returns the function by which a backend loads its states: only rows of its own key groups."""

        def load(schema: StateSchema) -> Iterator[pa.Table]:
            for epoch, table in self._tables.get(schema.name, ()):
                if counts(schema, epoch):
                    yield convert_rows(schema, _within(table, key_groups), epoch)

        return load

    def live(self, key_groups: KeyGroupRange, subtasks: KeyGroupRange) -> dict[str, pa.Table]:
        """Returns the live rows of every state: of keyed states for some key groups, of others for some subtasks."""
        tables = {}
        for schema in self.schemas:
            empty = log_schema(schema, ddl_to_arrow, position=True).empty_table()
            within = subtasks if schema.kind in ("operator", "broadcast") else key_groups
            tables[schema.name] = fold(schema, [empty, *self.loader(within)(schema)])
        return tables


def _within(table: pa.Table, key_groups: KeyGroupRange) -> pa.Table:
    groups = table.column(KEY_GROUP).to_numpy()
    return table.filter((groups >= key_groups.first) & (groups <= key_groups.last))


__all__ = ["Changes", "OperatorLog", "OperatorSubtaskState", "repackage_state"]
