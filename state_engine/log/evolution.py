"""Handles changed types of states: whether a change is allowed, what the manifest records, and how rows convert. Pure.

The types that a state had form a line: `former[0] → former[1] → … → value`. Rows are converted step by step, from the
type in which they were written. So a field that was dropped and comes back is a new field, whether or not a fold
happened in between.
"""

from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from state_engine.api.type_hints import parse_ddl
from state_engine.errors import StateTypeChangedError
from state_engine.log.ops import VALUE
from state_engine.log.records import DeclaredChanges, FormerType, StateSchema
from state_engine.log.state_ttl import ALL
from state_engine.serialization.column import Column
from state_engine.serialization.evolution import IncompatibleTypesError, conversion, conversion_of_ddl
from state_engine.serialization.types import ddl_to_arrow, from_arrow

_ACTION = (
    "Declare it as it was, give the new state another name, or convert the values with migrate_from() of the "
    "descriptor (docs/schema-evolution.md)."
)
_REMEDY = "Declare it as it was, or give the new state another name: this cannot change (docs/schema-evolution.md)."


def evolve(known: StateSchema, found: StateSchema, until: int) -> StateSchema:
    """Returns a known schema with the type that a state has now; settings of a time to live stay as they are.

    Args:
        known: The schema in the log.
        found: The same state as the code declares it, with its declarations about earlier types.
        until: The last epoch with rows that were written under `known`.

    Raises:
        StateTypeChangedError: Its values cannot become values of the new type, or something changed that has to stay.
    """
    if known.schema_id == found.schema_id:
        return known
    differences = _what_has_to_stay(known, found)
    if differences or known.value == found.value:
        raise _changed(found, "; ".join(differences) or "only its schema id", _REMEDY)
    declared = found.declared or DeclaredChanges()
    former = FormerType(until=until, schema_id=known.schema_id, value=known.value)
    if known.value in declared.migrates_from:
        former = replace(former, by_function=True)
    else:
        try:
            converted = conversion(parse_ddl(known.value), parse_ddl(found.value), declared.aliases, declared.defaults)
        except IncompatibleTypesError as error:
            raise _changed(found, _spell(known, found, error), _ACTION) from None
        former = replace(former, renamed=converted.renamed, defaults=converted.defaults)
    return replace(known, schema_id=found.schema_id, value=found.value, former=(*known.former, former))


def dropped_fields(known: StateSchema, found: StateSchema) -> tuple[str, ...]:
    """Returns the paths of the fields that nothing reads once a state has the type that the code declares.

    It returns no fields if one type cannot become the other (then `evolve` raises), or if the author's function
    converts the values.
    """
    declared = found.declared or DeclaredChanges()
    if known.value == found.value or known.value in declared.migrates_from:
        return ()
    try:
        return conversion(parse_ddl(known.value), parse_ddl(found.value), declared.aliases, declared.defaults).dropped
    except IncompatibleTypesError:
        return ()


def is_migrated(known: StateSchema, found: StateSchema) -> bool:
    """Returns whether the author's function converts between two schemas; the next epoch then writes the whole state.

    If its shape, key, namespace or user key differs, the state is not migrated.
    """
    declared = found.declared
    changed = known.schema_id != found.schema_id and not _what_has_to_stay(known, found)
    return changed and declared is not None and known.value in declared.migrates_from


def reported(schema: StateSchema, known: StateSchema | None) -> StateSchema:
    """Returns a schema for an ack: without its declarations about earlier types, once the log has its type.

    Args:
        schema: As the code declares it.
        known: The schema in the log, if the log has the state.
    """
    has_type = known is not None and known.schema_id == schema.schema_id
    return replace(schema, declared=None) if has_type and schema.declared is not None else schema


def types_of(schema: StateSchema) -> tuple[str, ...]:
    """Returns all types that a state had, the current one last."""
    return (*(former.value for former in schema.former), schema.value)


def fitted(source: StateSchema, now: StateSchema) -> StateSchema:
    """Returns the schema with which `convert_rows`, for epoch 0, converts live rows of another epoch to the type now.

    If the types of `source` are the first of the types of `now`, the rows are converted step by step, as the log's own
    rows were. Otherwise (another job, an abandoned generation) one step leads from the one type to the other, as at a
    start with code that says nothing about earlier types.

    Args:
        source: The state at the epoch that the rows come from.
        now: The same state where the rows will be written.

    Raises:
        StateTypeChangedError: The values cannot become values of the type in `now`.
    """
    if source.schema_id == now.schema_id:
        return replace(now, former=())
    before, since = types_of(source), types_of(now)
    if differences := _what_has_to_stay(source, now):
        raise _changed(now, "; ".join(differences), _REMEDY)
    if since[: len(before)] != before:
        return evolve(replace(source, former=()), replace(now, former=()), ALL)
    steps = now.former[len(source.former) :]
    if any(former.by_function for former in steps):
        raise _changed(
            now,
            f"a function has converted its values since from {source.value} to {now.value}, and the log does not "
            "have that function",
            "Restore a savepoint that is newer than the conversion, or the whole job with code that converts.",
        )
    return replace(now, former=tuple(replace(former, until=ALL) for former in steps))


def counts(schema: StateSchema, epoch: int) -> bool:
    """Returns whether rows of an epoch (or of a base of that epoch) are still part of the state."""
    return not any(former.by_function and epoch <= former.until for former in schema.former)


def convert_rows(schema: StateSchema, rows: pa.Table, epoch: int) -> pa.Table:
    """Returns rows in the type that the state has now; everything but `value` stays as it is.

    Args:
        schema: The state; rows of the epoch count (`counts`).
        rows: In the columns of the log.
        epoch: The one in which they were written, or folded to a base: it decides which type they should have.

    Raises:
        StateTypeChangedError: They have another type.
    """
    steps = [former for former in schema.former if epoch <= former.until]
    types = [*(former.value for former in steps), schema.value]
    index = rows.schema.get_field_index(VALUE)
    if index < 0:
        raise KeyError(VALUE)
    column: Any = rows.column(index)
    if not steps and column.type == ddl_to_arrow(schema.value):
        return rows
    if column.type != ddl_to_arrow(types[0]):
        if from_arrow(column.type) != parse_ddl(types[0]):
            raise StateTypeChangedError(
                f"State {schema.name!r} of operator {schema.uid!r} has rows of {from_arrow(column.type)} from epoch "
                f"{epoch}, when its type was {types[0]}.",
                action="Another program wrote them; restore an older checkpoint or savepoint.",
            )
        column = column.cast(ddl_to_arrow(types[0]))  # another layout of the same type, such as large strings
    for former, new in zip(steps, types[1:], strict=True):
        aliases = tuple((path, (name,)) for path, name in former.renamed.items())
        convert = conversion_of_ddl(former.value, new, aliases, tuple(former.defaults.items()))
        target: Any = ddl_to_arrow(new)
        column = pa.chunked_array([convert(chunk) for chunk in column.chunks], target)
    return rows.set_column(index, pa.field(VALUE, column.type), column)


def _what_has_to_stay(known: StateSchema, found: StateSchema) -> list[str]:
    fields = {
        "shape": (known.shape, found.shape),
        "key": (_columns(known.key), _columns(found.key)),
        "namespace": (known.namespace, found.namespace),
        "user key": (known.user_key, found.user_key),
    }
    return [f"{field} was {old}, is {new}" for field, (old, new) in fields.items() if old != new]


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _spell(known: StateSchema, found: StateSchema, error: IncompatibleTypesError) -> str:
    if not error.path:
        return str(error)
    return f"field {error} (value was {known.value}, is {found.value})"


def _changed(schema: StateSchema, differences: str, action: str) -> StateTypeChangedError:
    return StateTypeChangedError(
        f"State {schema.name!r} ({schema.kind}) of operator {schema.uid!r} changed: {differences}.", action=action
    )


__all__ = ["convert_rows", "counts", "dropped_fields", "evolve", "fitted", "is_migrated", "reported", "types_of"]
