"""`lakestate restore`: restores a job, or a part of its keys, from a savepoint, checkpoint or epoch."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lakestate.commands.common import (
    ROOT_VARIABLE,
    AsJson,
    ExitCode,
    Job,
    make_console,
    named_errors,
    print_json,
    progress_of,
    waiting,
)
from lakestate.commands.options import (
    AdoptSinks,
    AllowNonRestoredState,
    AskedRoot,
    DiscardState,
    KeepOutput,
    MaxParallelism,
    ResumeState,
    Stopped,
    Strict,
    UidMapping,
    Url,
    WithoutCode,
    uids_of,
)
from lakestate.control import RunnerUnreachableError, endpoint_at, find_endpoint, process_of
from lakestate.job_code import operators_of_code
from lakestate.takeover import ensure_stopped
from state_engine.errors import LakestateError
from state_engine.storage.job_lock import holding

if TYPE_CHECKING:
    from state_engine.savepoint import KeyGroupRestore
    from state_engine.savepoint.claim import ClaimMode
    from state_engine.savepoint.restore_report import WholeRestore


class JobRunningError(LakestateError):
    """A job has to be stopped first."""


def restore(
    job: Job,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="A savepoint's id, JOB/ID, the path or address of a canonical one, checkpoint:ID, "
            "epoch:GENERATION/EPOCH or latest.",
        ),
    ],
    root: AskedRoot = None,
    uid_mapping: UidMapping = None,
    allow_non_restored_state: AllowNonRestoredState = False,
    resume_state: ResumeState = None,
    discard_state: DiscardState = None,
    max_parallelism: MaxParallelism = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="New parallelism of every operator.")] = None,
    keep_output: KeepOutput = False,
    adopt_sinks: AdoptSinks = False,
    strict: Strict = False,
    reset_processing_time: Annotated[
        bool,
        typer.Option(
            "--reset-processing-time",
            help="Restart processing time at this machine's clock. Use it if a clock was ahead.",
        ),
    ] = False,
    claim: Annotated[
        bool, typer.Option("--claim", help="Own the savepoint: delete it once the job no longer needs it.")
    ] = False,
    key_groups: Annotated[
        list[str] | None,
        typer.Option("--key-groups", metavar="A-B", help="Only these key groups; the job may be running. Repeatable."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this key: text, or a JSON array of its columns' values. Repeatable."),
    ] = None,
    operator: Annotated[
        list[str] | None, typer.Option("--operator", help="With --key-groups or --key: only this operator. Repeatable.")
    ] = None,
    without_code: WithoutCode = False,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Skip the validation of every file before the restore.")
    ] = False,
    stopped: Stopped = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and write nothing.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Restore a stopped job, or some key groups or keys of any job. Ctrl-C cancels the restore and changes nothing."""
    part = bool(key_groups or key)
    whole_only = {
        "--uid-mapping": uid_mapping,
        "--max-parallelism": max_parallelism,
        "--parallelism": parallelism,
        "--keep-output": keep_output,
        "--adopt-sinks": adopt_sinks,
        "--strict": strict,
        "--reset-processing-time": reset_processing_time,
        "--claim": claim,
        "--no-validate": no_validate,
        "--allow-non-restored-state": allow_non_restored_state,
        "--resume-state": resume_state,
        "--discard-state": discard_state,
    }
    if part and (wrong := [name for name, value in whole_only.items() if value]):
        raise typer.BadParameter("is for a whole job, not for key groups or keys", param_hint=wrong[0])
    if operator and not part:
        raise typer.BadParameter("goes with --key-groups or --key", param_hint="--operator")
    if root is None and not (part and url):
        raise typer.BadParameter(
            f"Give --root or {ROOT_VARIABLE}; --url is enough for key groups or keys of a running job."
        )
    with named_errors(), _until_signal() as cancelled:
        report: WholeRestore | KeyGroupRestore
        if not dry_run:
            _check_stopped(job, root, url, part=part, stopped=stopped)
        if part:
            report = _restore_part(job, root, source, key_groups, key, operator, dry_run, cancelled, url)
        else:
            assert root is not None
            report = _restore_whole(
                job,
                root,
                source,
                cancelled,
                dry_run=dry_run,
                with_code=not without_code,
                uid_mapping=uids_of(uid_mapping),
                max_parallelism=max_parallelism,
                parallelism=parallelism,
                allow_non_restored_state=allow_non_restored_state,
                resume_state=resume_state or (),
                discard_state=discard_state or (),
                keep_output=keep_output,
                adopt_sinks=adopt_sinks,
                strict=strict,
                reset_processing_time=reset_processing_time,
                claim_mode="CLAIM" if claim else "NO_CLAIM",
                validate=not no_validate,
            )
        if as_json:
            print_json(report)
        else:
            console = make_console()
            for line in report.lines():
                console.print(Text(line))
        if getattr(report, "refusals", ()):
            raise typer.Exit(ExitCode.FAILED)


def _restore_whole(
    job: str,
    root: str,
    source: str,
    cancelled: Callable[[], bool],
    *,
    dry_run: bool,
    with_code: bool,
    claim_mode: "ClaimMode",
    **asked: Any,
) -> "WholeRestore":
    from state_engine.savepoint.restore import JobRestore
    from state_engine.spark.sinks.recorded import RecordedSinks

    with progress_of("read" if dry_run else "copy") as progress:
        prepared = JobRestore(
            root,
            job,
            source,
            RecordedSinks,
            operators_of=operators_of_code(job, root, asked["max_parallelism"]) if with_code else None,
            claim_mode=claim_mode,
            cancelled=cancelled,
            progress=progress,
            **asked,
        )
        if dry_run:
            return prepared.plan()
        with holding(root, job, "restore"):
            return prepared.run()


def _check_stopped(job: str, root: str | None, url: str | None, *, part: bool, stopped: bool) -> None:
    """Checks that the job does not run, before it is taken over; a running one can restore only key groups or keys."""
    process = process_of(root, job) if root is not None else None
    owner = str(process) if process is not None else None
    if not part and owner is None and url is not None:
        from lakestate.running_job import checked_url

        with suppress(RunnerUnreachableError):
            endpoint = endpoint_at(checked_url(url), job)
            owner = f"Process {endpoint.pid}" if endpoint is not None else None
    if not part and owner is not None:
        raise JobRunningError(
            f"{owner} holds job {job!r}.",
            action="Stop it first (`lakestate stop`). A running job can restore only key groups or keys.",
        )
    if root is not None and process is None and not (part and url):
        ensure_stopped(root, job, stopped=stopped)


def _restore_part(
    job: str,
    root: str | None,
    source: str,
    key_groups: list[str] | None,
    key: list[str] | None,
    operators: list[str] | None,
    dry_run: bool,
    cancelled: Callable[[], bool],
    url: str | None,
) -> "KeyGroupRestore":
    ranges = [_range(one) for one in key_groups or []] or None
    keys = [_key(one) for one in key or []] or None
    if url is not None or root is None or find_endpoint(root, job) is not None:
        from lakestate.rest.bodies import KeyGroupsRestore
        from lakestate.running_job import RunningJob

        body = KeyGroupsRestore(source=source, key_groups=ranges, keys=keys, operators=operators, dry_run=dry_run)
        with waiting(f"{job} restores"):
            return RunningJob(root, job, url).restore_key_groups(body)
    from state_engine.savepoint import restore_key_groups

    given = [tuple(one) if isinstance(one, list) else one for one in keys] if keys is not None else None
    lock = nullcontext() if dry_run else holding(root, job, "restore")
    with lock, waiting(f"restore into {job}"):
        return restore_key_groups(
            root, job, source, ranges, keys=given, uids=operators, dry_run=dry_run, cancelled=cancelled
        )


def _range(given: str) -> tuple[int, int]:
    first, dash, last = given.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise typer.BadParameter(f"{given!r} is not A-B or A", param_hint="--key-groups")
    return int(first), int(last if dash else first)


def _key(given: str) -> Any:
    """Parses a key: a JSON list has the values of its columns; any other text is the value of its single column."""
    if not given.startswith("["):
        return given
    try:
        columns = json.loads(given)
    except ValueError:
        return given
    return columns if isinstance(columns, list) else given


@contextmanager
def _until_signal() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns True once SIGINT or SIGTERM came; a second one ends the process at once."""
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["JobRunningError", "restore"]
