"""Rows of the log that replace state by that of another epoch: first they remove entries, then they add some. Pure.

Whole key groups: a `reset_group` for each, then the entries that the source has there. Single keys: a `delete` for each
entry that they have now, for lists a `clear`, then the entries that the source has. Both have the form in which tasks
write, so readers of the log need no special case.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.timers import TimeDomain
from state_engine.backends.migration import sorted_by_group
from state_engine.backends.schemas import TIMERS
from state_engine.key_groups import KeyGroupRange
from state_engine.log.evolution import convert_rows
from state_engine.log.ops import KEY_GROUP, NAMESPACE, OP, SEQ, USER_KEY, Op, log_schema
from state_engine.log.records import EarliestTimers, StateSchema
from state_engine.log.state_ttl import ALL, forget_unknown
from state_engine.savepoint.selection import Key, MovedState
from state_engine.serialization.types import ddl_to_arrow


def converted(state: MovedState, live: pa.Table) -> pa.Table:
    """Returns the source's live rows in the job's type; last accesses without a meaning in the job become null.

    Args:
        state: The state; the source has it.
        live: Folded rows of the source, with positions, in the source's type.

    Raises:
        StateTypeChangedError: The rows have another type than the source's schema.
    """
    source, way = state.source, state.way
    assert source is not None
    assert way is not None
    rows = forget_unknown(live, source.unknown_until)
    if _stamped_in(source) != _stamped_in(state.now):
        rows = forget_unknown(rows, ALL)
    return convert_rows(way, rows, 0) if way.former else rows


def only_keys(schema: StateSchema, live: pa.Table, keys: Sequence[Key]) -> pa.Table:
    """Returns the live rows that belong to the given keys; a null in a key is a value like any other."""
    columns = [live.column(column.name).to_pylist() for column in schema.key]
    wanted = set(keys)
    mask = np.fromiter((key in wanted for key in zip(*columns, strict=True)), bool, live.num_rows)
    return live.filter(pa.array(mask))


def resets(schema: StateSchema, ranges: Iterable[KeyGroupRange]) -> pa.Table:
    """Returns rows that empty key groups of a state, whatever they hold."""
    groups = np.concatenate([np.arange(first, last + 1, dtype=np.int32) for first, last in ranges])
    return _without_values(schema, {KEY_GROUP: pa.array(groups)}, len(groups), Op.RESET_GROUP)


def removals(schema: StateSchema, live: pa.Table) -> pa.Table:
    """Returns rows that remove live entries one by one; of a list all its elements at once."""
    names = [KEY_GROUP, *(column.name for column in schema.key), NAMESPACE]
    names += [USER_KEY] if schema.user_key is not None else []
    if schema.shape == "list":
        live = live.filter(pa.array(_first_of_each(live.select(names))))
    op = Op.CLEAR if schema.shape == "list" else Op.DELETE
    return _without_values(schema, {name: live.column(name) for name in names}, live.num_rows, op)


def numbered(schema: StateSchema, parts: Sequence[pa.Table], seq: int) -> pa.Table:
    """Returns rows of one state as a change file has them: sorted by key group (stable), numbered from `seq`."""
    target = log_schema(schema, ddl_to_arrow)
    whole = sorted_by_group([part.select(target.names).cast(target) for part in parts])
    numbers = pa.array(np.arange(seq, seq + whole.num_rows, dtype=np.int64))
    index = target.get_field_index(SEQ)
    return whole.set_column(index, target.field(index), numbers)


def within(rows: pa.Table, groups: KeyGroupRange) -> pa.Table:
    """Returns the rows in a range of key groups, in their order."""
    numbers = rows.column(KEY_GROUP).to_numpy()
    return rows.filter(pa.array((numbers >= groups.first) & (numbers <= groups.last)))


def earliest(restored: Iterable[tuple[StateSchema, pa.Table]]) -> EarliestTimers:
    """Returns when the first of an operator's restored timers are due."""
    times = {s.name: pc.min(rows.column(USER_KEY)).as_py() for s, rows in restored if s.kind == "timer"}
    return EarliestTimers(
        event_time=times.get(TIMERS[TimeDomain.EVENT_TIME]),
        processing_time=times.get(TIMERS[TimeDomain.PROCESSING_TIME]),
    )


def _without_values(schema: StateSchema, known: dict[str, Any], count: int, op: Op) -> pa.Table:
    target = log_schema(schema, ddl_to_arrow)
    known = known | {OP: pa.array(np.full(count, op, np.int8)), SEQ: pa.array(np.zeros(count, np.int64))}
    columns = {field.name: known.get(field.name, pa.nulls(count, field.type)) for field in target}
    return pa.table(columns).cast(target)


def _first_of_each(entries: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Marks the first row of each entry; a fold leaves the rows of an entry side by side."""
    rows = list(zip(*(entries.column(name).to_pylist() for name in entries.column_names), strict=True))
    return np.array([index == 0 or row != rows[index - 1] for index, row in enumerate(rows)], dtype=bool)


def _stamped_in(schema: StateSchema) -> str:
    return "processing" if schema.ttl is None else schema.ttl.time


__all__ = ["converted", "earliest", "numbered", "only_keys", "removals", "resets", "within"]
