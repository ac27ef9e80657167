"""A runner as its parent process sees it: the command line, the events, the exit code."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from lakestate.runner_events import AnyEvent, decode_event

CRASH_AT = "LAKESTATE_CRASH_AT"
"""Environment variable: `POINT@epoch`, where the engine kills its driver."""

_POLL_S = 0.25
_DRAIN_S = 10.0


def runner_command(
    job: str,
    root: Path | str,
    *,
    options: Mapping[str, str],
    restore: str | None = None,
    uid_mapping: Mapping[str, str] | None = None,
    max_parallelism: int | None = None,
    allow_non_restored_state: bool = False,
    resume_state: Sequence[str] = (),
    discard_state: Sequence[str] = (),
    keep_output: bool = False,
    adopt_sinks: bool = False,
    allow_changed_sources: Sequence[int] = (),
    strict: bool = False,
    parallelism: int | None = None,
    available_now: bool = False,
    trigger_interval_ms: int | None = None,
    cores: str | None = None,
    master: str | None = None,
    python: str | None = None,
    environment: str | None = None,
    conf: Mapping[str, str] = MappingProxyType({}),
    rest_address: str | None = None,
    rest_port: int | None = None,
    epochs: bool = True,
) -> list[str]:
    """Returns the command line of a runner, for this interpreter."""
    command = [sys.executable, "-m", "lakestate.runner", job, "--root", str(root)]
    for name, value in options.items():
        command += ["--option", f"{name}={value}"]
    if restore is not None:
        command += ["--restore", restore]
    for old, new in (uid_mapping or {}).items():
        command += ["--uid-mapping", f"{old}={new}"]
    if max_parallelism is not None:
        command += ["--max-parallelism", str(max_parallelism)]
    if allow_non_restored_state:
        command.append("--allow-non-restored-state")
    for uid in resume_state:
        command += ["--resume-state", uid]
    for uid in discard_state:
        command += ["--discard-state", uid]
    if keep_output:
        command.append("--keep-output")
    if adopt_sinks:
        command.append("--adopt-sinks")
    for number in allow_changed_sources:
        command += ["--allow-changed-sources", str(number)]
    if strict:
        command.append("--strict")
    if parallelism is not None:
        command += ["--parallelism", str(parallelism)]
    named = {"--cores": cores, "--master": master, "--python": python, "--environment": environment}
    for name, value in (named | {"--rest-address": rest_address}).items():
        if value is not None:
            command += [name, value]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    if rest_port is not None:
        command += ["--rest-port", str(rest_port)]
    if available_now:
        command.append("--available-now")
    if trigger_interval_ms is not None:
        command += ["--trigger-interval-ms", str(trigger_interval_ms)]
    return command if epochs else [*command, "--no-epochs"]


class RunnerProcess:
    """A runner in a session of its own, so that ending its process group ends the runner and its JVM, nothing else.

    Use as a context manager: on exit, the remaining processes of the group are killed.

    Args:
        command: What to run.
        log: File that standard error is appended to.
        crash_at: `POINT@epoch`; None for no crash.
    """

    def __init__(self, command: Sequence[str], *, log: Path, crash_at: str | None = None) -> None:
        environment = {name: value for name, value in os.environ.items() if name != CRASH_AT}
        if crash_at is not None:
            environment[CRASH_AT] = crash_at
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        self._cleared = False
        self._events: queue.SimpleQueue[AnyEvent | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"events-of-{self._process.pid}", daemon=True)
        self._reader.start()

    def __enter__(self) -> "RunnerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def events(self, silence_s: float = 300.0) -> Iterator[AnyEvent]:
        """Yields events as they come, until the runner has closed its output.

        Raises:
            TimeoutError: The runner lives, and sent no event for `silence_s`.
        """
        last_event = time.monotonic()
        while True:
            try:
                event = self._events.get(timeout=_POLL_S)
            except queue.Empty:
                if self._process.poll() is not None:
                    self.kill()  # a process that it started may hold its output open
                elif time.monotonic() - last_event > silence_s:
                    raise TimeoutError(f"The runner has sent no event for {silence_s:.0f} s.") from None
                continue
            if event is None:
                return
            last_event = time.monotonic()
            yield event

    def request_stop(self) -> None:
        """Asks the job to stop after the current epoch; the runner then sends `finished`."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float = 60.0) -> int:
        """Returns the exit code, negative for the signal that ended it, and kills what it left running."""
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills the remaining processes of the group, such as the JVM of a driver that was killed."""
        if self._cleared:
            return
        self._cleared = True  # only once: the id of a group that has ended may be reused
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=_DRAIN_S)
        if self._reader.is_alive():
            self._events.put(None)  # a process outside of the group holds the pipe open, so its end does not come
        elif self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = decode_event(line)
            if event is not None:
                self._events.put(event)
        self._events.put(None)


__all__ = ["CRASH_AT", "RunnerProcess", "runner_command"]
