"""The command `lakestate`: one module per verb."""

from importlib.metadata import version
from typing import Annotated

import typer

from lakestate.commands.cancel import cancel
from lakestate.commands.checkpoint import checkpoint
from lakestate.commands.checkpoints import checkpoints
from lakestate.commands.compact import compact
from lakestate.commands.inspect import inspect
from lakestate.commands.list import list_all
from lakestate.commands.operation import operation
from lakestate.commands.rescale import rescale
from lakestate.commands.restore import restore
from lakestate.commands.retain import retain
from lakestate.commands.run import run
from lakestate.commands.savepoint import savepoint
from lakestate.commands.savepoints import savepoints
from lakestate.commands.start import start
from lakestate.commands.status import status
from lakestate.commands.stop import stop
from lakestate.commands.top import top
from lakestate.demo import demo
from lakestate.explain import explain
from lakestate.sql import sql
from lakestate.up.command import down, up

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakestate {version('lakestate')}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run, watch and operate streaming jobs whose state lives in Delta.

    Verbs work on the storage, so a job may be running, stopped or dead; those of running jobs ask their process.
    --root, or LAKESTATE_ROOT, says where jobs are.

    Exit codes: 0 done; 1 failed, by a named error; 2 wrong use, or what was asked for is not there.
    """


_LOOK, _KEEP, _ROOM = "Looking at jobs", "Savepoints", "Room"
_ASK, _TRY = "Running jobs", "Jobs that are installed"
app.command("list", rich_help_panel=_LOOK)(list_all)
app.command("status", rich_help_panel=_LOOK)(status)
app.command("checkpoints", rich_help_panel=_LOOK)(checkpoints)
app.command("top", rich_help_panel=_LOOK)(top)
app.command("inspect", rich_help_panel=_LOOK)(inspect)
app.command("sql", rich_help_panel=_LOOK)(sql)
app.command("savepoint", rich_help_panel=_KEEP)(savepoint)
app.add_typer(savepoints, name="savepoints", rich_help_panel=_KEEP)
app.command("restore", rich_help_panel=_KEEP)(restore)
app.command("retain", rich_help_panel=_ROOM)(retain)
app.command("compact", rich_help_panel=_ROOM)(compact)
app.command("stop", rich_help_panel=_ASK)(stop)
app.command("cancel", rich_help_panel=_ASK)(cancel)
app.command("rescale", rich_help_panel=_ASK)(rescale)
app.command("checkpoint", rich_help_panel=_ASK)(checkpoint)
app.command("operation", rich_help_panel=_ASK)(operation)
app.command("start", rich_help_panel=_TRY)(start)
app.command("up", rich_help_panel=_TRY)(up)
app.command("down", rich_help_panel=_TRY)(down)
app.command("run", rich_help_panel=_TRY)(run)
app.command("explain", rich_help_panel=_TRY)(explain)
app.command("demo", rich_help_panel=_TRY)(demo)


if __name__ == "__main__":
    app()
