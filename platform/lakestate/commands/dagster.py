"""`lakestate dagster`: what Dagster's own commands do not do for streams."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json
from lakestate.commands.formats import format_bytes
from lakestate.commands.options import SavepointDirectory, SavepointNote, SavepointType
from state_engine.extras import check_extra

dagster = typer.Typer(no_args_is_help=True, help="Work with a stream's assets in Dagster.")


@dagster.callback()
def dagster_main() -> None:
    """Work with a stream's assets in Dagster."""


@dagster.command("savepoint")
def dagster_savepoint(
    job: Job,
    label: Annotated[str, typer.Option("--label", help="Key of the partition, and label of the savepoint.")],
    module_name: Annotated[
        str | None, typer.Option("--module-name", "-m", help="Module with the definitions of the code location.")
    ] = None,
    python_file: Annotated[
        Path | None, typer.Option("--python-file", "-f", help="File with the definitions of the code location.")
    ] = None,
    working_directory: Annotated[
        Path | None, typer.Option("--working-directory", "-d", help="Folder that imports begin in.")
    ] = None,
    attribute: Annotated[
        str | None, typer.Option("--attribute", "-a", help="Variable with the definitions, if there are several.")
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", help="A workspace.yaml. Default: that of the current folder."),
    ] = None,
    kind: SavepointType = "native",
    directory: SavepointDirectory = None,
    note: SavepointNote = "",
    as_json: AsJson = False,
) -> None:
    """Add a partition to JOB/savepoint and materialize it: take, validate and record a savepoint in Dagster.

    The run is executed by this process and recorded in the instance of DAGSTER_HOME. The job may be running or stopped.
    A partition that already has a savepoint is validated again, and no second one is taken.
    """
    with named_errors():
        check_extra("dagster", "dagster")
        if not label.strip() or "|" in label:
            raise typer.BadParameter("Give a name without `|`, such as before-upgrade.", param_hint="--label")
        if sum(given is not None for given in (module_name, python_file, workspace)) > 1:
            raise typer.BadParameter("Give only one of --module-name, --python-file and --workspace.")
        from lakestate.assets.savepoint import SavepointConfig
        from lakestate.operate.code_location import Target, take_in_dagster

        target = Target(
            python_file=str(python_file) if python_file is not None else None,
            module_name=module_name,
            working_directory=str(working_directory.absolute()) if working_directory is not None else None,
            attribute=attribute,
            workspace=str(workspace) if workspace is not None else None,
        )
        taken = take_in_dagster(job, label, SavepointConfig(kind=kind, directory=directory, note=note), target)
        for warning in taken.warnings:
            typer.echo(f"Warning: {warning}", err=True)
        if as_json:
            print_json({"run_id": taken.run_id, "partition": taken.partition, "metadata": taken.metadata})
            return
        facts = taken.metadata
        what = "taken" if facts["is_new"] else "existed, and was validated"
        place = f"{facts['kind']}, epoch {facts['generation']}/{facts['epoch']}, {format_bytes(facts['bytes'])}"
        make_console().print(Text(f"{label}: savepoint {facts['savepoint_id']} {what}: {place}; run {taken.run_id}"))


__all__ = ["dagster"]
