"""How worker processes ended: Spark only sees that a connection closed, the daemon is the parent and can ask.

Spark adds a file to its message when a worker dies (`spark.python.worker.faulthandler.enabled`). The daemon writes one
more line into that file: the signal or the exit code.
"""

import os
import re
import signal
import time
from contextlib import suppress

_PATIENCE_S = 1.0
_PAUSE_S = 0.005
_LINE = "Python worker process {pid} {how}."
_WRITTEN = re.compile(r"Python worker process \d+ ((?:was killed by|exited with) [^.\n]+)\.")
_OUT_OF_MEMORY = "Linux does that when memory runs out"


def exit_status(pid: int) -> int | None:
    """Waits up to a second for a child that is ending, and reaps it.

    Its sockets close shortly before the kernel can report its status.

    Returns:
        The exit code, a signal's number negated, or None if the process still runs or is not a child.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        status = reaped(pid)
        if status is not None or time.monotonic() > deadline:
            return status
        time.sleep(_PAUSE_S)


def reaped(pid: int) -> int | None:
    """Reaps a child if it has ended, and returns its status as `exit_status` does."""
    with suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    return None


def exit_line(pid: int, status: int) -> str:
    """Returns the line that the daemon writes about a worker that died."""
    return _LINE.format(pid=pid, how=f"was killed by {_name(-status)}" if status < 0 else f"exited with code {status}")


def exit_in(text: str) -> str | None:
    """Returns how a worker ended, from a text of Spark's that contains a line of `exit_line`; None without one."""
    match = _WRITTEN.search(text)
    if match is None:
        return None
    return f"It {match[1]}{f' ({_OUT_OF_MEMORY})' if match[1].endswith('SIGKILL') else ''}."


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


__all__ = ["exit_in", "exit_line", "exit_status", "reaped"]
