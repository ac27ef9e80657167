"""The command `lakestate`: one module per verb."""

from typing import Annotated

import typer

from lakestate.commands.cancel import cancel
from lakestate.commands.checkpoint import checkpoint
from lakestate.commands.checkpoints import checkpoints
from lakestate.commands.compact import compact
from lakestate.commands.dagster import dagster
from lakestate.commands.init import init
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
from state_engine import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakestate {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run, inspect and operate streaming jobs whose state is stored in Delta tables.

    Most commands read and write the storage, so the job may be running, stopped or dead.
    The commands under "Running jobs" call the job's process.
    Set --root or LAKESTATE_ROOT to the folder or bucket that holds the jobs.

    Exit codes: 0 success; 1 failure, with a named error; 2 wrong usage, or what you named is missing or does not run.
    """


_INSPECT, _RESTORE, _CONTROL = "Inspect", "Savepoints and restore", "Running jobs"
_STORAGE, _RUN = "Storage", "Run"
app.command("list", rich_help_panel=_INSPECT)(list_all)
app.command("status", rich_help_panel=_INSPECT)(status)
app.command("checkpoints", rich_help_panel=_INSPECT)(checkpoints)
app.command("top", rich_help_panel=_INSPECT)(top)
app.command("inspect", rich_help_panel=_INSPECT)(inspect)
app.command("sql", rich_help_panel=_INSPECT)(sql)
app.command("savepoint", rich_help_panel=_RESTORE)(savepoint)
app.add_typer(savepoints, name="savepoints", rich_help_panel=_RESTORE)
app.add_typer(dagster, name="dagster", rich_help_panel=_RESTORE)
app.command("restore", rich_help_panel=_RESTORE)(restore)
app.command("retain", rich_help_panel=_STORAGE)(retain)
app.command("compact", rich_help_panel=_STORAGE)(compact)
app.command("stop", rich_help_panel=_CONTROL)(stop)
app.command("cancel", rich_help_panel=_CONTROL)(cancel)
app.command("rescale", rich_help_panel=_CONTROL)(rescale)
app.command("checkpoint", rich_help_panel=_CONTROL)(checkpoint)
app.command("operation", rich_help_panel=_CONTROL)(operation)
app.command("init", rich_help_panel=_RUN)(init)
app.command("start", rich_help_panel=_RUN)(start)
app.command("up", rich_help_panel=_RUN)(up)
app.command("down", rich_help_panel=_RUN)(down)
app.command("run", rich_help_panel=_RUN)(run)
app.command("explain", rich_help_panel=_RUN)(explain)
app.command("demo", rich_help_panel=_RUN)(demo)


if __name__ == "__main__":
    app()
