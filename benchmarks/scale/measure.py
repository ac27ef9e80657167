"""Runs `scale` at each size in a separate process, and shows its rows."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.runner import EngineFailedError, run_child
from benchmarks.scale.model import ROW, ScaleCase, ScaleRow

ABOUT = "The driver of a job with up to a thousand subtasks, without Spark: epochs, checkpoints, starts."


class Sizes(NamedTuple):
    """Number of epochs at one size: those whose time counts, and those of the incremental checkpoint."""

    epochs: int
    between: int


FULL: Mapping[int, Sizes] = MappingProxyType(
    {2: Sizes(1_000, 20), 16: Sizes(1_000, 20), 128: Sizes(1_000, 20), 1_000: Sizes(50, 8)}
)
SMALL: Mapping[int, Sizes] = MappingProxyType({2: Sizes(5, 2), 8: Sizes(3, 1)})


class ScaleReport(NamedTuple):
    """Rows, and failures."""

    results: list[ScaleRow]
    failures: list[str]


def measure(folder: Path, tell: Callable[[str], None], sizes: Mapping[int, Sizes]) -> ScaleReport:
    """Runs all sizes one after the other.

    Args:
        folder: Folder for the state.
        tell: Called with lines of progress.
        sizes: Numbers of epochs, by number of subtasks.
    """
    report = ScaleReport([], [])
    for subtasks, size in sizes.items():
        work = folder / f"scale-{subtasks}"
        case = ScaleCase(subtasks=subtasks, epochs=size.epochs, between=size.between, work=str(work))
        tell(f"running {size.epochs:,} epochs of two operators with {subtasks:,} subtasks each")
        try:
            run_child("benchmarks.scale.child", msgspec.json.encode(case), work, f"{subtasks} subtasks")
        except EngineFailedError as error:
            tell(str(error))
            report.failures.append(str(error))
            continue
        report.results.append(msgspec.json.decode((work / ROW).read_bytes(), type=ScaleRow))
        shutil.rmtree(work)
    return report


def show(rows: Sequence[ScaleRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    for name in (
        "subtasks", "driver ms", "slowest ms", "collected KB", "manifest KB", "MiB", "checkpoint s", "reads", "epochs",
        "start s", "epochs", "MiB", "results",
    ):  # fmt: skip
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(
            f"{row.subtasks:,}",
            f"{row.driver_ms:.1f}",
            f"{row.slowest_ms:.1f}",
            f"{row.collected_bytes / 1_000:,.0f}",
            f"{row.manifest_bytes / 1_000:,.0f}",
            f"{row.peak_mib:,}",
            f"{row.checkpoint_seconds:.2f}",
            f"{row.checkpoint_reads:,}",
            str(row.checkpoint_epochs),
            f"{row.start_seconds:.2f}",
            f"{row.start_epochs:,}",
            f"{row.start_mib:,}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["ABOUT", "FULL", "SMALL", "ScaleReport", "Sizes", "measure", "show"]
