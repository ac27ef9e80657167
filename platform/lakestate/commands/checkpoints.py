"""`lakestate checkpoints`: the history of a job's checkpoints."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import (
    AsJson,
    Job,
    Root,
    add_row,
    make_console,
    make_table,
    named_errors,
    print_json,
    print_title,
)
from lakestate.commands.formats import format_bytes, format_count, format_duration, number_of
from state_engine.clock import SystemClock

if TYPE_CHECKING:
    from state_engine.checkpoint.statistics import CheckpointStatistics, Spread
    from state_engine.checkpoint.table import CheckpointRow

_COLOURS = {"completed": "green", "failed": "red", "declined": "red", "expired": "red"}


def checkpoints(
    job: Job,
    root: Root,
    limit: Annotated[
        int, typer.Option(min=1, help="Number of checkpoints to show, newest first. The summary covers these.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the checkpoints of a job: counts, history with failure reasons, and a summary."""
    with named_errors():
        from state_engine.errors import NothingToRestoreError
        from state_engine.inspect import open_job

        view = open_job(root, job)
        if view.newest() is None:
            raise NothingToRestoreError(
                f"Job {job!r} has no sealed epoch.",
                action="Check root and name of the job (`lakestate list`), or run it once.",
            )
        statistics = view.checkpoint_statistics(history=limit)
        if as_json:
            print_json(statistics)
        else:
            _print(make_console(), job, statistics, SystemClock().now_ms())


def _print(console: Console, job: str, found: "CheckpointStatistics", now_ms: int) -> None:
    counts = found.counts
    console.print(Text(f"{job}: {number_of(counts.completed, 'checkpoint')} completed, {counts.failed:,} failed"))
    if not found.history:
        return
    figures = ("epoch", "ended", "took", "written", "state", "rows")
    table = make_table("id", "status", "wrote", *figures, right=figures)
    for row in found.history:
        add_row(
            table,
            row.id,
            Text(row.status, style=_COLOURS.get(row.status, "yellow")),
            {"FULL": "all", "INCREMENTAL": "changes"}.get(row.type or "", row.type),
            f"{row.generation}/{row.epoch}",
            f"{format_duration(now_ms - row.completed_at)} ago",
            format_duration(row.duration_ms),
            format_bytes(row.bytes),
            format_bytes(row.state_bytes),
            format_count(row.rows),
        )
    console.print(table)
    for row in found.history:
        if row.failure:
            console.print(Text(f"{row.id} {row.status}: {row.failure}"))
    if found.summary is not None:
        _print_summary(console, found)
    if found.latest.completed is not None:
        _print_phases(console, found.latest.completed)


def _print_summary(console: Console, found: "CheckpointStatistics") -> None:
    assert found.summary is not None
    completed = sum(row.status == "completed" for row in found.history)
    print_title(console, f"the {completed} completed ones of these" if completed > 1 else "the completed one of these")
    figures = ("least", "mean", "most", "median", "99 %")
    table = make_table("", *figures, right=figures)

    def add(name: str, spread: "Spread", shown: Callable[[float], str]) -> None:
        quantiles = (spread.quantiles[0], spread.quantiles[3])
        add_row(table, name, *map(shown, (spread.minimum, spread.average, spread.maximum, *quantiles)))

    add("took", found.summary.duration_ms, format_duration)
    add("written", found.summary.bytes, format_bytes)
    add("state", found.summary.state_bytes, format_bytes)
    console.print(table)


def _print_phases(console: Console, row: "CheckpointRow") -> None:
    """Prints the newest completed checkpoint, state by state, with the largest key group of each."""
    phases = ", ".join(f"{name} {format_duration(ms)}" for name, ms in row.phases_ms.items())
    print_title(console, f"checkpoint {row.id}{': ' if phases else ''}{phases}")
    figures = ("rows", "groups", "largest", "log rows", "size")
    table = make_table("state", "wrote", *figures, right=figures)
    for state in row.states:
        largest = (
            f"{format_count(state.largest_group_rows)} in {state.largest_group}" if state.largest_group_rows else ""
        )
        add_row(
            table,
            f"{state.uid}/{state.state}",
            "all" if state.full else "changes",
            format_count(state.changed_rows),
            format_count(state.groups),
            largest,
            format_count(state.log_rows),
            format_bytes(state.bytes),
        )
    console.print(table)


__all__ = ["checkpoints"]
