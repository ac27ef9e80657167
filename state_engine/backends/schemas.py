"""From a descriptor to the schema that the log records."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from state_engine.api.timers import TimeDomain
from state_engine.api.types import Types, is_hashable
from state_engine.errors import UnsupportedTypeError
from state_engine.log.records import StateSchema, StateShape
from state_engine.serialization.column import Column

_SHAPES: list[tuple[type[StateDescriptor], StateShape]] = [
    (ListStateDescriptor, "list"),
    (MapStateDescriptor, "map"),
    (ReducingStateDescriptor, "reducing"),
    (AggregatingStateDescriptor, "aggregating"),
]

TIMERS = {TimeDomain.EVENT_TIME: "_event_time_timers", TimeDomain.PROCESSING_TIME: "_processing_time_timers"}
"""Names of the timers' states; no author's state begins with an underscore."""


def state_schema(uid: str, key: Sequence[Column], descriptor: StateDescriptor) -> StateSchema:
    """Returns the schema of a keyed state; `schema_id` is a digest of all its other fields.

    Raises:
        UnsupportedTypeError: A user key of map state that cannot be looked up.
    """
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
    )


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


def _schema(**fields: Any) -> StateSchema:
    key = fields["key"]
    digest = hashlib.sha256(msgspec.json.encode({**fields, "key": [(c.name, c.type) for c in key]})).hexdigest()
    return StateSchema(schema_id=digest[:16], **fields)


__all__ = ["TIMERS", "state_schema", "timer_schema"]
