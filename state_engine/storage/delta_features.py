"""Finds what a Delta table requires of its writers that a commit of finished files cannot give.

Tasks write output as plain Parquet, and a raw commit adds it; no writer checks its rows, and a restore removes whole
files again. A table that needs more would be damaged without an error, so it is refused before anything is written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from state_engine.storage.table_log import Obstacle

# Each of these either does not matter for finished files, or the code below checks the property that switches it on.
_UNDERSTOOD = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "variantType",  # delta-rs lists it by itself; a column of that type does not fit any output
    }
)
_FEATURES_VERSION = 7

_ON_COLUMNS = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "column invariants",
    "CURRENT_DEFAULT": "columns with default values",
    "__CHAR_VARCHAR_TYPE_STRING": "columns of limited length",
}


def obstacles(table: DeltaTable, partition_by: Sequence[str] = ()) -> list[Obstacle]:
    """Returns all reasons why files of ours cannot be added or removed again; changes nothing.

    Args:
        table: The table.
        partition_by: The columns by which the files are divided.
    """
    metadata = table.metadata()
    reasons = list(_of_properties(metadata.configuration))
    if (found := list(metadata.partition_columns)) != list(partition_by):
        what = f"it is partitioned by {_named(found)}" if found else "it is not partitioned"
        remedy = f"say partition_by={found}" if found else "leave partition_by out"
        reasons.insert(0, Obstacle(what, remedy))
    reasons += _of_columns([field.to_json() for field in table.schema().fields])
    reasons += _of_protocol(table)
    return reasons


def _of_properties(properties: Mapping[str, str | None]) -> Iterator[Obstacle]:
    mode = properties.get("delta.columnMapping.mode") or "none"
    if mode.lower() != "none":
        yield Obstacle(f"its columns are mapped by {mode}", "take a table without column mapping")
    if _is_on(properties, "delta.enableDeletionVectors"):
        # A file with a deletion vector is another file to Delta: a restore that removes it by its path would miss it.
        yield Obstacle("deletion vectors are enabled", "drop the table feature deletionVectors")
    if _is_on(properties, "delta.appendOnly"):
        yield Obstacle("it is append-only, so that no restore could remove output", "unset delta.appendOnly")
    prefix = "delta.constraints."
    if constraints := sorted(name.removeprefix(prefix) for name in properties if name.startswith(prefix)):
        yield Obstacle(f"it has CHECK constraints {_named(constraints)}", "drop the constraints")
    if properties.get("delta.setTransactionRetentionDuration"):
        # The application transaction is what distinguishes a repeated commit from a new one.
        yield Obstacle(
            "it forgets application transactions, so that output could be added twice",
            "unset delta.setTransactionRetentionDuration",
        )


def _is_on(properties: Mapping[str, str | None], name: str) -> bool:
    return (properties.get(name) or "").lower() == "true"


def _of_columns(fields: list[str]) -> Iterator[Obstacle]:
    columns = [json.loads(field) for field in fields]
    for key, kind in _ON_COLUMNS.items():
        if names := [column["name"] for column in columns if key in column["metadata"]]:
            yield Obstacle(f"it has {kind} {_named(names)}", f"take a table without {kind}")
    if names := [column["name"] for column in columns if _holds_not_null(column)]:
        # Any column of an output may be null.
        yield Obstacle(f"it has NOT NULL columns {_named(names)}", "drop NOT NULL")


def _holds_not_null(node: Any) -> bool:
    """Returns whether a column, or anything nested in it, refuses null; it is given as in Delta's JSON schema."""
    if not isinstance(node, dict):
        return False
    if any(node.get(key) is False for key in ("nullable", "containsNull", "valueContainsNull")):
        return True
    inner = [node.get(key) for key in ("type", "elementType", "valueType")]
    return any(_holds_not_null(child) for child in [*inner, *node.get("fields", ())])


def _of_protocol(table: DeltaTable) -> Iterator[Obstacle]:
    protocol = table.protocol()
    if protocol.min_writer_version > _FEATURES_VERSION:
        yield Obstacle(
            f"it needs writers of version {protocol.min_writer_version}", "take a table of an older protocol"
        )
    if unknown := sorted(set(protocol.writer_features or ()) - _UNDERSTOOD):
        yield Obstacle(f"it needs writers that know {', '.join(unknown)}", "drop these table features")


def _named(names: list[str]) -> str:
    return ", ".join(map(repr, names))


__all__ = ["Obstacle", "obstacles"]
