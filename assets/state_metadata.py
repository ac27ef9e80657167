"""Metadata on the page of a state, besides figures: columns, rows per key group as table and picture, a few rows."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from lakestate.assets.key_group_image import key_group_image
from lakestate.assets.metadata import Metadata
from lakestate.policies.limits import spread_of
from state_engine.log.ops import KEY_GROUP, LAST_ACCESS, OP, POSITION, SEQ, table_schema
from state_engine.log.records import StateSchema
from state_engine.serialization.types import ddl_to_arrow

GROUPS_SHOWN = 20
_WIDTH = 60
_MEANS = {
    KEY_GROUP: "the key group of the key's hash",
    OP: "put, append, delete, clear or reset_group",
    POSITION: "the epoch that wrote the row",
    SEQ: "its place in the epoch",
    LAST_ACCESS: "in ms, for states with a time to live",
}


def column_schema(schema: StateSchema | None) -> dg.TableSchema:
    """Returns the columns of a state's table, with the types that its author declared; none if they are not known."""
    if schema is None:
        return dg.TableSchema([])
    types = {column.name: column.type for column in schema.key} | {"value": schema.value, OP: "string"}
    types |= {"namespace": schema.namespace or "string", "user_key": schema.user_key or ""}
    types |= {KEY_GROUP: "int", POSITION: "bigint", SEQ: "bigint", LAST_ACCESS: "bigint"}
    names = table_schema(schema, ddl_to_arrow).names
    return dg.TableSchema([dg.TableColumn(name, types[name], description=_MEANS.get(name)) for name in names])


def spread_metadata(groups: Sequence[float]) -> Metadata:
    """Returns how the rows of a state are spread over the key groups: the skew, the largest key groups, a picture.

    Args:
        groups: Rows of its log in each key group; empty for a state without key groups.
    """
    spread = spread_of(groups)
    largest = sorted(range(len(groups)), key=lambda group: -groups[group])[:GROUPS_SHOWN]
    mean = spread.rows / len(groups) if groups else 0.0
    records = [
        dg.TableRecord(
            {"key_group": group, "rows": round(groups[group]), "times_the_mean": round(groups[group] / mean, 2)}
        )
        for group in largest
        if groups[group]
    ]
    columns = [
        dg.TableColumn("key_group", "int"),
        dg.TableColumn("rows", "int", description="of the log, deletes included"),
        dg.TableColumn("times_the_mean", "float"),
    ]
    return {
        "skew": dg.MetadataValue.float(round(spread.skew, 3)) if spread.skew is not None else dg.MetadataValue.null(),
        "largest_key_groups": dg.MetadataValue.table(records, schema=dg.TableSchema(columns)),
        "key_groups": dg.MetadataValue.md(key_group_image(groups) or "No rows by key group."),
    }


def sample_markdown(rows: pa.Table | None) -> dg.MarkdownMetadataValue:
    """Returns a few rows of a state as a table: its key, user key, namespace and value."""
    if rows is None or not rows.num_rows:
        return dg.MetadataValue.md("No rows to show.")
    hidden = {KEY_GROUP, POSITION, SEQ, LAST_ACCESS}
    names = [
        name
        for name in rows.column_names
        if name not in hidden and not (name == "namespace" and rows[name].null_count == rows.num_rows)
    ]
    lines = [_line(names), _line(["---"] * len(names))]
    lines += [_line([_cell(row[name]) for name in names]) for row in rows.select(names).to_pylist()]
    return dg.MetadataValue.md("\n".join(lines))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    """Returns a value as text that cannot end its cell and is not read as Markdown."""
    text = f"{len(value):,} bytes" if isinstance(value, bytes) else str(value)
    text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`" if text.strip() else "` `"


__all__ = ["GROUPS_SHOWN", "column_schema", "sample_markdown", "spread_metadata"]
