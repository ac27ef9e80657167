"""Changes of state as tests write them, and the plain model to which they are applied."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from state_engine.key_groups import key_group_of
from state_engine.log.ops import Op
from state_engine.log.records import StateSchema, StateShape
from state_engine.serialization.types import parse_columns

StateName = tuple[str, str]
EntryKey = tuple[tuple[Any, ...], Any, Any]
Model = dict[StateName, dict[EntryKey, Any]]


class Change(NamedTuple):
    """One change of one state. `key` has the values of the key columns; `reset_group` uses only `group`."""

    op: Op
    key: tuple[Any, ...] = ()
    value: Any = None
    namespace: Any = None
    user_key: Any = None
    group: int = -1


def put(key: Any, value: Any, *, user_key: Any = None, namespace: Any = None) -> Change:
    """Sets a value, or an entry of a map."""
    return Change(Op.PUT, _tuple(key), value, namespace, user_key)


def append(key: Any, value: Any) -> Change:
    """Adds an element to a list."""
    return Change(Op.APPEND, _tuple(key), value)


def delete(key: Any, *, user_key: Any = None, namespace: Any = None) -> Change:
    """Removes a value, or an entry of a map."""
    return Change(Op.DELETE, _tuple(key), None, namespace, user_key)


def clear(key: Any) -> Change:
    """Empties a list or a map."""
    return Change(Op.CLEAR, _tuple(key))


def reset_group(group: int) -> Change:
    """Removes everything that was written before it to one key group of one state."""
    return Change(Op.RESET_GROUP, group=group)


def state(
    uid: str, name: str, key: str, value: str, *, shape: StateShape = "value", user_key: str | None = None
) -> StateSchema:
    """Returns the schema of a keyed state; `key` is DDL such as `"tailnum string"`."""
    return StateSchema(
        schema_id=f"{uid}.{name}.1", uid=uid, kind="keyed", name=name, shape=shape,
        key=parse_columns(key), user_key=user_key, value=value,
    )  # fmt: skip


def apply(schema: StateSchema, entries: dict[EntryKey, Any], changes: Sequence[Change], max_parallelism: int) -> None:
    """Applies changes to the model of one state, in order."""
    types = [column.type for column in schema.key]
    for change in changes:
        entry = (change.key, change.namespace, change.user_key)
        if change.op == Op.PUT:
            entries[entry] = change.value
        elif change.op == Op.APPEND:
            entries[entry] = [*entries.get(entry, ()), change.value]
        elif change.op == Op.DELETE:
            entries.pop(entry, None)
        else:
            for other in list(entries):
                cleared = change.op == Op.CLEAR and other[:2] == entry[:2]
                reset = change.op == Op.RESET_GROUP and key_group_of(other[0], types, max_parallelism) == change.group
                if cleared or reset:
                    del entries[other]


def model_of(schema: StateSchema, live: pa.Table) -> dict[EntryKey, Any]:
    """Returns live rows, as `read_state` returns them, in the form of `JobBuilder.rows`."""
    entries: dict[EntryKey, Any] = {}
    for row in live.sort_by([("position", "ascending"), ("seq", "ascending")]).to_pylist():
        entry = (tuple(row[c.name] for c in schema.key), row["namespace"], row.get("user_key"))
        if schema.shape == "list":
            entries[entry] = [*entries.get(entry, ()), row["value"]]
        else:
            assert entry not in entries, f"two live rows for {entry}"
            entries[entry] = row["value"]
    return entries


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


__all__ = [
    "Change",
    "EntryKey",
    "Model",
    "StateName",
    "append",
    "apply",
    "clear",
    "delete",
    "model_of",
    "put",
    "reset_group",
    "state",
]
