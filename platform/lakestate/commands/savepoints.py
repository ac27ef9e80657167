"""`lakestate savepoints`: the catalogue of a job."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import (
    AsJson,
    Job,
    Root,
    add_row,
    make_console,
    make_table,
    named_errors,
    plain,
    print_facts,
    print_json,
)
from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time
from state_engine.clock import SystemClock

savepoints = typer.Typer(no_args_is_help=True, help="Look at a job's savepoints.")
SavepointId = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Its id.", show_default=False)]


@savepoints.command("list")
def list_all(job: Job, root: Root, as_json: AsJson = False) -> None:
    """List a job's savepoints, oldest first."""
    with named_errors():
        from state_engine.savepoint import list_savepoints

        pins = list_savepoints(root, job)
        if as_json:
            print_json([_without_files(pin) for pin in pins])
            return
        console = make_console()
        if not pins:
            console.print(Text(f"Job {job} has no savepoints under {root}."))
            return
        table = make_table(
            "savepoint", "epoch", "taken", "by", "size", "label", right=("epoch", "taken", "size"), fold=("label",)
        )
        now = SystemClock().now_ms()
        for pin in pins:
            place = f"{pin.generation}/{pin.epoch}"
            shown = (f"{format_duration(now - pin.created_at)} ago", pin.trigger, format_bytes(pin.bytes), pin.label)
            add_row(table, pin.savepoint_id, place, *shown)
        console.print(table)


@savepoints.command("show")
def show(
    job: Job,
    savepoint_id: SavepointId,
    root: Root,
    files: Annotated[bool, typer.Option("--files", help="List the files that it holds, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one savepoint, after checking that all its files are there with their lengths."""
    with named_errors():
        from state_engine.savepoint import load_savepoint

        pin = load_savepoint(root, job, savepoint_id)
        if as_json:
            print_json(pin)
            return
        console = make_console()
        base = "none" if pin.base is None else f"checkpoint {pin.base.checkpoint_id} of epoch {pin.base.epoch}"
        print_facts(
            console,
            [
                ("savepoint", pin.savepoint_id),
                ("epoch", f"{pin.generation}/{pin.epoch}"),
                ("taken", f"{format_time(pin.created_at)} by {pin.trigger}"),
                ("label", pin.label),
                ("note", pin.note),
                ("stands on", f"{base}, and {len(pin.manifests)} manifests since"),
                ("files", f"{format_count(len(pin.handles))}, {format_bytes(pin.bytes)}, all there"),
            ],
        )
        if files:
            table = make_table("file", "length", right=("length",), fold=("file",))
            for path, length in pin.handles:
                add_row(table, path, format_bytes(length))
            console.print(table)


def _without_files(pin: object) -> dict[str, object]:
    """A pin without the names of its files: there may be thousands in each of a list."""
    return {name: value for name, value in plain(pin).items() if name not in ("handles", "manifests")}


__all__ = ["savepoints"]
