"""`lakestate checkpoint`: triggers a checkpoint of a running job."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json, waiting
from lakestate.commands.options import AskedRoot, Detached, Url


def checkpoint(
    job: Job,
    root: AskedRoot = None,
    full: Annotated[bool, typer.Option("--full", help="Write the full state, not only the changes.")] = False,
    detached: Detached = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Trigger a checkpoint of a running job. It is taken with the next epoch."""
    with named_errors():
        from lakestate.commands.operation import print_trigger
        from lakestate.rest.bodies import CheckpointTrigger
        from lakestate.running_job import RunningJob

        running = RunningJob(root, job, url)
        body = CheckpointTrigger(checkpoint_type="FULL" if full else "CONFIGURED")
        if detached:
            print_trigger(job, running.begin("checkpoints", body=body), as_json=as_json)
            return
        with waiting(f"{job} takes a checkpoint"):
            checkpoint_id = running.operate("checkpoints", body=body).result
        if as_json:
            print_json({"checkpoint": checkpoint_id})
        else:
            make_console().print(Text(f"{job} has completed checkpoint {checkpoint_id}"))


__all__ = ["checkpoint"]
