"""Options that several verbs share: which savepoint to take or restore, how to start a job, how to reach one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlparse

import typer

from lakestate.commands.common import ROOT_VARIABLE, checked_root
from lakestate.start_request import StartRequest
from state_engine.errors import SessionError

URL_VARIABLE = "LAKESTATE_URL"

SavepointType = Annotated[
    Literal["native", "canonical"],
    typer.Option(
        "--type", help="native copies nothing; canonical exports the state as Delta tables that can be moved."
    ),
]
SavepointDirectory = Annotated[
    str | None,
    typer.Option(
        "--directory",
        help="Path or URI of a folder; the savepoint gets a folder in it. A native one writes only a pointer there.",
    ),
]
SavepointLabel = Annotated[str, typer.Option("--label", help="A short label.")]
SavepointNote = Annotated[str, typer.Option("--note", help="A free-text note.")]

RegisteredJob = Annotated[str, typer.Argument(metavar="JOB", help="Name of a registered job.", show_default=False)]
JobOptions = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="An option of the job, as name=value. Repeatable.")
]
Restore = Annotated[
    str | None,
    typer.Option(help="Start from a savepoint id, checkpoint:ID or epoch:GENERATION/EPOCH, in a new generation."),
]
Parallelism = Annotated[int | None, typer.Option(min=1, help="Subtasks of every operator.")]
AvailableNow = Annotated[
    bool, typer.Option("--available-now", help="Stop after all data that is available now was read.")
]
Cores = Annotated[str | None, typer.Option(help="Task slots of the local Spark session. Default: 2.")]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a cluster: spark://HOST:7077, yarn, k8s://https://HOST:443. Default: on this machine.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="With --master: the executors' interpreter, which has Lakestate and the job's package. Default: that of "
        "the environment, or this one, by its path.",
    ),
]
Environment = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="With --master: a packed environment that Spark sends to the executors."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="NAME=VALUE", help="A setting of Spark, but no secret: other users see it. Repeatable."
    ),
]
RestAddress = Annotated[str | None, typer.Option(help="Bind address of the job's REST server. Default: loopback.")]
RestPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port of the job's REST server. Default: a free one.", show_default=False),
]
UidMapping = Annotated[
    list[str] | None,
    typer.Option("--uid-mapping", metavar="OLD=NEW", help="Former and current uid of an operator. Repeatable."),
]
MaxParallelism = Annotated[
    int | None, typer.Option("--max-parallelism", min=1, help="Redistribute all keys over this number of key groups.")
]
AllowNonRestoredState = Annotated[
    bool, typer.Option("--allow-non-restored-state", help="Skip the state of operators that the job no longer has.")
]
ResumeState = Annotated[
    list[str] | None,
    typer.Option(
        "--resume-state",
        metavar="UID",
        help="Give an operator that was removed and added again its old state. Repeatable.",
    ),
]
DiscardState = Annotated[
    list[str] | None,
    typer.Option(
        "--discard-state",
        metavar="UID",
        help="Start an operator that was removed and added again without state. Repeatable.",
    ),
]
KeepOutput = Annotated[
    bool,
    typer.Option(
        "--keep-output", help="Keep the rows that sinks have, and leave out owed output that a sink cannot take."
    ),
]
AdoptSinks = Annotated[
    bool,
    typer.Option(
        "--adopt-sinks", help="Keep rows in the sinks that the state root does not know about, and continue after them."
    ),
]
Stopped = Annotated[
    bool, typer.Option("--stopped", help="Confirm that the job is stopped; this machine cannot check that.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail if the code does not read some state, or a field of it.")]
WithoutCode = Annotated[
    bool, typer.Option("--without-code", help="Do not check the state against the code of the registered job.")
]
AllowChangedSources = Annotated[
    list[int] | None,
    typer.Option(
        "--allow-changed-sources",
        metavar="NUMBER",
        min=0,
        help="Accept that this source changed; the number is in the error message. Repeatable.",
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
        help="URL of the job's REST server, such as http://host:8081. Needed if --root does not lead to it: the job "
        "runs on another machine, or its root is a bucket.",
    ),
]
Detached = Annotated[
    bool,
    typer.Option("--detached", "-d", help="Do not wait: print the trigger id for `lakestate operation`."),
]


TriggerInterval = Annotated[
    int | None,
    typer.Option(
        "--trigger-interval-ms",
        min=0,
        help="Time between the beginnings of two epochs with input, in ms; 1000 by default, 0 for none. The first "
        "record after a pause does not wait.",
    ),
]


def request_of(
    option: Sequence[str] | None,
    restore: str | None,
    uid_mapping: Sequence[str] | None,
    conf: Sequence[str] | None,
    environment: str | None,
    **others: Any,
) -> StartRequest:
    """Returns the start request of a job, from the options of `lakestate run` and `lakestate start`.

    Args:
        option: `--option`.
        restore: `--restore`.
        uid_mapping: `--uid-mapping`.
        conf: `--conf`.
        environment: `--environment`; a path is relative to the working directory.
        others: The other fields of `StartRequest`.

    Raises:
        BadParameter: An option is not name=value, or belongs to a restore or a cluster and there is none.
    """
    for name, value in (("--uid-mapping", uid_mapping), ("--max-parallelism", others.get("max_parallelism"))):
        if value and restore is None:
            raise typer.BadParameter("goes with --restore, such as --restore latest", param_hint=name)
    request = StartRequest(
        options=options_of(option),
        restore=restore,
        uid_mapping=uids_of(uid_mapping),
        conf=options_of(conf, "--conf"),
        environment=environment
        and (environment if urlparse(environment).scheme else str(Path(environment).absolute())),
        **others,
    )
    try:
        request.check_session()
    except SessionError as error:
        raise typer.BadParameter(f"{error.message} {error.action}") from None
    return request


def options_of(given: Sequence[str] | None, hint: str = "--option") -> dict[str, str]:
    """Returns the values of `--option`, or of another option of this form, by name.

    Raises:
        BadParameter: One is not name=value.
    """
    return dict(_pair(one, hint) for one in given or [])


def _pair(option: str, hint: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"{option!r} is not name=value", param_hint=hint)
    return name, value


def uids_of(mapping: Sequence[str] | None) -> dict[str, str]:
    """Returns the mapping of `--uid-mapping`: former uids of operators to their current ones.

    Raises:
        BadParameter: One is not OLD=NEW, or a uid is mapped twice.
    """
    uids: dict[str, str] = {}
    for given in mapping or ():
        old, equals, new = given.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{given!r} is not OLD=NEW", param_hint="--uid-mapping")
        if uids.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old!r} is mapped twice", param_hint="--uid-mapping")
    return uids


__all__ = [
    "URL_VARIABLE",
    "AllowChangedSources",
    "AllowNonRestoredState",
    "AskedRoot",
    "AvailableNow",
    "Conf",
    "Cores",
    "Detached",
    "DiscardState",
    "Environment",
    "JobOptions",
    "KeepOutput",
    "Master",
    "MaxParallelism",
    "Parallelism",
    "Python",
    "RegisteredJob",
    "RestAddress",
    "RestPort",
    "Restore",
    "ResumeState",
    "SavepointDirectory",
    "SavepointLabel",
    "SavepointNote",
    "SavepointType",
    "Stopped",
    "Strict",
    "TriggerInterval",
    "UidMapping",
    "Url",
    "WithoutCode",
    "options_of",
    "request_of",
    "uids_of",
]
