"""`lakestate savepoints`: lists, shows, validates, compares and disposes of savepoints."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import (
    AsJson,
    ExitCode,
    Job,
    Root,
    add_row,
    make_console,
    make_table,
    named_errors,
    plain,
    print_facts,
    print_json,
    print_title,
    progress_of,
    text_of,
    waiting,
)
from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time, number_of
from lakestate.commands.options import Strict, WithoutCode
from lakestate.job_code import operators_of_code
from state_engine.clock import SystemClock
from state_engine.log.records import Pin
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.text import shorten

if TYPE_CHECKING:
    from state_engine.inspect import StateDiff
    from state_engine.log.savepoints import Savepoint

EXAMPLES = 5
_LONGEST = 120

savepoints = typer.Typer(no_args_is_help=True, help="List, show, validate, compare and dispose of a job's savepoints.")
SavepointId = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Savepoint id.", show_default=False)]

AnySavepoint = Annotated[
    str,
    typer.Argument(metavar="SAVEPOINT", help="Savepoint id, or the absolute path or URI of a canonical savepoint."),
]


@savepoints.command("list")
def list_all(job: Job, root: Root, as_json: AsJson = False) -> None:
    """List a job's savepoints, oldest first."""
    with named_errors():
        from state_engine.savepoint import read_catalogue

        pins, damaged = read_catalogue(root, job)
        if as_json:
            unreadable = [{**plain(one), "kind": "damaged"} for one in damaged]
            print_json([*map(_without_files, pins), *unreadable])
            return
        console = make_console()
        if not pins and not damaged:
            console.print(Text(f"Job {job} has no savepoints under {root}."))
            return
        table = make_table(
            "savepoint",
            "kind",
            "epoch",
            "taken",
            "by",
            "size",
            "label",
            right=("epoch", "taken", "size"),
            fold=("label",),
        )
        now = SystemClock().now_ms()
        for pin in pins:
            place = f"{pin.generation}/{pin.epoch}"
            shown = (f"{format_duration(now - pin.created_at)} ago", pin.trigger, format_bytes(pin.bytes), pin.label)
            add_row(table, pin.savepoint_id, pin.kind, place, *shown)
        for one in damaged:
            add_row(table, one.savepoint_id, "damaged", None, None, None, None, one.path)
        console.print(table)
        for one in damaged:
            console.print(Text(f"{one.savepoint_id}: {one.problem}", style="red"))


@savepoints.command("show")
def show(
    job: Job,
    savepoint_id: SavepointId,
    root: Root,
    files: Annotated[bool, typer.Option("--files", help="Also list the files of the savepoint.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one savepoint, after a check that all its files exist and have the recorded length."""
    with named_errors():
        from state_engine.savepoint import load_savepoint

        pin = load_savepoint(root, job, savepoint_id)
        if as_json:
            print_json(facts_of(pin))
            return
        console = make_console()
        held = pin.handles if isinstance(pin, Pin) else [(f.path, f.length) for t in pin.tables for f in t.files]
        print_facts(
            console,
            [
                ("savepoint", pin.savepoint_id),
                ("epoch", f"{pin.generation}/{pin.epoch}"),
                ("taken", f"{format_time(pin.created_at)} by {pin.trigger}"),
                ("label", pin.label),
                ("note", pin.note),
                ("kind", pin.kind),
                ("based on", _based_on(pin)),
                ("noted in", pin.directory if isinstance(pin, Pin) else None),
                ("files", f"{format_count(file_count(pin))}, {format_bytes(pin.bytes)}, all present"),
            ],
        )
        if files:
            table = make_table("file", "length", right=("length",), fold=("file",))
            for path, length in held:
                add_row(table, path, format_bytes(length))
            for path, _ in pin.manifests if isinstance(pin, Pin) else ():
                add_row(table, path, "")
            console.print(table)


@savepoints.command("validate")
def validate(
    job: Job,
    savepoint: AnySavepoint,
    root: Root,
    without_code: WithoutCode = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Validate a savepoint: read its files and check checksums, key groups, and the code of a registered job.

    It names what the code does not read. Exit code 1 if anything is wrong.
    """
    with named_errors():
        from state_engine.savepoint import validate_savepoint
        from state_engine.savepoint.fitness import fitness

        with waiting(f"read {savepoint}"):
            report = validate_savepoint(root, job, savepoint)
            asks = report.ok and not without_code
            code = fitness(root, job, savepoint, operators_of_code(job, root), strict=strict) if asks else None
    reasons = code.refusals if code is not None else None
    if as_json:
        unread = code.unread if code is not None else None
        print_json(plain(report) | {"ok": report.ok and not reasons, "code": reasons, "unread": unread})
    else:
        console = make_console()
        for finding in report.findings:
            console.print(Text(str(finding), style="red"))
        for reason in reasons or ():
            console.print(Text(f"{reason.error}: {reason.message} {reason.action}", style="red"))
        for one in code.unread if code is not None else ():
            console.print(Text(f"The code does not read {one}.", style="yellow"))
        verdict = "is sound" if report.ok else f"is damaged: {number_of(len(report.findings), 'finding')}"
        read = f"{number_of(report.files, 'file')} with {number_of(report.rows, 'row')} read"
        fits = "" if reasons is None else f"; the code of the job {'does not fit' if reasons else 'can resume from it'}"
        console.print(Text(f"{report.savepoint_id or savepoint} {verdict}; {read}{fits}"))
    if not report.ok or reasons:
        raise typer.Exit(ExitCode.FAILED)


@savepoints.command("dispose")
def dispose(
    job: Job,
    savepoint_id: SavepointId,
    root: Root,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if a restore holds it, such as one that died.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint. The files of a native savepoint belong to the job; its next retention deletes them."""
    with named_errors():
        from state_engine.errors import NothingToRestoreError
        from state_engine.savepoint import dispose_savepoint

        if not dispose_savepoint(root, job, savepoint_id, force=force):
            raise NothingToRestoreError(
                f"Job {job!r} has no savepoint {savepoint_id!r}.",
                action="`lakestate savepoints list` shows its savepoints.",
            )
        if as_json:
            print_json({"disposed": savepoint_id})
        else:
            make_console().print(Text(f"{savepoint_id} is disposed of"))


@savepoints.command("diff")
def diff(
    job: Job,
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="latest, checkpoint:ID, epoch:GENERATION/EPOCH or a savepoint id.")
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Same as BEFORE.")],
    root: Root,
    examples: Annotated[int, typer.Option(min=0, help="Number of examples per kind and state.")] = EXAMPLES,
    as_json: AsJson = False,
) -> None:
    """Compare the states of a job at two savepoints, checkpoints or epochs, entry by entry."""
    with named_errors():
        from state_engine.inspect import diff_states

        with progress_of("compare") as on_progress:
            diffs = list(diff_states(root, job, before, after, examples=examples, on_progress=on_progress))
        if as_json:
            print_json(diffs)
        else:
            _print_diff(diffs)


def _print_diff(found: "list[StateDiff]") -> None:
    console = make_console()
    figures = ("added", "removed", "changed", "unchanged")
    table = make_table("state", *figures, right=figures)
    for one in found:
        counts = map(format_count, (one.added, one.removed, one.changed, one.unchanged))
        add_row(table, f"{one.uid}/{one.state}", *counts)
    console.print(table)
    for one in found:
        if one.type_before and one.type_after and one.type_before != one.type_after:
            console.print(Text(f"{one.uid}/{one.state} was of type {one.type_before}, and is now of {one.type_after}"))
        if one.examples:
            print_title(console, f"{one.uid}/{one.state}")
            _print_examples(console, one)


def _print_examples(console: Console, one: "StateDiff") -> None:
    names = [name for name in one.examples[0].entry if any(e.entry[name] is not None for e in one.examples)]
    table = make_table("", *names, "before", "after", fold=(*names, "before", "after"))
    for example in one.examples:
        before = "" if example.kind == "added" else shorten(text_of(example.before), _LONGEST)
        after = "" if example.kind == "removed" else shorten(text_of(example.after), _LONGEST)
        add_row(table, example.kind, *(text_of(example.entry[name]) for name in names), before, after)
    console.print(table)


def _based_on(savepoint: "Savepoint") -> str:
    if isinstance(savepoint, CanonicalSavepoint):
        return f"no other files{f'; stored in {savepoint.directory}' if savepoint.directory is not None else ''}"
    base = savepoint.base
    checkpoint = "none" if base is None else f"checkpoint {base.checkpoint_id} of epoch {base.epoch}"
    return f"{checkpoint}, and {number_of(len(savepoint.manifests), 'manifest')} since"


def facts_of(savepoint: "Savepoint") -> dict[str, object]:
    """Returns a savepoint for programs, without the manifest in a canonical one, which is a document of its own."""
    facts = {name: value for name, value in plain(savepoint).items() if name != "sealed"}
    return {**facts, "kind": savepoint.kind}


def _without_files(savepoint: "Savepoint") -> dict[str, object]:
    """Returns a savepoint without the names of its files: each one in a list may have thousands of them."""
    omitted = ("handles", "manifests", "tables", "source_files")
    return {name: value for name, value in facts_of(savepoint).items() if name not in omitted}


def file_count(taken: "Savepoint") -> int:
    """Returns the number of files of a savepoint; a native one includes manifests, which contain small changes."""
    if isinstance(taken, CanonicalSavepoint):
        return sum(len(table.files) for table in taken.tables)
    return len(taken.handles) + len(taken.manifests)


__all__ = ["facts_of", "file_count", "savepoints"]
