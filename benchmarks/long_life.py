"""Workload `long_life`: what many tiny epochs leave behind, and whether the last ones take as long as the first.

A stream reads a file of one record per epoch, counts by key, and writes to a Delta table. Its files are counted by kind
when it has ended, and again after retention with the default policy.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import Verdict
from benchmarks.runner import EngineFailedError, run_child

LONG_LIFE = "long_life"
ABOUT = "What many tiny epochs leave behind, by kind of file, and how long the first and the last of them take."
ROW = "row.json"
Kind = Literal["manifests", "checkpoints", "Spark's directory", "table", "table's log", "other"]
PART = 100
"""How many of the first and the last epochs are compared."""


class LifeCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process: a number of epochs, in an empty folder."""

    epochs: int
    work: str


class Left(msgspec.Struct, frozen=True):
    """Files of a kind at the end of the stream, and after retention."""

    kind: Kind
    files: int
    bytes: int
    files_kept: int
    bytes_kept: int


class LifeRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result; these fields are the JSON object.

    Attributes:
        workload: `LONG_LIFE`.
        epochs: Number of epochs.
        first_ms, last_ms: Median time of the first and of the last `PART` epochs.
        left: Files by kind.
        results_equal: Whether the table has each count of each key once.
    """

    workload: str = LONG_LIFE
    epochs: int
    first_ms: float
    last_ms: float
    left: list[Left]
    results_equal: bool

    @property
    def slowdown(self) -> float:
        return self.last_ms / self.first_ms


class LifeLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many files a kind may have at the end of the stream, or `slowdown`: last epochs over first ones."""

    of: str
    at_most: float


class LifeReport(NamedTuple):
    """The row, unless it failed, and failures."""

    results: list[LifeRow]
    failures: list[str]


def measure(folder: Path, tell: Callable[[str], None], epochs: int) -> LifeReport:
    """Runs the stream in its own process.

    Args:
        folder: Folder for input, state and table.
        tell: Called with lines of progress.
        epochs: Number of epochs.
    """
    work = folder / f"life-{epochs}"
    tell(f"{LONG_LIFE}: {epochs:,} epochs")
    try:
        case = msgspec.json.encode(LifeCase(epochs=epochs, work=str(work)))
        run_child("benchmarks.long_life_child", case, work, LONG_LIFE)
    except EngineFailedError as error:
        tell(str(error))
        return LifeReport([], [str(error)])
    row = msgspec.json.decode((work / ROW).read_bytes(), type=LifeRow)
    shutil.rmtree(work)
    return LifeReport([row], [])


def judge_life(limits: Sequence[LifeLimit], rows: Sequence[LifeRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit and row."""
    for row in rows:
        for limit in limits:
            name = f"{LONG_LIFE}, {row.epochs:,} epochs: {limit.of} at most {limit.at_most:g}"
            files = {left.kind: left.files for left in row.left}
            measured = row.slowdown if limit.of == "slowdown" else float(files[limit.of])  # type: ignore[index]
            if row.results_equal:
                yield Verdict(name, measured, measured <= limit.at_most)
            else:
                yield Verdict(name, measured, False, "wrong results")


def show(rows: Sequence[LifeRow], console: Console) -> None:
    """Prints a Markdown table for each row."""
    for row in rows:
        shown = Table(box=box.MARKDOWN)
        for head in ("kind", "files", "KiB", "files after retention", "KiB after retention"):
            shown.add_column(head, justify="left" if head == "kind" else "right", no_wrap=True)
        for left in row.left:
            figures = (left.files, left.bytes // 1024, left.files_kept, left.bytes_kept // 1024)
            shown.add_row(left.kind, *(f"{figure:,}" for figure in figures))
        console.print(shown, highlight=False)
        results = "equal" if row.results_equal else "WRONG"
        console.print(
            f"{row.epochs:,} epochs; median of the first {PART}: {row.first_ms:.0f} ms, of the last: "
            f"{row.last_ms:.0f} ms; results: {results}",
            highlight=False,
        )


__all__ = [
    "ABOUT",
    "LONG_LIFE",
    "PART",
    "ROW",
    "Kind",
    "Left",
    "LifeCase",
    "LifeLimit",
    "LifeReport",
    "LifeRow",
    "judge_life",
    "measure",
    "show",
]
