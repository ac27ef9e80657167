"""Workload `wide`: rows of 30 columns of which an operator reads three, next to files that have only these three.

What is known to be unread is neither read from the files nor sent to the workers: the columns that `process(columns=…)`
leaves out, that the function's code shows to be unread, and that no aggregate names.
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

WIDE = "wide"
ABOUT = "Rows of 30 columns of which an operator reads three, next to files of these three."
ROWS = "rows.json"
Form = Literal["row", "row/columns", "row/shown", "row/narrow", "aggregate", "aggregate/narrow"]
FORMS: tuple[Form, ...] = ("row", "row/columns", "row/shown", "row/narrow", "aggregate", "aggregate/narrow")


class WideCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process.

    Attributes:
        forms: What runs, in turn.
        keys: Number of keys.
        epoch: Records of an epoch.
        epochs: Number of epochs; the first does not count.
        rounds: How often each form runs.
        work: Empty folder.
    """

    forms: Sequence[Form]
    keys: int
    epoch: int
    epochs: int
    rounds: int
    work: str


class WideRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `WIDE`.
        form: `row`: a Python function that gets all columns. `row/columns`: the same with `columns`. `row/shown`: its
            code shows what it reads. `aggregate`: declared. `…/narrow`: over files that have only what is read.
        keys: Number of keys.
        epoch_records: Records of an epoch.
        runs: How often it ran.
        records_per_second: Median of the runs; of a run, all epochs but the first.
        results_equal: Whether the final state is that of a recount, in all runs.
    """

    workload: str = WIDE
    form: Form
    keys: int
    epoch_records: int
    runs: int
    records_per_second: int
    results_equal: bool


class WideLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A form is at least `at_least` times as fast as another one in the same run."""

    of: Form
    to: Form
    at_least: float


class WideReport(NamedTuple):
    """Rows, and failures."""

    results: list[WideRow]
    failures: list[str]


def measure(
    folder: Path, tell: Callable[[str], None], *, keys: int, epoch: int, epochs: int, rounds: int
) -> WideReport:
    """Runs all forms in one process, in turn. Arguments as of `WideCase`; `tell` gets lines of progress."""
    work = folder / WIDE
    tell(f"{WIDE}: {epochs} epochs of {epoch:,} records, {rounds} rounds")
    case = WideCase(forms=FORMS, keys=keys, epoch=epoch, epochs=epochs, rounds=rounds, work=str(work))
    try:
        run_child("benchmarks.wide_child", msgspec.json.encode(case), work, WIDE)
    except EngineFailedError as error:
        tell(str(error))
        return WideReport([], [str(error)])
    rows = msgspec.json.decode((work / ROWS).read_bytes(), type=list[WideRow])
    shutil.rmtree(work)
    return WideReport(rows, [])


def judge_wide(limits: Sequence[WideLimit], rows: Sequence[WideRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run."""
    by_form = {row.form: row for row in rows}
    for limit in limits if rows else ():
        name = f"{WIDE}: {limit.of} at least {limit.at_least:g} times {limit.to}"
        missing = tuple(form for form in (limit.of, limit.to) if form not in by_form)
        if missing:
            yield Verdict(name, None, False, "not measured in this run", missing)
            continue
        pair = by_form[limit.of], by_form[limit.to]
        measured = pair[0].records_per_second / pair[1].records_per_second
        if wrong := [row.form for row in pair if not row.results_equal]:
            yield Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
        else:
            yield Verdict(name, measured, measured >= limit.at_least)


def show(rows: Sequence[WideRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    speeds = {row.form: row.records_per_second for row in rows}
    shown = Table(box=box.MARKDOWN)
    for head in ("form", "keys", "epoch", "runs", "records/s", "× narrow", "results"):
        shown.add_column(head, justify="left" if head == "form" else "right", no_wrap=True)
    for row in rows:
        narrow = speeds.get("aggregate/narrow" if row.form.startswith("aggregate") else "row/narrow")
        shown.add_row(
            row.form,
            f"{row.keys:,}",
            f"{row.epoch_records:,}",
            str(row.runs),
            f"{row.records_per_second:,}",
            f"{row.records_per_second / narrow:.2f}" if narrow else "",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = [
    "ABOUT",
    "FORMS",
    "ROWS",
    "WIDE",
    "Form",
    "WideCase",
    "WideLimit",
    "WideReport",
    "WideRow",
    "judge_wide",
    "measure",
    "show",
]
