"""`lakestate savepoint`: takes one."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json
from lakestate.commands.formats import format_bytes, format_count


def savepoint(
    job: Job,
    root: Root,
    label: Annotated[str, typer.Option(help="A short name for people.")] = "",
    note: Annotated[str, typer.Option(help="Anything worth knowing.")] = "",
    epoch: Annotated[
        int | None, typer.Option(min=1, help="A sealed epoch of the current lineage; the newest one by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running, stopped or dead job: a pin of one epoch. Nothing is copied."""
    with named_errors():
        from state_engine.savepoint import trigger_savepoint

        pin = trigger_savepoint(root, job, epoch=epoch, label=label, note=note)
        if as_json:
            print_json(pin)
            return
        held = f"{format_count(len(pin.handles))} files, {format_bytes(pin.bytes)}"
        make_console().print(Text(f"{pin.savepoint_id}  epoch {pin.generation}/{pin.epoch}, {held}"))


__all__ = ["savepoint"]
