"""Runs `requests` at each size in a separate process, and shows its rows."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.requests.model import ROW, RequestCase, RequestRow
from benchmarks.runner import EngineFailedError, run_child

ABOUT = "The requests of a job with its root and its table in a bucket, and what they cost."
FULL: Mapping[int, int] = MappingProxyType({2: 20, 16: 20, 128: 5})
"""Number of epochs, by number of subtasks."""
SMALL: Mapping[int, int] = MappingProxyType({2: 3})
RECORDS_EACH = 8
"""Number of records of each subtask in an epoch, on average."""


class RequestReport(NamedTuple):
    """Rows, and failures."""

    results: list[RequestRow]
    failures: list[str]


def measure(folder: Path, tell: Callable[[str], None], sizes: Mapping[int, int]) -> RequestReport:
    """Runs all sizes one after the other, with changes in the manifest and in files.

    Args:
        folder: Folder for input and Spark's directory.
        tell: Called with lines of progress.
        sizes: Numbers of epochs, by number of subtasks.
    """
    report = RequestReport([], [])
    for subtasks, epochs in sizes.items():
        for inlined in (True, False):
            work = folder / f"requests-{subtasks}-{inlined}"
            records = RECORDS_EACH * subtasks
            case = RequestCase(subtasks=subtasks, inlined=inlined, epochs=epochs, records=records, work=str(work))
            changes = "in the manifest" if inlined else "in files"
            tell(f"running {epochs} epochs of {subtasks} subtasks, changes {changes}")
            try:
                run_child("benchmarks.requests.child", msgspec.json.encode(case), work, f"{subtasks} subtasks")
            except EngineFailedError as error:
                tell(str(error))
                report.failures.append(str(error))
                continue
            report.results.extend(msgspec.json.decode((work / ROW).read_bytes(), type=list[RequestRow]))
            shutil.rmtree(work)
    return report


def show(rows: Sequence[RequestRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    shown.add_column("what")
    shown.add_column("changes")
    for name in ("subtasks", "PUT", "GET", "HEAD", "LIST", "DELETE", "$ per 1,000", "results"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(
            f"{row.phase} of {row.epochs} epochs" if row.phase == "checkpoint" else row.phase,
            row.changes,
            str(row.subtasks),
            *(f"{number:,.1f}" for number in (row.put, row.get, row.head, row.list, row.delete)),
            f"{1_000 * row.dollars:.3f}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["ABOUT", "FULL", "SMALL", "RequestReport", "measure", "show"]
