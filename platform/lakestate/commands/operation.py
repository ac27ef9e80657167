"""`lakestate operation`: the result of a detached operation of a running job."""

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, ExitCode, Job, make_console, named_errors, plain, print_json, waiting
from lakestate.commands.options import AskedRoot, Url

if TYPE_CHECKING:
    from lakestate.rest.ends import EndedOperation

_POLL_S = 0.2


def operation(
    job: Job,
    trigger_id: Annotated[
        str,
        typer.Argument(metavar="TRIGGER", help="The id that a command printed with --detached.", show_default=False),
    ],
    root: AskedRoot = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the result of a detached operation, such as a savepoint. Exit code: 1 if it failed, 0 while it runs."""
    with named_errors():
        from lakestate.running_job import OperationFailedError, outcome_of

        ended = outcome_of(root, job, trigger_id, url)
        with waiting(f"{trigger_id} is under way"):
            while wait and ended is None:
                time.sleep(_POLL_S)
                ended = outcome_of(root, job, trigger_id, url)
        if as_json:
            print_json({"trigger_id": trigger_id, "status": _status(ended), "operation": plain(ended)})
            if ended is not None and ended.error is not None:
                raise typer.Exit(ExitCode.FAILED)
        elif ended is None:
            make_console().print(Text(f"{trigger_id} is under way"))
        elif ended.error is not None:
            what = f"The {ended.kind} {trigger_id} failed: {ended.error}: {ended.message}"
            raise OperationFailedError(what, action=ended.action or "`lakestate status` shows the state of the job.")
        else:
            make_console().print(Text(f"{trigger_id} is done: {_result(ended)}"))


def print_trigger(job: str, trigger_id: str, *, as_json: bool) -> None:
    """Prints the trigger id of a detached operation; standard output has only the id."""
    if as_json:
        print_json({"trigger_id": trigger_id})
    else:
        make_console().print(Text(trigger_id))
        typer.echo(f"`lakestate operation {job} {trigger_id}` shows the result.", err=True)


def _status(ended: "EndedOperation | None") -> str:
    if ended is None:
        return "IN_PROGRESS"
    return "COMPLETED" if ended.error is None else "FAILED"


def _result(ended: "EndedOperation") -> str:
    return ended.kind if ended.result is None else f"{ended.kind} {ended.result}"


__all__ = ["operation", "print_trigger"]
