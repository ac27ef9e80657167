"""The log of a driver, `driver/driver.log`, and its last words, `driver/events`.

Standard error goes to the log: what Spark and the job print. Each start begins a new log; the logs of the last starts
are kept. Standard output, which a runner reserves for events, goes to a file with the events of the newest start.
"""

import os
import shutil
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lakestate.runner_events import AnyEvent, Failed, Finished, Started, decode_event
from state_engine.causes import LONGEST_REPORT
from state_engine.text import plain, shorten

_LOG, _EVENTS = "driver.log", "events"
_KEPT = 5
_LIMIT = 32 << 20
_TAIL, _LONGEST_TAIL = 16 << 10, 4 << 20
_LONGEST_LINE = 500


class LastWords(NamedTuple):
    """The last event of the newest start, and the last line of its log."""

    event: AnyEvent | None
    line: str

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, as requested or at the end of its input, and not only its process."""
        return isinstance(self.event, Finished) and not self.event.by_signal

    @property
    def cause(self) -> str:
        """The known cause of the end of a process that has failed."""
        match self.event:
            case Failed(error=error, message=message, action=action):
                remedy = f" What to do: {action}" if action else ""
                return shorten(plain(f"{error}: {message}{remedy}"), LONGEST_REPORT)
            case Finished():
                return "A signal told its process to end."
            case Started():
                return "Its process ended without a final event, as if it was killed."
        return f"Its process ended before the job ran: {self.line or 'its log is empty.'}"


def log_path(folder: Path) -> Path:
    """Returns where the newest start writes its log."""
    return folder / _LOG


def begin_log(folder: Path) -> BinaryIO:
    """Returns a new log, opened for appending; earlier logs get the numbers 1, 2, and so on."""
    path = log_path(folder)
    for number in range(_KEPT - 1, 0, -1):
        older = path.with_name(f"{_LOG}.{number - 1}") if number > 1 else path
        if older.exists():
            older.replace(path.with_name(f"{_LOG}.{number}"))
    return open(path, "ab", opener=_private)


def begin_events(folder: Path) -> BinaryIO:
    """Returns an empty file for the events of a start."""
    return open(folder / _EVENTS, "wb", opener=_private)


def trim_log(folder: Path, limit: int = _LIMIT) -> bool:
    """Moves the contents of a log that has grown beyond a limit into `driver.log.1`; returns whether it did.

    The process goes on writing to the same file, which is then empty. What it writes during the move may be lost.
    """
    path = log_path(folder)
    try:
        if path.stat().st_size <= limit:
            return False
        shutil.copyfile(path, path.with_name(f"{_LOG}.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True


def last_words(folder: Path) -> LastWords:
    """Returns the last event and the last log line of the newest start."""
    events = [event for line in _tail(folder / _EVENTS) if (event := decode_event(line)) is not None]
    lines = [text for line in _tail(log_path(folder)) if (text := line.decode(errors="replace").strip())]
    return LastWords(events[-1] if events else None, shorten(plain(lines[-1]), _LONGEST_LINE) if lines else "")


def _tail(path: Path) -> list[bytes]:
    """Returns the last lines of a file; the last one is complete unless it is longer than 4 MiB."""
    try:
        with path.open("rb") as file:
            size, length = path.stat().st_size, _TAIL
            while True:
                file.seek(max(0, size - length))
                data = file.read()
                if length >= min(size, _LONGEST_TAIL) or b"\n" in data.rstrip():
                    return data.splitlines()
                length *= 4
    except FileNotFoundError:
        return []


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


__all__ = ["LastWords", "begin_events", "begin_log", "last_words", "log_path", "trim_log"]
