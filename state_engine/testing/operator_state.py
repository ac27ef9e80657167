"""What a harness sealed: the log of one operator in memory, and snapshots of it."""

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
    """The state of an operator, or of one of its subtasks, as of a sealed epoch. Made by `snapshot()`.

    Args:
        manifest: Says of which operator: its keys, max parallelism and schemas.
        tables: Live rows of each state, in the columns of the log.
    """

    def __init__(self, manifest: Manifest, tables: dict[str, pa.Table]) -> None:
        self.manifest = manifest
        self._tables = tables
        self._schemas = {schema.name: schema for schema in manifest.schemas}

    def states(self) -> dict[str, dict[Any, Any]]:
        """Returns what every state holds, by its name.

        Each is a dict by key: of the values, for a list state of lists, for a map state of dicts; reducing and
        aggregating states have their accumulators. A key of several columns is a tuple. Rows that a function put as
        dataclasses or tuples are `Row`s here: the log does not know a Python class.
        """
        keyed = [name for name, schema in self._schemas.items() if schema.kind == "keyed" and name != RAW_KEYED]
        return {name: _contents(self._schemas[name], self._tables[name]) for name in keyed}

    def broadcast_states(self) -> dict[str, dict[Any, Any]]:
        """Returns the map of every broadcast state, by its name; of a single subtask's harness if it is subtask 0."""
        found = {}
        for name, schema in self._schemas.items():
            if schema.kind == "broadcast":
                table = self._tables[name]
                user_keys = key_reader(parse_ddl(schema.user_key or ""))(table.column(USER_KEY))
                found[name] = dict(zip(user_keys, _values(schema, table), strict=True))
        return found

    def operator_states(self) -> dict[str, list[list[Any]]]:
        """Returns the lists of every operator list state, by its name: one list for each subtask, in order.

        Without the empty ones behind the last that holds something.
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
        found = _contents(self._schemas[name], self._tables[name]) if name in self._tables else {}
        return {key: sorted(times) for key, times in found.items()}

    def has(self, name: str) -> bool:
        """Says whether there is a state of this name."""
        return name in self._tables

    def table(self, name: str) -> pa.Table:
        """Returns the live rows of a state in the columns of its table: key group, key, value and more."""
        if name not in self._tables:
            raise KeyError(f"There is no state {name!r} here; there are {sorted(self._tables)}.")
        return self._tables[name]

    def key_groups(self) -> set[int]:
        """Returns the key groups in which there is keyed state, or a timer."""
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
    found: dict[Any, Any] = {}
    if schema.user_key is not None:
        user_keys = key_reader(parse_ddl(schema.user_key))(table.column(USER_KEY))
        for entry, user_key, value in zip(entries, user_keys, values, strict=True):
            found.setdefault(entry, {})[user_key] = value
    elif schema.shape == "list":
        for entry, value in zip(entries, values, strict=True):
            found.setdefault(entry, []).append(value)
    else:
        found = dict(zip(entries, values, strict=True))
    return found


def _values(schema: StateSchema, table: pa.Table) -> list[Any]:
    return reader(parse_ddl(schema.value))(table.column(VALUE))


def repackage_state(*snapshots: OperatorSubtaskState) -> OperatorSubtaskState:
    """Puts the snapshots of several subtasks together, as Flink's harness does.

    Raises:
        StateTypeChangedError: A state has another type in another snapshot.
        ValueError: Two of them hold the same key group or subtask, so that they are not of several subtasks.
    """
    return reduce(_together, snapshots)


def _together(left: OperatorSubtaskState, right: OperatorSubtaskState) -> OperatorSubtaskState:
    both = sorted(left.key_groups() & right.key_groups())
    if both:
        raise ValueError(f"Key groups {both[:10]} are in two snapshots; give one snapshot of each subtask.")
    if both := sorted(left.subtasks() & right.subtasks()):
        raise ValueError(f"Subtasks {both[:10]} are in two snapshots; give one snapshot of each subtask.")
    others = {schema.name: schema for schema in left.manifest.schemas}
    for schema in right.manifest.schemas:
        if (other := others.get(schema.name, schema)).schema_id != schema.schema_id:
            raise StateTypeChangedError(
                f"State {schema.name!r} has the type {schema.value} in one snapshot and {other.value} in another.",
                action="Take all snapshots behind the first epoch of the new type, or all in front of it.",
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
        """Begins with what a snapshot holds."""
        self.schemas = snapshot.manifest.schemas
        epoch = snapshot.manifest.epoch
        self._tables = {schema.name: [(epoch, snapshot.table(schema.name))] for schema in self.schemas}

    def seal(self, epoch: int, changes: Changes, schemas: Iterable[StateSchema]) -> None:
        """Adds what the subtasks froze in an epoch.

        Raises:
            StateTypeChangedError: The log has a state with a type that cannot become this one.
            TtlTimeChangedError: The log has it with times to live in another time.
        """
        self.schemas = merge_schemas(self.schemas, schemas, epoch - 1)
        for schema, rows in changes:
            self._tables.setdefault(schema.name, []).append((epoch, with_position(rows, epoch)))

    def loader(self, key_groups: KeyGroupRange) -> Callable[[StateSchema], Iterable[pa.Table]]:
        """Returns what a backend loads its states with: rows of its own key groups only."""

        def load(schema: StateSchema) -> Iterator[pa.Table]:
            for epoch, table in self._tables.get(schema.name, ()):
                if counts(schema, epoch):
                    yield convert_rows(schema, _within(table, key_groups), epoch)

        return load

    def live(self, key_groups: KeyGroupRange, subtasks: KeyGroupRange) -> dict[str, pa.Table]:
        """Returns the live rows of every state: keyed ones of some key groups, others of some subtasks."""
        found = {}
        for schema in self.schemas:
            empty = log_schema(schema, ddl_to_arrow, position=True).empty_table()
            within = subtasks if schema.kind in ("operator", "broadcast") else key_groups
            found[schema.name] = fold(schema, [empty, *self.loader(within)(schema)])
        return found


def _within(table: pa.Table, key_groups: KeyGroupRange) -> pa.Table:
    groups = table.column(KEY_GROUP).to_numpy()
    return table.filter((groups >= key_groups.first) & (groups <= key_groups.last))


__all__ = ["Changes", "OperatorLog", "OperatorSubtaskState", "repackage_state"]
