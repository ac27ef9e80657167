"""Metadata of a restore: the part that it replaced, rows before and after, and the epoch that it sealed."""

from collections.abc import Iterable, Sequence

import dagster as dg

from lakestate.assets.metadata import Metadata
from lakestate.assets.ranges import joined_names
from state_engine.key_groups import KeyGroupRange
from state_engine.log.records import Origin
from state_engine.savepoint import KeyGroupRestore
from state_engine.savepoint.restore_report import WholeRestore

ROWS = 20
"""Maximum number of rows of a table."""
NOT_REPLAYED = "Input since the savepoint is not replayed for these keys; sinks keep their output."
REPLAYED = "Input since the savepoint is read again; Delta sinks were rewound to it."
KEPT_OUTPUT = "Input since the savepoint is read again; sinks keep their output."


def part_metadata(report: KeyGroupRestore, groups: Sequence[KeyGroupRange], *, running: bool, uri: str) -> Metadata:
    """Returns what is recorded of a restore of key groups, or of its dry run.

    Args:
        report: Of the engine.
        groups: Key groups that were chosen.
        running: Whether the job ran meanwhile.
        uri: Folder of the job.
    """
    written = [(state.uid, state.state, state.kind, state.removed, state.written) for state in report.states]
    return {
        **_common(report.source, groups, written, running=running, uri=uri),
        "landed_in": _landed(report.sealed),
        "onto_epoch": dg.MetadataValue.int(report.onto),
        "untouched": dg.MetadataValue.json(
            {operator.uid: list(operator.untouched) for operator in report.operators if operator.untouched}
        ),
        "input": dg.MetadataValue.text(NOT_REPLAYED),
    }


def whole_metadata(
    report: WholeRestore, groups: Sequence[KeyGroupRange], *, keep_output: bool, running: bool, uri: str
) -> Metadata:
    """Returns what is recorded of a restore of a whole job, or of its dry run; arguments as of `part_metadata`."""
    states = [(state.uid, state.state, state.kind, None, state.rows) for state in report.states if state.fate != "left"]
    skipped = [f"{state.uid}/{state.state}" for state in report.states if state.fate == "left"]
    return {
        **_common(report.source, groups, states, running=running, uri=uri),
        "landed_in": _landed(report.sealed),
        "onto_epoch": dg.MetadataValue.int(report.onto[1] if report.onto is not None else 0),
        "untouched": dg.MetadataValue.json({"left behind": skipped} if skipped else {}),
        "input": dg.MetadataValue.text(KEPT_OUTPUT if keep_output else REPLAYED),
    }


def empty_metadata(savepoint_id: str, max_parallelism: int, *, uri: str) -> Metadata:
    """Returns what is recorded of ranges without key groups, which exist if a savepoint has fewer than sixteen."""
    return {
        "savepoint_id": dg.MetadataValue.text(savepoint_id),
        "key_groups": dg.MetadataValue.text("none"),
        "key_group_count": dg.MetadataValue.int(0),
        "dagster/row_count": dg.MetadataValue.int(0),
        "timers": dg.MetadataValue.int(0),
        "note": dg.MetadataValue.text(
            f"The savepoint has {max_parallelism} key groups, and none of them is in the chosen ranges."
        ),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


def refusals_table(refusals: Iterable[tuple[str, str, str]]) -> dg.TableMetadataValue:
    """Returns reasons as a table: error, message, what to do."""
    rows = [(error, message, action) for error, message, action in refusals][:ROWS]
    return _table(("error", "message", "what to do"), rows)


def _common(
    source: Origin,
    groups: Sequence[KeyGroupRange],
    states: Sequence[tuple[str, str, str, int | None, int]],
    *,
    running: bool,
    uri: str,
) -> Metadata:
    largest = sorted(states, key=lambda state: -state[4])[:ROWS]
    before = [removed for *_, removed, _ in states if removed is not None]
    return {
        "savepoint_id": dg.MetadataValue.text(source.savepoint_id or ""),
        "savepoint_epoch": dg.MetadataValue.text(f"{source.generation}/{source.epoch}"),
        "key_groups": dg.MetadataValue.text(joined_names(groups)),
        "key_group_count": dg.MetadataValue.int(sum(one.size for one in groups)),
        "dagster/row_count": dg.MetadataValue.int(sum(written for *_, written in states)),
        "rows_before": dg.MetadataValue.int(sum(before)) if before else dg.MetadataValue.null(),
        "timers": dg.MetadataValue.int(sum(written for _, _, kind, _, written in states if kind == "timer")),
        "state_count": dg.MetadataValue.int(len(states)),
        "states": _table(("operator", "state", "kind", "rows before", "rows after"), largest),
        "job_was_running": dg.MetadataValue.bool(running),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


def _landed(sealed: tuple[int, int] | None) -> dg.TextMetadataValue:
    return dg.MetadataValue.text(f"{sealed[0]}/{sealed[1]}" if sealed is not None else "nowhere: it was a dry run")


def _table(columns: Sequence[str], rows: Sequence[tuple[str | int | None, ...]]) -> dg.TableMetadataValue:
    """Returns a table. A column has the type of its first value; an unknown value is an empty cell."""
    first = rows[0] if rows else ("",) * len(columns)
    kinds = ["int" if isinstance(value, int) else "string" for value in first]
    schema = dg.TableSchema([dg.TableColumn(name, kind) for name, kind in zip(columns, kinds, strict=True)])
    records = [dg.TableRecord(dict(zip(columns, ("" if v is None else v for v in row), strict=True))) for row in rows]
    return dg.MetadataValue.table(records, schema)


__all__ = [
    "KEPT_OUTPUT",
    "NOT_REPLAYED",
    "REPLAYED",
    "ROWS",
    "empty_metadata",
    "part_metadata",
    "refusals_table",
    "whole_metadata",
]
