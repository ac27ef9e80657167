"""`lakestate rescale`: another parallelism for a running job."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json, waiting


def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Argument(metavar="PARALLELISM", min=1, help="Subtasks of every operator.")],
    root: Root,
    as_json: AsJson = False,
) -> None:
    """Give a job that a process of this machine runs another parallelism, with its next epoch and without a restart."""
    with named_errors():
        from lakestate.commands.running import RunningJob

        with waiting(f"{job} takes {parallelism} subtasks"):
            RunningJob(root, job).operate(f"rescaling?parallelism={parallelism}", method="PATCH")
        if as_json:
            print_json({"parallelism": parallelism})
        else:
            make_console().print(Text(f"{job} runs with {parallelism} subtasks for every operator"))


__all__ = ["rescale"]
