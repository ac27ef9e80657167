"""Options that several verbs share: what savepoint is wanted or restored, how a job is started, how one is reached."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lakestate.commands.common import ROOT_VARIABLE, checked_root

if TYPE_CHECKING:
    from lakestate.supervision import StartRequest

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

RegisteredJob = Annotated[str, typer.Argument(metavar="JOB", help="Name of a registered job.", show_default=False)]
JobOptions = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="An option of the job, as name=value; may come again.")
]
Restore = Annotated[
    str | None,
    typer.Option(help="Start from a savepoint id, checkpoint:ID or epoch:GENERATION/EPOCH, in a new generation."),
]
Parallelism = Annotated[int | None, typer.Option(min=1, help="Subtasks of every operator.")]
AvailableNow = Annotated[bool, typer.Option("--available-now", help="End when what is there now is read.")]
Cores = Annotated[str | None, typer.Option(help="Task slots of the local Spark session; 2 by default.")]
RestAddress = Annotated[
    str | None, typer.Option(help="Where the job's REST server listens; this machine's loopback by default.")
]
RestPort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Its port; a free one by default.", show_default=False)
]
UidMapping = Annotated[
    list[str] | None,
    typer.Option("--uid-mapping", metavar="OLD=NEW", help="An operator's uid there and now; may come again."),
]
MaxParallelism = Annotated[
    int | None, typer.Option("--max-parallelism", min=1, help="Sort all keys anew into so many key groups.")
]
AllowNonRestoredState = Annotated[
    bool, typer.Option("--allow-non-restored-state", help="Leave state of operators that the job no longer has.")
]
ResumeState = Annotated[
    list[str] | None,
    typer.Option(
        "--resume-state", metavar="UID", help="An operator that is back goes on with its old state; may come again."
    ),
]
DiscardState = Annotated[
    list[str] | None,
    typer.Option(
        "--discard-state", metavar="UID", help="An operator that is back begins without state; may come again."
    ),
]
AdoptSinks = Annotated[
    bool,
    typer.Option(
        "--adopt-sinks", help="Go on behind rows of sinks that the state root does not know of, and keep them."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse if there is state, or a field of one, that the code does not read.")
]
WithoutCode = Annotated[
    bool, typer.Option("--without-code", help="Do not ask the code of a registered job whether it fits.")
]
AllowChangedSources = Annotated[
    list[int] | None,
    typer.Option(
        "--allow-changed-sources",
        metavar="NUMBER",
        min=0,
        help="A source, by the number in the refusal, that may differ from what it was; may come again.",
    ),
]

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


def request_of(
    option: Sequence[str] | None, restore: str | None, uid_mapping: Sequence[str] | None, **others: Any
) -> "StartRequest":
    """Returns what a job is started with, from the options of `lakestate run` and `lakestate start`.

    Args:
        option: `--option`.
        restore: `--restore`.
        uid_mapping: `--uid-mapping`.
        others: The other fields of `StartRequest`.

    Raises:
        BadParameter: An option is none, or belongs to a restore and there is none.
    """
    from lakestate.supervision import StartRequest

    for name, value in (("--uid-mapping", uid_mapping), ("--max-parallelism", others.get("max_parallelism"))):
        if value and restore is None:
            raise typer.BadParameter("goes with --restore, such as --restore latest", param_hint=name)
    return StartRequest(options=options_of(option), restore=restore, uid_mapping=uids_of(uid_mapping), **others)


def options_of(given: Sequence[str] | None) -> dict[str, str]:
    """Returns what was given by `--option` as names and values.

    Raises:
        BadParameter: Something else than name=value was given.
    """
    return dict(_pair(one) for one in given or [])


def _pair(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{option!r} is not name=value", param_hint="--option")
    return name, value


def uids_of(mapping: Sequence[str] | None) -> dict[str, str]:
    """Returns what `--uid-mapping` says: uids that operators had to those that they have.

    Raises:
        BadParameter: One is not OLD=NEW, or a uid is mapped twice.
    """
    found: dict[str, str] = {}
    for given in mapping or ():
        old, equals, new = given.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{given!r} is not OLD=NEW", param_hint="--uid-mapping")
        if found.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old!r} is mapped twice", param_hint="--uid-mapping")
    return found


__all__ = [
    "URL_VARIABLE",
    "AllowChangedSources",
    "AllowNonRestoredState",
    "AskedRoot",
    "AvailableNow",
    "Cores",
    "Detached",
    "DiscardState",
    "JobOptions",
    "MaxParallelism",
    "Parallelism",
    "RegisteredJob",
    "RestAddress",
    "RestPort",
    "Restore",
    "ResumeState",
    "SavepointDirectory",
    "SavepointLabel",
    "SavepointNote",
    "SavepointType",
    "Strict",
    "UidMapping",
    "Url",
    "WithoutCode",
    "options_of",
    "request_of",
    "uids_of",
]
