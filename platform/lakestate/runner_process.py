"""A runner as its parent process sees it: the command line, the events, the exit code."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from lakestate.runner_events import AnyEvent, decode_event
from lakestate.start_request import StartRequest

CRASH_AT = "LAKESTATE_CRASH_AT"
"""Environment variable: `POINT@epoch`, where the engine kills its driver."""

_POLL_S = 0.25
_DRAIN_S = 10.0


def runner_command(job: str, root: Path | str, request: StartRequest, *, epochs: bool = True) -> list[str]:
    """Returns the command line of a runner, for this interpreter."""
    command = [sys.executable, "-m", "lakestate.runner", job, "--root", str(root), *request.arguments()]
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
