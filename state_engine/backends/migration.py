"""Migrates values of an earlier type with the author's function: `descriptor.migrate_from(old_type, function)`.

A backend loads the live rows in the old type and converts them. It writes the whole state with its next epoch: a
`reset_group` for each of its key groups, then all rows. From then on the function is no longer needed.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.causes import WorkerEndsError, cause_line, sentence, shown
from state_engine.errors import StateMigrationError
from state_engine.key_groups import KeyGroupRange
from state_engine.log import ops as log
from state_engine.log.fold import fold
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import forget_unknown
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.types import ddl_to_arrow

_ACTION = "Fix the function and start again; nothing of the epoch was kept, and the state is unchanged."


def migrate(
    restored: StateSchema, schema: StateSchema, descriptor: StateDescriptor, rows: Iterable[pa.Table]
) -> pa.Table:
    """Returns the live rows of a state in its new type; the time of their last access stays.

    Args:
        restored: The state as the log has it.
        schema: The state as the code declares it.
        descriptor: Of the code, with a function for the old type (`log.evolution.is_migrated`).
        rows: The log of the state, in the old type.

    Raises:
        StateMigrationError: The function raised, or returned what the new type does not admit.
    """
    migration = next(m for m in descriptor.changes.migrations if m.old_type.ddl() == restored.value)
    empty = log.log_schema(restored, ddl_to_arrow, position=True).empty_table()
    live = forget_unknown(fold(restored, [empty, *rows]), restored.unknown_until)
    old = reader(migration.old_type)(live.column(log.VALUE))
    new: list[Any] = []
    value: Any = None
    try:
        for value in old:
            new.append(None if value is None else migration.function(value))
    except WorkerEndsError:
        raise
    except BaseException as error:
        raise _failed(schema, live, len(new), value, f"raised {sentence(cause_line(error, value))}") from error
    try:
        column = writer(descriptor.type_info)(new)
    except ValueTypeError as error:
        where = f"field {error.path!r}: " if error.path else ""
        raise _failed(schema, live, error.index, old[error.index], f"returned another type: {where}{error}.") from None
    index = live.schema.get_field_index(log.VALUE)
    return live.set_column(index, pa.field(log.VALUE, column.type), column)


def rewritten(schema: StateSchema, rows: pa.Table, key_groups: KeyGroupRange, seq: int) -> pa.Table:
    """Returns what an epoch writes of a migrated state before its own changes, sorted as in a change file.

    Args:
        schema: The state.
        rows: What `migrate` returned.
        key_groups: Of the backend; each one is reset, whatever it contains.
        seq: Number of the first row.
    """
    target = log.log_schema(schema, ddl_to_arrow)
    groups = np.arange(key_groups.first, key_groups.last + 1, dtype=np.int32)
    ops = np.full(len(groups), log.Op.RESET_GROUP, dtype=np.int8)
    resets: dict[str, Any] = {log.KEY_GROUP: pa.array(groups), log.OP: pa.array(ops), log.SEQ: pa.array(groups * 0)}
    columns = [resets.get(f.name, pa.nulls(len(groups), f.type)).cast(f.type) for f in target]
    whole = sorted_by_group([pa.table(columns, schema=target), rows.select(target.names).cast(target)])
    index = target.get_field_index(log.SEQ)
    return whole.set_column(index, target.field(index), pa.array(np.arange(seq, seq + whole.num_rows, dtype=np.int64)))


def sorted_by_group(tables: list[pa.Table]) -> pa.Table:
    """Returns tables of one state as one table, sorted by key group. Within a key group the rows keep their order."""
    together = pa.concat_tables(tables)
    order: Any = pa.array(np.argsort(together.column(log.KEY_GROUP).to_numpy(), kind="stable"))
    return together.take(order)


def _failed(schema: StateSchema, live: pa.Table, index: int, value: object, what: str) -> StateMigrationError:
    key = ", ".join(shown(live.column(column.name)[index].as_py()) for column in schema.key)
    return StateMigrationError(
        f"The function that migrates state {schema.name!r} of operator {schema.uid!r} to {schema.value} {what} "
        f"Key: {key}. Value: {shown(value)}.",
        action=_ACTION,
    )


__all__ = ["migrate", "rewritten", "sorted_by_group"]
