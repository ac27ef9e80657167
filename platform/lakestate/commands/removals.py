"""Shared code of the verbs that delete files: options, tables of what is deleted, waiting for the grace time."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import add_row, make_table, plain, progress_of
from lakestate.commands.formats import format_bytes, format_count, format_duration, number_of

if TYPE_CHECKING:
    from state_engine.checkpoint.retention.steps import RetentionPlan, RetentionReport
    from state_engine.savepoint import Retained

_POLL_S = 0.2

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, and change nothing.")]
Files = Annotated[bool, typer.Option("--files", help="List every file, not only their number.")]
Grace = Annotated[
    str, typer.Option("--grace", help="Delay between decision and deletion, for readers without a lease.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for the grace time, then delete. Otherwise a later call deletes.")
]


def print_removals(console: Console, plan: "RetentionPlan", *, files: bool) -> None:
    """Prints what a plan removes: by kind and reason, or file by file."""
    if files:
        table = make_table("file", "size", "why", right=("size",), fold=("file",))
        for removal in plan.removals:
            add_row(table, removal.path, format_bytes(removal.bytes), removal.reason)
    else:
        table = make_table("what", "files", "size", "why", right=("files", "size"), fold=("why",))
        counts: Counter[tuple[str, str]] = Counter()
        sizes: Counter[tuple[str, str]] = Counter()
        for removal in plan.removals:
            counts[removal.kind, removal.reason] += 1
            sizes[removal.kind, removal.reason] += removal.bytes
        for kind, reason in sorted(counts):
            add_row(table, kind, format_count(counts[kind, reason]), format_bytes(sizes[kind, reason]), reason)
    if plan.removals:
        console.print(table)


def apply_plan(plan: "RetentionPlan", *, wait: bool, title: str) -> "Retained":
    """Carries out a plan, with progress; with `wait` it waits for the grace time and deletes the files."""
    from state_engine.checkpoint.retention.steps import apply_retention
    from state_engine.savepoint.retain import carry_out

    with progress_of(title) as show:

        def deleted(count: int, of: int) -> None:
            show(f"{count} of {of} files", count / of)

        done = carry_out(plan, progress=deleted)
        report = done.report
        if report is None or not (wait and report.waiting) or plan.policy is None:
            return done
        seconds = plan.policy.grace_ms / 1000
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            show(f"waits {format_duration(remaining * 1000)}", 1 - remaining / seconds)
            time.sleep(min(_POLL_S, remaining))
        later = apply_retention(plan, progress=deleted)
    later.condemned += report.condemned
    later.removed[:0] = report.removed
    later.bytes += report.bytes
    return done._replace(report=later)


def print_leftovers(console: Console, plan: "RetentionPlan") -> None:
    """Prints what dead processes left of savepoints: what is to be deleted, and what a user has to decide about."""
    for one in plan.abandoned:
        size = f"{number_of(one.files, 'file')}, {format_bytes(one.bytes)}"
        console.print(
            Text(f"{one.directory} is to be deleted, {size}: savepoint {one.savepoint_id} was not written within a day")
        )
    for unlisted in plan.unlisted:
        where = f" in {unlisted.directory}" if unlisted.directory is not None else ""
        console.print(
            Text(
                f"{unlisted.kind} savepoint {unlisted.savepoint_id}{where} is complete and in no list; it holds "
                f"{format_bytes(unlisted.bytes)}: restore it, or dispose of it, by its id"
            )
        )


def print_report(console: Console, done: "Retained", grace_ms: int) -> None:
    """Prints what was done with files and savepoints."""
    report = done.report
    if report is None:
        return
    for savepoint in done.disposed:
        console.print(Text(f"disposed of savepoint {savepoint}"))
    for folder in done.cleared:
        console.print(Text(f"cleared {folder}"))
    for why in done.in_use:
        console.print(Text(why))
    if report.removed:
        console.print(Text(f"removed {number_of(len(report.removed), 'file')}, {format_bytes(report.bytes)}"))
    if report.spared:
        console.print(Text(f"spared {number_of(len(report.spared), 'file')} that something needs now"))
    if report.waiting:
        console.print(
            Text(
                f"condemned {number_of(report.waiting, 'file')}, of these {format_count(report.condemned)} now: "
                f"a call after the grace time of {format_duration(grace_ms)} deletes them"
            )
        )
    if not (report.removed or report.waiting or done.disposed or done.cleared):
        console.print(Text("nothing to remove"))


def facts_of(plan: "RetentionPlan", done: "Retained | None") -> dict[str, Any]:
    """Returns a plan and its result, for programs."""
    report: RetentionReport | None = done.report if done is not None else None
    facts = {
        "job": plan.job,
        "planned_at": plan.planned_at,
        "removals": plain(plan.removals),
        "files": len(plan.removals),
        "bytes": plan.bytes,
        "savepoints": plan.savepoints,
        "disposals": plain(plan.disposals),
        "abandoned": plain(plan.abandoned),
        "unlisted": plain(plan.unlisted),
        "checkpoints": plan.checkpoints,
        "oldest_epoch": plan.oldest_epoch,
        "report": None,
    }
    if done is not None and report is not None:
        names = ("condemned", "removed", "bytes", "spared", "waiting")
        facts["report"] = {name: getattr(report, name) for name in names}
        facts["report"] |= {"disposed": done.disposed, "in_use": done.in_use, "cleared": done.cleared}
    return facts


__all__ = [
    "DryRun",
    "Files",
    "Grace",
    "Wait",
    "apply_plan",
    "facts_of",
    "print_leftovers",
    "print_removals",
    "print_report",
]
