"""`lakestate rescale`: changes the parallelism of a running job."""

from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json, waiting
from lakestate.commands.options import AskedRoot, Detached, Parallelism, Url


def rescale(
    job: Job,
    subtasks: Annotated[
        int | None,
        typer.Argument(metavar="PARALLELISM", min=1, help="Same as --parallelism.", hidden=True),
    ] = None,
    parallelism: Parallelism = None,
    root: AskedRoot = None,
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="UID=N", help="Parallelism of one operator, by uid. Repeatable."),
    ] = None,
    detached: Detached = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change the parallelism of a running job, or of some operators, with the next epoch and without a restart."""
    some = dict(_pair(one) for one in operator or [])
    if sum(given is not None for given in (subtasks, parallelism)) + bool(some) != 1:
        raise typer.BadParameter("Give one of --parallelism, for every operator, and --operator UID=N.")
    parallelism = parallelism or subtasks
    with named_errors():
        from lakestate.commands.operation import print_trigger
        from lakestate.rest.bodies import Rescaling
        from lakestate.running_job import RunningJob

        running = RunningJob(root, job, url)
        listed = ", ".join(f"{uid} with {number}" for uid, number in some.items())
        path = "rescaling" if some else f"rescaling?parallelism={parallelism}"
        body = Rescaling(operators=some) if some else None
        if detached:
            print_trigger(job, running.begin(path, method="PATCH", body=body), as_json=as_json)
            return
        with waiting(f"{job} is rescaled"):
            running.operate(path, method="PATCH", body=body)
        if as_json:
            print_json({"operators": some} if some else {"parallelism": parallelism})
        elif some:
            make_console().print(Text(f"{job} runs {listed} subtasks"))
        else:
            make_console().print(Text(f"{job} runs with {parallelism} subtasks for every operator"))


def _pair(given: str) -> tuple[str, int]:
    uid, equals, number = given.rpartition("=")
    if not (uid and equals and number.isascii() and number.isdecimal() and int(number) > 0):
        raise typer.BadParameter(f"{given!r} is not UID=N with N of at least 1", param_hint="--operator")
    return uid, int(number)


__all__ = ["rescale"]
