"""`lakestate start`: runs a registered job in a background process that Dagster supervises."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, ExitCode, Root, make_console, named_errors, print_json, waiting
from lakestate.commands.options import (
    AdoptSinks,
    AllowChangedSources,
    AllowNonRestoredState,
    AvailableNow,
    Conf,
    Cores,
    DiscardState,
    Environment,
    JobOptions,
    KeepOutput,
    Master,
    MaxParallelism,
    Parallelism,
    Python,
    RegisteredJob,
    RestAddress,
    Restore,
    RestPort,
    ResumeState,
    Strict,
    TriggerInterval,
    UidMapping,
    request_of,
)

if TYPE_CHECKING:
    from lakestate.supervision import Heartbeat


def start(
    job: RegisteredJob,
    root: Root,
    option: JobOptions = None,
    restore: Restore = None,
    uid_mapping: UidMapping = None,
    max_parallelism: MaxParallelism = None,
    allow_non_restored_state: AllowNonRestoredState = False,
    resume_state: ResumeState = None,
    discard_state: DiscardState = None,
    keep_output: KeepOutput = False,
    adopt_sinks: AdoptSinks = False,
    allow_changed_sources: AllowChangedSources = None,
    strict: Strict = False,
    parallelism: Parallelism = None,
    available_now: AvailableNow = False,
    trigger_interval_ms: TriggerInterval = None,
    cores: Cores = None,
    master: Master = None,
    python: Python = None,
    environment: Environment = None,
    conf: Conf = None,
    rest_address: RestAddress = None,
    rest_port: RestPort = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the job runs or has failed.")] = True,
    as_json: AsJson = False,
) -> None:
    """Start a registered job in the background. Dagster restarts it when it fails, until it is stopped.

    Once it runs, it does not need this command, its terminal or Dagster. `lakestate stop` ends it. A start that fails
    while it is waited for is not repeated.
    """
    request = request_of(
        option,
        restore,
        uid_mapping,
        conf,
        environment,
        max_parallelism=max_parallelism,
        allow_non_restored_state=allow_non_restored_state,
        resume_state=tuple(resume_state or ()),
        discard_state=tuple(discard_state or ()),
        keep_output=keep_output,
        adopt_sinks=adopt_sinks,
        allow_changed_sources=tuple(allow_changed_sources or ()),
        strict=strict,
        parallelism=parallelism,
        available_now=available_now,
        trigger_interval_ms=trigger_interval_ms,
        cores=cores,
        master=master,
        python=python,
        rest_address=rest_address,
        rest_port=rest_port,
    )
    with named_errors():
        from lakestate.supervision import await_start, driver_folder, log_path, start_driver

        started = start_driver(root, job, request)
        log = log_path(driver_folder(root, job))
        with waiting(f"{job} starts"):
            seen = await_start(root, job) if wait else None
        if as_json:
            url = seen.url if seen is not None else None
            print_json({"pid": started.pid, "url": url, "log": str(log)})
        elif seen is None:
            make_console().print(Text(f"{job} starts as process {started.pid}; its log: {log}"))
        else:
            _print(job, seen, started.pid, str(log))
        if seen is not None and seen.condition == "failed":
            typer.echo(f"{seen.last_words.cause}\nIts log: {log}", err=True)
            raise typer.Exit(ExitCode.FAILED)


def _print(job: str, seen: "Heartbeat", pid: int, log: str) -> None:
    if seen.condition == "running":
        make_console().print(Text(f"{job} runs as process {pid} at {seen.url}; its log: {log}"))
    elif seen.condition != "failed":
        make_console().print(Text(f"{job} was started as process {pid}, and {seen.condition}; its log: {log}"))


__all__ = ["start"]
