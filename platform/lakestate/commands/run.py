"""`lakestate run`: runs a registered job in the foreground, with a line that shows its progress."""

import math
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from lakestate.commands.common import ExitCode, Root, exit_code_of, make_console, named_errors
from lakestate.commands.formats import format_count, format_duration
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
from lakestate.control import process_of
from lakestate.registry import find_job
from lakestate.runner_events import (
    AnyEvent,
    CheckpointCompleted,
    EpochSealed,
    Failed,
    Finished,
    Started,
    encode_event,
)
from lakestate.runner_process import RunnerProcess
from lakestate.supervision import driver_command
from state_engine import errors
from state_engine.storage.job_lock import already_running

_STOPPING = b"\nStopping after the current epoch. A second signal (Ctrl-C) kills it.\n"


def run(
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
    log: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File for the output of Spark and of the job. Default: a temporary file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event, for programs.")] = False,
) -> None:
    """Run a registered job in the foreground. Ctrl-C stops it after the current epoch; a second Ctrl-C kills it."""
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
        find_job(job)  # neither a misspelt name nor a job that runs must wait for Spark
        if (owner := process_of(root, job)) is not None:
            raise already_running(root, job, owner.holder)
        command = driver_command(job, root, request, epochs=True)
    console = Console(stderr=True, highlight=False) if as_json else make_console()
    path = log or _temporary_log(job)
    with RunnerProcess(command, log=path) as process, _stopped_by_signals(process) as stop:
        with _View(console, job, path) as view:
            last = None
            for event in process.events(silence_s=math.inf):
                last = event
                if as_json:
                    sys.stdout.write(encode_event(event).decode())
                    sys.stdout.flush()
                else:
                    view.show(event)
        code = process.wait()
    _end(last, code, path, asked=bool(stop))
    if log is None:
        path.unlink(missing_ok=True)


def _temporary_log(job: str) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f"lakestate-{job}-", suffix=".log")
    os.close(descriptor)
    return Path(name)


def _end(last: AnyEvent | None, code: int, path: Path, *, asked: bool) -> None:
    """Ends with the exit code for the last event of the runner, or for the way it died."""
    if isinstance(last, Failed):
        error = getattr(errors, last.error, None)
        is_named = isinstance(error, type) and issubclass(error, errors.LakestateError)
        remedy = f" What to do: {last.action}" if last.action else ""
        typer.echo(f"{last.error}: {last.message}{remedy}\nIts log: {path}", err=True)
        raise typer.Exit(exit_code_of(error("")) if is_named and error is not None else ExitCode.FAILED)
    if isinstance(last, Finished) or (asked and code == -signal.SIGTERM):
        return
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    typer.echo(f"The process of the job ended by {how} and did not report why. Its log: {path}", err=True)
    raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _stopped_by_signals(process: RunnerProcess) -> Iterator[list[int]]:
    """Makes SIGINT and SIGTERM ask the job to stop; a second signal ends it at once."""
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        process.request_stop()
        os.write(2, _STOPPING)  # not through the console, which may be in the middle of a line

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.FAILED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _View:
    """Shows one line that is updated on a terminal; without a terminal, a line per epoch."""

    def __init__(self, console: Console, job: str, log: Path) -> None:
        self._console = console
        self._spinner = Spinner("dots", Text(f"{job} starts; Spark's output goes to {log}"))
        self._live = Live(self._spinner, console=console, transient=True) if console.is_terminal else None
        self._place = ""
        self._checkpoint = ""

    def __enter__(self) -> "_View":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, event: AnyEvent) -> None:
        """Updates the display with one event."""
        match event:
            case Started():
                self._place = f"{event.generation}"
                self._line(f"{event.job} runs from epoch {event.generation}/{event.epoch} on")
            case EpochSealed():
                text = Text(f"epoch {self._place}/{event.epoch} · {_rate(event)} · {format_count(event.keys)} keys")
                text.append(f" · {format_count(event.state_rows)} state rows{self._checkpoint}")
                if self._live is None:
                    self._line(text.plain)
                else:
                    self._spinner.update(text=text)
            case CheckpointCompleted():
                self._checkpoint = f" · checkpoint {event.checkpoint_id} at epoch {event.epoch}"
            case Finished():
                how = "stopped" if event.stopped else "finished"
                self._line(f"{how} at epoch {self._place}/{event.epoch}")
            case Failed():
                pass

    def _line(self, text: str) -> None:
        self._console.print(Text(text))


def _rate(event: EpochSealed) -> str:
    rate = f" ({event.records / event.seconds:,.0f}/s)" if event.seconds else ""
    return f"{format_count(event.records)} records in {format_duration(event.seconds * 1000)}{rate}"


__all__ = ["run"]
