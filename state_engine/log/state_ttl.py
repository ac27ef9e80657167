"""Applies a time to live to the log: settings that change, rows that expired. Pure.

`docs/formats/last-access.md` has the rules.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from state_engine.errors import TtlTimeChangedError
from state_engine.log.ops import LAST_ACCESS, POSITION
from state_engine.log.records import Manifest, StateSchema

ALL = (1 << 63) - 1
"""As `unknown_until`: every row."""

_LOWEST = -(1 << 63)
_END = (1 << 63) - 1  # the watermark after the last record, which is not a time


def carry_ttl(known: StateSchema, found: StateSchema, epoch: int) -> StateSchema:
    """Returns a known schema with the settings that a state has now.

    Args:
        known: The schema in the log.
        found: The same state as the code declares it.
        epoch: The last epoch with rows that were written under the known settings.

    Raises:
        TtlTimeChangedError: The time to live is measured in another time than that of the rows' stamps, and the author
            does not allow that their last access counts as unknown.
    """
    ttl = found.ttl
    unknown_until = known.unknown_until
    if _time(known) != _time(found):
        if ttl is not None and not ttl.allow_change:
            raise TtlTimeChangedError(
                f"The time to live of state {found.name!r} of operator {found.uid!r} is in {_time(found)} time; the "
                f"last access of its rows is in {_time(known)} time.",
                action=f"Keep {_time(known)} time, or let the last access of these rows count as unknown: "
                "allow_time_characteristic_change() of the StateTtlConfig's builder.",
            )
        unknown_until = epoch
    if ttl is not None and ttl.allow_change:
        ttl = replace(ttl, allow_change=False)
    return (
        known
        if (ttl, unknown_until) == (known.ttl, known.unknown_until)
        else replace(known, ttl=ttl, unknown_until=unknown_until)
    )


def _time(schema: StateSchema) -> str:
    """Returns the kind of time with which rows are stamped; without a TTL it is the processing time of the epoch."""
    return "processing" if schema.ttl is None else schema.ttl.time


def forget_unknown(rows: pa.Table, until: int | None) -> pa.Table:
    """Returns the rows, with a null `last_access` in those of epoch `until` or before it."""
    if until is None:
        return rows
    index = rows.schema.get_field_index(LAST_ACCESS)
    old: Any = pc.less_equal(rows.column(POSITION), pa.scalar(until, pa.int64())) if until < ALL else True
    column = pc.if_else(old, pa.scalar(None, pa.int64()), rows.column(LAST_ACCESS))
    return rows.set_column(index, pa.field(LAST_ACCESS, pa.int64()), column)


def settled_time(manifest: Manifest, uid: str) -> int | None:
    """Returns the event time up to which an operator has nothing left to do at a manifest; None without a watermark.

    The watermark may already be above timers that fire in the next epoch; these read state as of their own times.
    """
    watermark, timers = manifest.watermarks.get(uid), manifest.timers.get(uid)
    if watermark is None or timers is None or timers.event_time is None:
        return watermark
    return min(watermark, timers.event_time)


def drop_expired(schema: StateSchema, live: pa.Table, processing_time: int, watermark: int | None) -> pa.Table:
    """Returns the live rows without those that have expired, if the state's settings let a full fold drop them.

    Args:
        schema: The state, with the settings of the fold's epoch.
        live: Folded rows, with their positions.
        processing_time: Of the fold's epoch, in ms.
        watermark: Of the operator at that epoch (`settled_time`), None if it had none.
    """
    ttl = schema.ttl
    now = processing_time if ttl is None or ttl.time == "processing" else watermark
    if ttl is None or not ttl.drops_expired or now is None or now - ttl.milliseconds < _LOWEST or now == _END:
        return live
    touched: Any = forget_unknown(live, schema.unknown_until).column(LAST_ACCESS)
    lives: Any = pc.greater(touched, pa.scalar(now - ttl.milliseconds, pa.int64()))
    return live.filter(pc.fill_null(lives, True))


def without_expired(schema: StateSchema) -> StateSchema:
    """Returns a schema that lets the fold drop what has expired, even if a checkpoint has to keep it.

    For copies of a state, from which expired values cannot be read again. If a state may return expired values, they
    stay, unless the state's own settings drop them.
    """
    if schema.ttl is None or schema.ttl.returns_expired:
        return schema
    return replace(schema, ttl=replace(schema.ttl, drops_expired=True))


__all__ = ["ALL", "carry_ttl", "drop_expired", "forget_unknown", "settled_time", "without_expired"]
