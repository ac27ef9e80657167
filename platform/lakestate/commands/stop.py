"""`lakestate stop`: ends a running job with a savepoint."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json, waiting
from lakestate.commands.options import (
    AskedRoot,
    Detached,
    SavepointDirectory,
    SavepointLabel,
    SavepointNote,
    SavepointType,
    Url,
)


def stop(
    job: Job,
    root: AskedRoot = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="End the input first, so that all event-time timers fire. Do not resume from that savepoint.",
        ),
    ] = False,
    kind: SavepointType = "native",
    directory: SavepointDirectory = None,
    label: SavepointLabel = "",
    note: SavepointNote = "",
    detached: Detached = False,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill the process at once, without a savepoint. For a process that hangs.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop a running job with a savepoint and wait for its process. If the savepoint fails, the job keeps running."""
    if kill and (drain or detached or directory or label or note or url or root is None):
        raise typer.BadParameter("goes with JOB and --root alone", param_hint="--kill")
    with named_errors():
        if kill:
            _kill(str(root), job, as_json=as_json)
            return
        from lakestate.commands.ending import ending, print_unwanted
        from lakestate.commands.operation import print_trigger
        from lakestate.rest.bodies import stop_with_savepoint
        from lakestate.running_job import RunningJob
        from state_engine.savepoint import SavepointRequest

        body = stop_with_savepoint(SavepointRequest(kind, directory, label, note), drain=drain)
        if detached:  # the job's process records whether it has ended as requested
            print_trigger(job, RunningJob(root, job, url).begin("stop", body=body), as_json=as_json)
            return
        location = None
        with waiting(f"{job} takes a savepoint and stops"), ending(root, job, url) as running:
            if running is not None:
                location = running.operate("stop", body=body).result
                running.await_end()
        if as_json:
            print_json({"savepoint": location})
        elif running is None:
            print_unwanted(job)
        else:
            make_console().print(Text(f"{job} has stopped; its savepoint is {location}"))


def _kill(root: str, job: str, *, as_json: bool) -> None:
    from lakestate.supervision import kill_driver

    with waiting(f"{job} is ended"):
        kill_driver(root, job)
    if as_json:
        print_json({"savepoint": None})
    else:
        make_console().print(Text(f"{job} was killed; its next start goes on from its newest sealed epoch"))


__all__ = ["stop"]
