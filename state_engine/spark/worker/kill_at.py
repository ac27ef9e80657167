"""Ends a real process at a crash point, as a power cut would: with SIGKILL, no clean-up.

For tests and the demo. Off unless the environment asks for it.
"""

import json
import os
import signal
from collections.abc import Mapping

from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.ports import Crash

CRASH_AT = "LAKESTATE_CRASH_AT"
CRASH_MARKER = "LAKESTATE_CRASH_MARKER"


class KillAt:
    """Kills a process at `point@epoch`, or at `point@*` in the first epoch that passes the point.

    Args:
        spec: Point and epoch, such as `E6_SEALED@12`.
        pid: The process to kill; None for the one that passes the point.
        marker: Path of a file that is created before the kill. If it already exists, nothing is killed, so that a
            retried task, or a restarted driver, gets through.
    """

    def __init__(self, spec: str, pid: int | None = None, marker: str | None = None) -> None:
        name, _, epoch = spec.partition("@")
        if name not in CrashPoint.__members__ or not (epoch == "*" or epoch.isdecimal()):
            raise ValueError(f"{spec!r} is not of the form POINT@EPOCH or POINT@*, with a point of CrashPoint.")
        self._spec = spec
        self._point = CrashPoint[name]
        self._epoch = None if epoch == "*" else int(epoch)
        self._pid = pid
        self._marker = marker

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is not self._point or self._epoch not in (None, epoch):
            return
        if self._marker is not None and not _create(self._marker):
            return
        os.kill(os.getpid() if self._pid is None else self._pid, signal.SIGKILL)

    def as_property(self) -> str:
        """Returns this as text for the tasks; without a `pid` they kill this process, the driver."""
        return json.dumps({"spec": self._spec, "pid": self._pid or os.getpid(), "marker": self._marker})

    @classmethod
    def from_property(cls, text: str) -> "KillAt":
        """The inverse of `as_property`."""
        return cls(**json.loads(text))


def crash_from_environment(environment: Mapping[str, str] = os.environ, pid: int | None = None) -> Crash:
    """Returns the crash that `LAKESTATE_CRASH_AT` (and `LAKESTATE_CRASH_MARKER`) ask for; without it none happens."""
    spec = environment.get(CRASH_AT)
    return KillAt(spec, pid, environment.get(CRASH_MARKER)) if spec else NoCrash()


def _create(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


__all__ = ["CRASH_AT", "CRASH_MARKER", "KillAt", "crash_from_environment"]
