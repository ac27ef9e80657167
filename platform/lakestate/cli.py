"""The command `lakestate`: one module per verb."""

from importlib.metadata import version
from typing import Annotated

import typer

from lakestate.demo import demo
from lakestate.explain import explain
from lakestate.sql import sql

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
    """Run, watch and operate streaming jobs whose state lives in Delta."""


app.command("demo")(demo)
app.command("sql")(sql)
app.command("explain")(explain)


if __name__ == "__main__":
    app()
