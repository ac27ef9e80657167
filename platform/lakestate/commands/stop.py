"""`lakestate stop`: ends a running job with a savepoint."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json, waiting


def stop(
    job: Job,
    root: Root,
    drain: Annotated[
        bool, typer.Option("--drain", help="End the input first: all event-time timers fire. Do not resume from that.")
    ] = False,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Write the state out, as tables that can be moved and copied.")
    ] = False,
    directory: Annotated[str | None, typer.Option(help="As that of `savepoint`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Stop a job that a process of this machine runs, with a savepoint. If that fails the job goes on."""
    with named_errors():
        from lakestate.commands.running import RunningJob
        from lakestate.rest.bodies import FormatType, StopWithSavepoint

        running = RunningJob(root, job)
        with waiting(f"{job} takes a savepoint and stops"):
            kind: FormatType = "CANONICAL" if canonical else "NATIVE"
            wish = StopWithSavepoint(drain=drain, format_type=kind, target_directory=directory)
            location = running.operate("stop", body=wish)
            running.await_end()
        if as_json:
            print_json({"savepoint": location})
        else:
            make_console().print(Text(f"{job} has stopped; its savepoint is {location}"))


__all__ = ["stop"]
