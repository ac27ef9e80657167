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
        bool, typer.Option("--drain", help="End the input first: all event-time timers fire. Do not resume from that.")
    ] = False,
    kind: SavepointType = "native",
    directory: SavepointDirectory = None,
    label: SavepointLabel = "",
    note: SavepointNote = "",
    detached: Detached = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop a running job with a savepoint, and wait until its process has let go. If that fails the job goes on."""
    with named_errors():
        from lakestate.commands.operation import print_trigger
        from lakestate.rest.bodies import stop_with_savepoint
        from lakestate.running_job import RunningJob
        from state_engine.savepoint import SavepointWish

        running = RunningJob(root, job, url)
        wish = stop_with_savepoint(SavepointWish(kind, directory, label, note), drain=drain)
        if detached:
            print_trigger(job, running.begin("stop", body=wish), as_json=as_json)
            return
        with waiting(f"{job} takes a savepoint and stops"):
            location = running.operate("stop", body=wish).result
            running.await_end()
        if as_json:
            print_json({"savepoint": location})
        else:
            make_console().print(Text(f"{job} has stopped; its savepoint is {location}"))


__all__ = ["stop"]
