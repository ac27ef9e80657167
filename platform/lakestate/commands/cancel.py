"""`lakestate cancel`: ends a running job after its current epoch, by default without a savepoint."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json, waiting
from lakestate.commands.options import AskedRoot, SavepointDirectory, SavepointType, Url


def cancel(
    job: Job,
    root: AskedRoot = None,
    savepoint: Annotated[
        bool, typer.Option("--savepoint", "-s", help="Take a savepoint first. If it fails, the job keeps running.")
    ] = False,
    kind: SavepointType = "native",
    directory: SavepointDirectory = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a running job after the current epoch and wait for its process. Checkpoints stay or go as configured."""
    if not savepoint and (directory is not None or kind != "native"):
        raise typer.BadParameter("--type and --directory need --savepoint: they are options of that savepoint.")
    with named_errors():
        from lakestate.commands.ending import ending, print_unwanted
        from lakestate.rest.bodies import savepoint_trigger
        from state_engine.savepoint import SavepointRequest

        location = None
        with waiting(f"{job} is cancelled"), ending(root, job, url) as running:
            if running is not None and savepoint:
                body = savepoint_trigger(SavepointRequest(kind, directory), cancel_job=True)
                location = running.operate("savepoints", body=body).result
            elif running is not None:
                running.cancel()
            if running is not None:
                running.await_end()
        if as_json:
            print_json({"savepoint": location})
        elif running is None:
            print_unwanted(job)
        else:
            suffix = f"; its savepoint is {location}" if location is not None else ""
            make_console().print(Text(f"{job} was cancelled{suffix}"))


__all__ = ["cancel"]
