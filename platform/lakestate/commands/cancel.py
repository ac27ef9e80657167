"""`lakestate cancel`: ends a running job as it stands."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json, waiting


def cancel(
    job: Job,
    root: Root,
    savepoint: Annotated[
        bool, typer.Option("--savepoint", "-s", help="Take a savepoint first; if that fails the job goes on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a job that a process of this machine runs, after the epoch at hand. What is sealed is kept."""
    with named_errors():
        from lakestate.commands.running import RunningJob
        from lakestate.rest.bodies import SavepointTrigger

        running = RunningJob(root, job)
        location = None
        with waiting(f"{job} is cancelled"):
            if savepoint:
                location = running.operate("savepoints", body=SavepointTrigger(cancel_job=True, format_type="NATIVE"))
            else:
                running.cancel()
            running.await_end()
        if as_json:
            print_json({"savepoint": location})
        else:
            told = f"; its savepoint is {location}" if location is not None else ""
            make_console().print(Text(f"{job} was cancelled{told}"))


__all__ = ["cancel"]
