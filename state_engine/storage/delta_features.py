"""What a Delta table may ask of its writers that a commit of finished files cannot give.

Output is written as plain Parquet by the tasks and added by a raw commit; nothing looks at its rows, and a restore
removes whole files again. A table that needs more would be damaged without an error, so it is refused up front.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import DeltaTable

from state_engine.storage.table_log import Obstacle

# Each is either of no concern to finished files, or looked for below by what switches it on.
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
        "variantType",  # delta-rs lists it on its own account; a column of that type does not fit any output
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


def obstacles(table: DeltaTable) -> list[Obstacle]:
    """Returns all that stands in the way of adding and removing files of ours; changes nothing."""
    metadata = table.metadata()
    found = list(_of_properties(metadata.configuration))
    if metadata.partition_columns:
        found.insert(0, Obstacle(f"it is partitioned by {_named(metadata.partition_columns)}", "take a flat table"))
    found += _of_columns([field.to_json() for field in table.schema().fields])
    found += _of_protocol(table)
    return found


def _of_properties(properties: Mapping[str, str | None]) -> Iterator[Obstacle]:
    mode = properties.get("delta.columnMapping.mode") or "none"
    if mode.lower() != "none":
        yield Obstacle(f"its columns are mapped by {mode}", "take a table without column mapping")
    if _is_on(properties, "delta.enableDeletionVectors"):
        # A file with a deletion vector is another file to Delta: a restore that removes it by its path would miss it.
        yield Obstacle("deletion vectors are enabled", "drop the table feature deletionVectors")
    if _is_on(properties, "delta.appendOnly"):
        yield Obstacle("it is append-only, so that no restore could take output back", "unset delta.appendOnly")
    prefix = "delta.constraints."
    if constraints := sorted(name.removeprefix(prefix) for name in properties if name.startswith(prefix)):
        yield Obstacle(f"it has CHECK constraints {_named(constraints)}", "drop the constraints")
    if properties.get("delta.setTransactionRetentionDuration"):
        # The application transaction is what tells a commit that comes again from a new one.
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
    """Says whether a column, or anything nested in it, refuses null; as Delta writes schemas in JSON."""
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
