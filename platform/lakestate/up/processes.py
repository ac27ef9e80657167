"""Starts and ends background processes, which go on after the command that started them.

Each holds a lock as long as it lives, as the driver of a stream does. A signal is sent only to the holder of the lock,
since its process id may belong to another process by then.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakestate.supervision.signals import signal_holder
from lakestate.up.errors import NotUpError, StillUpError
from state_engine.storage.job_lock import holder, name_holder, taken

_POLL_S = 0.1
_TAIL = 4_000


class BackgroundProcess:
    """A background process, by name.

    Args:
        folder: Of all background processes.
        name: Of this one; a folder of that name contains its lock and its logs.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder / name
        self.log = self._folder / "log"

    @property
    def pid(self) -> int | None:
        """Its process id; null if it does not live."""
        process = holder(self._folder)
        return process.pid if process is not None else None

    @property
    def is_alive(self) -> bool:
        """Whether it lives, or is just being started."""
        return holder(self._folder) is not None

    def start(self, command: Sequence[str], *, directory: Path, environment: Mapping[str, str]) -> bool:
        """Starts it in a session of its own and returns at once; returns false if it lives already.

        Args:
            command: Its command line.
            directory: Its working directory.
            environment: Variables in addition to those of this process.

        Raises:
            NotUpError: The system cannot start it.
        """
        with taken(self._folder) as lock:
            if lock is None:
                return False
            if self.log.exists():
                self.log.replace(self.log.with_name("log.1"))
            with self.log.open("wb") as log:
                try:
                    process = subprocess.Popen(
                        command,
                        cwd=directory,
                        env=os.environ | dict(environment),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        pass_fds=(lock,),
                        start_new_session=True,
                    )
                except OSError as error:
                    action = "Check that the limit of processes is not reached, and that the interpreter still exists."
                    raise NotUpError(f"The {self.name} could not be started: {error}.", action=action) from error
            name_holder(lock, process.pid)
        # A thread waits for its end; otherwise it would stay a zombie process as long as this process lives.
        threading.Thread(target=process.wait, name=f"end-of-{process.pid}", daemon=True).start()
        return True

    def end(self, patience_s: float = 15.0, *, with_group: bool = False) -> bool:
        """Tells it to end and waits; kills it and its group if it does not. Returns false if it did not live.

        Args:
            patience_s: How long it may take.
            with_group: Kill it and its child processes at once, since these would go on after its end.

        Raises:
            StillUpError: It still lives after that.
        """
        if not self.is_alive:
            return False
        if not with_group:
            signal_holder(lambda: self.pid, signal.SIGTERM)
        if with_group or not self._has_ended(patience_s):
            signal_holder(lambda: self.pid, signal.SIGKILL, group=True)
        if not self._has_ended(patience_s):
            raise StillUpError(
                f"Process {self.pid}, the {self.name}, was killed but still exists.",
                action="Check whether it waits for a disk; then run `lakestate down` again.",
            )
        return True

    def last_line(self) -> str:
        """Returns the last line of its log."""
        try:
            lines = self.log.read_bytes()[-_TAIL:].decode(errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _has_ended(self, patience_s: float) -> bool:
        until = time.monotonic() + patience_s
        while self.is_alive:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        return True


__all__ = ["BackgroundProcess"]
