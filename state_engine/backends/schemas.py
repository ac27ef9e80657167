"""Turns a state descriptor into the schema that the log records."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.evolution import NO_DEFAULT, fields_of
from state_engine.api.pyflink_types import Types
from state_engine.api.timers import TimeDomain
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import is_hashable
from state_engine.errors import DuplicateStateError, JobDefinitionError, UnsupportedTypeError
from state_engine.log.records import DeclaredChanges, StateSchema, StateShape, StateTtl
from state_engine.serialization.column import Column
from state_engine.serialization.convert import ValueTypeError, writer
from state_engine.serialization.evolution import encode_default

_SHAPES: list[tuple[type[StateDescriptor], StateShape]] = [
    (ListStateDescriptor, "list"),
    (MapStateDescriptor, "map"),
    (ReducingStateDescriptor, "reducing"),
    (AggregatingStateDescriptor, "aggregating"),
]

TIMERS = {TimeDomain.EVENT_TIME: "_event_time_timers", TimeDomain.PROCESSING_TIME: "_processing_time_timers"}
"""Names of the timers' states; no author's state begins with an underscore."""

RAW_KEYED, RAW_OPERATOR = "_raw_keyed_state", "_raw_operator_state"
"""Names of the states that hold what functions write as bytes; likewise."""


def state_schema(uid: str, key: Sequence[Column], descriptor: StateDescriptor) -> StateSchema:
    """Returns the schema of a keyed state; `schema_id` is a digest of its identity and types.

    Raises:
        UnsupportedTypeError: The user keys of a map state cannot be looked up.
        JobDefinitionError: The default value of a value state is not of its type.
    """
    if isinstance(descriptor, ValueStateDescriptor):
        _check_default(uid, descriptor)
    shape: StateShape = next((s for kind, s in _SHAPES if isinstance(descriptor, kind)), "value")
    user_key = None
    if isinstance(descriptor, MapStateDescriptor):
        if not is_hashable(descriptor.key_type_info):
            raise UnsupportedTypeError(
                f"Map state {descriptor.name!r} of operator {uid!r} has user keys of type {descriptor.key_type_info}.",
                action="Use atomic types, decimals, or rows of these as user keys.",
            )
        user_key = descriptor.key_type_info.ddl()
    return _schema(
        uid=uid,
        kind="keyed",
        name=descriptor.name,
        shape=shape,
        key=tuple(key),
        user_key=user_key,
        value=descriptor.type_info.ddl(),
        ttl=ttl_of(descriptor.ttl_config),
        declared=declared_changes(descriptor),
    )


def _check_default(uid: str, descriptor: ValueStateDescriptor) -> None:
    if descriptor.default_value is None:
        return
    try:
        writer(descriptor.type_info)([descriptor.default_value])
    except ValueTypeError as error:
        raise JobDefinitionError(
            f"The default value of state {descriptor.name!r} of operator {uid!r} does not fit its type: {error}.",
            action="Give a value of the declared type.",
        ) from None


def timer_schema(uid: str, key: Sequence[Column], domain: TimeDomain) -> StateSchema:
    """Returns the schema of an operator's timers of one clock: a map per key and namespace, from times to `true`."""
    return _schema(
        uid=uid,
        kind="timer",
        name=TIMERS[domain],
        shape="map",
        key=tuple(key),
        user_key=Types.LONG().ddl(),
        value=Types.BOOLEAN().ddl(),
    )


def operator_schema(uid: str, descriptor: ListStateDescriptor) -> StateSchema:
    """Returns the schema of an operator list state, which has no key.

    Raises:
        JobDefinitionError: It has a function to migrate it, or a default is not of its field's type.
    """
    _refuse_migration(uid, descriptor)
    return _schema(
        uid=uid,
        kind="operator",
        name=descriptor.name,
        shape="list",
        key=(),
        value=descriptor.type_info.ddl(),
        declared=declared_changes(descriptor),
    )


def broadcast_schema(uid: str, descriptor: MapStateDescriptor) -> StateSchema:
    """Returns the schema of a broadcast state, which has no key.

    Raises:
        UnsupportedTypeError: Its user keys cannot be looked up.
        JobDefinitionError: It has a function to migrate it, or a default is not of its field's type.
    """
    _refuse_migration(uid, descriptor)
    keyed = state_schema(uid, (), descriptor)
    return _schema(
        uid=uid,
        kind="broadcast",
        name=keyed.name,
        shape="map",
        key=(),
        user_key=keyed.user_key,
        value=keyed.value,
        declared=keyed.declared,
    )


def raw_keyed_schema(uid: str) -> StateSchema:
    """Returns the schema of an operator's raw keyed state: one value per key group, without key columns."""
    return _schema(uid=uid, kind="keyed", name=RAW_KEYED, shape="value", key=(), value="binary")


def raw_operator_schema(uid: str) -> StateSchema:
    """Returns the schema of an operator's raw operator state: an operator list state of its partitions."""
    return _schema(uid=uid, kind="operator", name=RAW_OPERATOR, shape="list", key=(), value="binary")


def _refuse_migration(uid: str, descriptor: StateDescriptor) -> None:
    if descriptor.changes.migrations:
        raise JobDefinitionError(
            f"State {descriptor.name!r} of operator {uid!r} is not keyed state, but has a function to migrate from "
            f"{descriptor.changes.migrations[0].old_type}.",
            action="Convert it yourself: read it under its old name and type, and fill a state of another name.",
        )


def check_names(schemas: Iterable[StateSchema]) -> None:
    """Raises DuplicateStateError if one name is used for two kinds of state in one operator."""
    kinds: dict[tuple[str, str], StateSchema] = {}
    for schema in schemas:
        first = kinds.setdefault((schema.uid, schema.name), schema)
        if first.kind != schema.kind:
            raise DuplicateStateError(
                f"Operator {schema.uid!r} uses the name {schema.name!r} for {first.kind} and for {schema.kind} state.",
                action="Give the two states two names.",
            )


def renamed(schema: StateSchema, uid: str) -> StateSchema:
    """Returns the schema that the same state has in an operator of another uid."""
    of_user_keys = schema.kind != "operator" and schema.name != RAW_KEYED
    user_key: dict[str, Any] = {"user_key": schema.user_key} if of_user_keys else {}
    identity = _schema(
        uid=uid,
        kind=schema.kind,
        name=schema.name,
        shape=schema.shape,
        key=schema.key,
        **user_key,
        value=schema.value,
    )
    return replace(schema, uid=uid, schema_id=identity.schema_id)


def _schema(*, ttl: StateTtl | None = None, declared: DeclaredChanges | None = None, **fields: Any) -> StateSchema:
    key = fields["key"]
    digest = hashlib.sha256(msgspec.json.encode({**fields, "key": [(c.name, c.type) for c in key]})).hexdigest()
    return StateSchema(schema_id=digest[:16], **fields, ttl=ttl, declared=declared)


def declared_changes(descriptor: StateDescriptor) -> DeclaredChanges | None:
    """Returns what a descriptor and the dataclasses of its type declare about earlier types; None if nothing.

    For each field, the declarations of the descriptor come before those of the dataclass.

    Raises:
        JobDefinitionError: A default is not of its field's type.
    """
    changes = descriptor.changes
    aliases: dict[str, tuple[str, ...]] = {}
    defaults: dict[str, bytes] = {}
    for field in fields_of(descriptor.type_info):
        if names := (*changes.aliases.get(field.path, ()), *field.aliases):
            aliases[field.path] = names
        value = changes.defaults.get(field.path, field.default)
        if value is None or value is NO_DEFAULT:
            continue
        try:
            defaults[field.path] = encode_default(field.type_info, value)
        except ValueTypeError as error:
            raise JobDefinitionError(
                f"The default of field {field.path!r} of state {descriptor.name!r} does not fit its type: {error}.",
                action=f"Give a value of {field.type_info}.",
            ) from None
    migrates_from = tuple(migration.old_type.ddl() for migration in changes.migrations)
    if not (aliases or defaults or migrates_from):
        return None
    return DeclaredChanges(aliases=aliases, defaults=defaults, migrates_from=migrates_from)


def check_same(known: StateSchema, asked: StateSchema) -> None:
    """Refuses a second use of a state's name, unless it is for the same state.

    Raises:
        DuplicateStateError: Shape, a type, the time to live, or the declared changes differ.
    """
    if known.schema_id != asked.schema_id:
        raise DuplicateStateError(
            f"Operator {asked.uid!r} uses the state name {asked.name!r} as {known.shape} of {known.value} "
            f"and as {asked.shape} of {asked.value}.",
            action="Give the two states two names.",
        )
    if known.ttl != asked.ttl:
        raise DuplicateStateError(
            f"Operator {asked.uid!r} uses the state {asked.name!r} with two times to live: {known.ttl}, {asked.ttl}.",
            action="Give both descriptors the same settings, or the two states two names.",
        )
    if known.declared != asked.declared:
        raise DuplicateStateError(
            f"Operator {asked.uid!r} uses the state {asked.name!r} with two sets of aliases, defaults or migrations.",
            action="Give both descriptors the same, or the two states two names.",
        )


def ttl_of(config: StateTtlConfig | None) -> StateTtl | None:
    """Returns what the log records of a time to live; None without one."""
    if config is None or not config.is_enabled():
        return None
    strategies = config.get_cleanup_strategies()
    compacts = strategies.get_rocksdb_compact_filter_cleanup_strategy() is not None
    event = config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
    reads = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    return StateTtl(
        milliseconds=config.get_ttl().to_milliseconds(),
        time="event" if event else "processing",
        update="read" if reads else "write",
        returns_expired=config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
        drops_expired=compacts or strategies.in_full_snapshot(),
        allow_change=config.allows_time_characteristic_change(),
    )


__all__ = [
    "RAW_KEYED",
    "RAW_OPERATOR",
    "TIMERS",
    "broadcast_schema",
    "check_names",
    "check_same",
    "declared_changes",
    "operator_schema",
    "raw_keyed_schema",
    "raw_operator_schema",
    "renamed",
    "state_schema",
    "timer_schema",
    "ttl_of",
]
