"""Options that several verbs share: what savepoint is wanted, and how a running job is reached."""

from typing import Annotated, Literal

import typer

from lakestate.commands.common import ROOT_VARIABLE, checked_root

URL_VARIABLE = "LAKESTATE_URL"

SavepointType = Annotated[
    Literal["native", "canonical"],
    typer.Option("--type", help="native copies nothing; canonical writes the state out, as tables that can be moved."),
]
SavepointDirectory = Annotated[
    str | None,
    typer.Option(
        "--directory", help="A path or address below which it goes; of a native one only a note on where it lies."
    ),
]
SavepointLabel = Annotated[str, typer.Option("--label", help="A short name for people.")]
SavepointNote = Annotated[str, typer.Option("--note", help="Anything worth knowing.")]

AskedRoot = Annotated[
    str | None,
    typer.Option(
        "--root",
        envvar=ROOT_VARIABLE,
        callback=checked_root,
        help="The state root: a folder or the address of a bucket.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar=URL_VARIABLE,
        help="Address of the job's REST server, such as http://host:8081, where --root does not lead to it: the job "
        "runs on another machine, or its root is a bucket.",
    ),
]
Detached = Annotated[
    bool,
    typer.Option("--detached", "-d", help="Do not wait: print the trigger id, which `lakestate operation` takes."),
]

__all__ = [
    "URL_VARIABLE",
    "AskedRoot",
    "Detached",
    "SavepointDirectory",
    "SavepointLabel",
    "SavepointNote",
    "SavepointType",
    "Url",
]
