"""Runs a workload of forms in turn, shows its rows, and judges them."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.forms.model import WORKLOADS, FormCase, FormExtra, FormLimit, FormReport, FormRow, Sizes
from benchmarks.model import Verdict
from benchmarks.runner import EngineFailedError, run_child

ROWS = "rows.json"


def measure(workload: str, folder: Path, tell: Callable[[str], None], sizes: Sizes) -> FormReport:
    """Runs all forms of a workload in one process, in turn.

    Args:
        workload: A name in `WORKLOADS`.
        folder: Folder for data and state.
        tell: Called with lines of progress.
        sizes: What is run.
    """
    work = folder / workload
    tell(f"{workload}: {sizes.epochs} epochs of {sizes.epoch:,} records, {sizes.rounds} rounds")
    case = FormCase(workload=workload, work=str(work), **sizes._asdict())
    try:
        run_child("benchmarks.forms.child", msgspec.json.encode(case), work, workload)
    except EngineFailedError as error:
        tell(str(error))
        return FormReport([], [str(error)])
    rows = msgspec.json.decode((work / ROWS).read_bytes(), type=list[FormRow])
    shutil.rmtree(work)
    return FormReport(rows, [])


def judge_forms(limits: Sequence[FormLimit | FormExtra], rows: Sequence[FormRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit of a workload that was run."""
    by_form = {(row.workload, row.form): row for row in rows}
    ran = {row.workload for row in rows}
    for limit in limits:
        if limit.workload not in ran:
            continue
        name, forms = _named(limit)
        if missing := tuple(form for form in forms if (limit.workload, form) not in by_form):
            yield Verdict(name, None, False, "not measured in this run", missing)
            continue
        found = [by_form[limit.workload, form] for form in forms]
        if isinstance(limit, FormLimit):
            measured = found[0].records_per_second / found[1].records_per_second
            reached = measured >= limit.at_least
        else:
            of, beyond, through, through_beyond = (1 / row.records_per_second for row in found)
            measured = (of - beyond) / max(through - through_beyond, 1e-12)
            reached = measured <= limit.at_most
        if wrong := [row.form for row in found if not row.results_equal]:
            yield Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
        else:
            yield Verdict(name, measured, reached)


def _named(limit: FormLimit | FormExtra) -> tuple[str, tuple[str, ...]]:
    """Returns a limit in words, and the forms that it compares."""
    if isinstance(limit, FormLimit):
        return f"{limit.workload}: {limit.of} at least {limit.at_least:g} times {limit.to}", (limit.of, limit.to)
    extra, through = f"{limit.of} beyond {limit.beyond}", f"{limit.through} beyond {limit.through_beyond}"
    name = f"{limit.workload}: {extra} at most {limit.at_most:g} times {through}"
    return name, (limit.of, limit.beyond, limit.through, limit.through_beyond)


def show(rows: Sequence[FormRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    speeds = {(row.workload, row.form): row.records_per_second for row in rows}
    shown, texts = Table(box=box.MARKDOWN), ("form", "beside")
    for head in ("form", "keys", "epoch", "runs", "records/s", "×", "beside", "results"):
        shown.add_column(head, justify="left" if head in texts else "right", no_wrap=True)
    for row in rows:
        beside = WORKLOADS[row.workload].beside[row.form]
        other = speeds.get((row.workload, beside))
        shown.add_row(
            row.form,
            f"{row.keys:,}",
            f"{row.epoch_records:,}",
            str(row.runs),
            f"{row.records_per_second:,}",
            f"{row.records_per_second / other:.2f}" if other else "",
            beside if other else "",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["ROWS", "judge_forms", "measure", "show"]
