"""Workload `dagster_ticks`: how long a tick of Dagster's checkpoint reporter takes, and a load of its code location."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.runner import EngineFailedError, run_child
from benchmarks.tick_model import Tick, TickCase

ROWS = "rows.json"


class TickReport(NamedTuple):
    """Rows, and failures."""

    results: list[Tick]
    failures: list[str]


def measure(
    folder: Path, tell: Callable[[str], None], checkpoints: int, states: int, keys: int, events: int, rounds: int
) -> TickReport:
    """Runs all forms over one history, in a separate process, and returns their rows.

    Args:
        folder: Folder for the state.
        tell: Called with lines of progress.
        checkpoints: Number of rows of `_checkpoints`.
        states: Number of states of the job.
        keys: Number of keys of each state.
        events: Number of events of the previous checkpoint in Dagster.
        rounds: How often each form is measured.
    """
    work = folder / f"ticks-{checkpoints}"
    case = TickCase(checkpoints=checkpoints, states=states, keys=keys, events=events, rounds=rounds, work=str(work))
    tell(f"running ticks over {checkpoints:,} checkpoints")
    try:
        run_child("benchmarks.tick_child", msgspec.json.encode(case), work, "ticks")
    except EngineFailedError as error:
        tell(str(error))
        return TickReport([], [str(error)])
    rows = msgspec.json.decode((work / ROWS).read_bytes(), type=list[Tick])
    shutil.rmtree(work)
    return TickReport(rows, [])


def show(rows: Sequence[Tick], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    for name in ("form", "checkpoints", "states", "runs", "median s", "max s", "events", "results"):
        shown.add_column(name, justify="left" if name == "form" else "right", no_wrap=True)
    for row in rows:
        shown.add_row(
            row.form,
            f"{row.checkpoints:,}",
            str(row.states),
            str(row.runs),
            f"{row.median_seconds:.3f}",
            f"{row.max_seconds:.3f}",
            str(row.events),
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["ROWS", "TickReport", "measure", "show"]
