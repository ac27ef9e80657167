"""Workload `latency`: runs each engine in its own process, and shows the rows."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.latency.model import ENGINES, LATENCY, Engine, LatencyCase, LatencyRow
from benchmarks.runner import EngineFailedError, run_child

ABOUT = "From the name of a file of 1,000 records to its rows in a Delta table, next to Spark with and without state."
ROWS = "rows.json"


class Plan(NamedTuple):
    """What is measured: engines, numbers of keys, trigger intervals of Lakestate in ms, and numbers of files."""

    engines: Sequence[Engine] = ENGINES
    keys: Sequence[int] = (100_000,)
    triggers: Sequence[int] = (0,)
    warm: int = 15
    files: int = 100


class LatencyReport(NamedTuple):
    """Rows, and failures."""

    results: list[LatencyRow]
    failures: list[str]


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> LatencyReport:
    """Runs all cases, one after the other.

    Args:
        plan: What is measured.
        folder: Folder for input, state and tables.
        tell: Called with lines of progress.
    """
    report = LatencyReport([], [])
    for keys in plan.keys:
        for engine in plan.engines:
            for trigger in plan.triggers if engine.startswith("lakestate") else plan.triggers[:1]:
                tell(f"{LATENCY}: {engine}, {keys:,} keys" + (f", an epoch each {trigger} ms" if trigger else ""))
                work = folder / f"{engine.replace('/', '-')}-{keys}-{trigger}"
                own = trigger if engine.startswith("lakestate") else 0
                case = LatencyCase(
                    engine=engine, keys=keys, warm=plan.warm, files=plan.files, trigger_interval_ms=own, work=str(work)
                )
                try:
                    run_child("benchmarks.latency.child", msgspec.json.encode(case), work, engine)
                except EngineFailedError as error:
                    tell(str(error))
                    report.failures.append(str(error))
                    continue
                report.results.extend(msgspec.json.decode((work / ROWS).read_bytes(), type=list[LatencyRow]))
                shutil.rmtree(work)
    return report


def show(rows: Sequence[LatencyRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    texts = ("engine", "pace")
    heads = ("engine", "keys", "interval ms", "pace", "files", "p50 ms", "p90 ms", "p99 ms", "max ms")
    for head in (*heads, "commits/h", "files/h", "results"):
        shown.add_column(head, justify="left" if head in texts else "right", no_wrap=True)
    for row in rows:
        figures = (row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)
        shown.add_row(
            row.engine,
            f"{row.keys:,}",
            f"{row.trigger_interval_ms:,}",
            row.pace,
            str(row.files),
            *(f"{figure:,.0f}" for figure in figures),
            f"{row.commits_per_hour:,}",
            f"{row.files_per_hour:,}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["ABOUT", "ROWS", "LatencyReport", "Plan", "measure", "show"]
