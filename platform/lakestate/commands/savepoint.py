"""`lakestate savepoint`: takes a savepoint of a job."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, make_console, named_errors, print_json, waiting
from lakestate.commands.formats import format_bytes, number_of
from lakestate.commands.options import (
    AskedRoot,
    Detached,
    SavepointDirectory,
    SavepointLabel,
    SavepointNote,
    SavepointType,
    Url,
)
from lakestate.commands.savepoints import facts_of, file_count

if TYPE_CHECKING:
    from state_engine.savepoint import SavepointRequest


def savepoint(
    job: Job,
    root: AskedRoot = None,
    label: SavepointLabel = "",
    note: SavepointNote = "",
    epoch: Annotated[
        int | None, typer.Option(min=1, help="A sealed epoch of the current lineage. Default: the newest.")
    ] = None,
    kind: SavepointType = "native",
    directory: SavepointDirectory = None,
    detached: Detached = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running, stopped or dead job: native (copies nothing) or canonical (exports the state).

    This process takes it, from the job's files. With --detached or --url the process of the running job does.
    """
    with named_errors():
        from state_engine.savepoint import SavepointRequest, take_savepoint

        request = SavepointRequest(kind, directory, label, note, epoch)
        if detached or url is not None:
            _ask(job, root, url, request, detached=detached, as_json=as_json)
            return
        if root is None:
            raise typer.BadParameter("Give --root or LAKESTATE_ROOT.")
        with waiting(f"take a {kind} savepoint of {job}"):
            taken = take_savepoint(root, job, request)
        if as_json:
            print_json(facts_of(taken))
            return
        size = f"{number_of(file_count(taken), 'file')}, {format_bytes(taken.bytes)}"
        relation = "noted in" if taken.kind == "native" else "in"
        where = f", {relation} {taken.directory}" if taken.directory is not None else ""
        place = f"epoch {taken.generation}/{taken.epoch}"
        make_console().print(Text(f"{taken.savepoint_id}  {taken.kind}, {place}, {size}{where}"))


def _ask(
    job: str, root: str | None, url: str | None, request: "SavepointRequest", *, detached: bool, as_json: bool
) -> None:
    """Sends the request to the process of the running job."""
    from lakestate.commands.operation import print_trigger
    from lakestate.rest.bodies import savepoint_trigger
    from lakestate.running_job import RunningJob

    running, body = RunningJob(root, job, url), savepoint_trigger(request)
    if detached:
        print_trigger(job, running.begin("savepoints", body=body), as_json=as_json)
        return
    with waiting(f"{job} takes a savepoint"):
        location = running.operate("savepoints", body=body).result
    if as_json:
        print_json({"savepoint": location})
    else:
        make_console().print(Text(f"{job} has taken the savepoint {location}"))


__all__ = ["savepoint"]
