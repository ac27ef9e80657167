"""The lock that a driver holds as long as it lives, and signals to whoever holds it.

The starter locks the file and lets the driver inherit the descriptor, so the lock goes with the driver, however that
ends, and with nothing else: neither with the starter nor with the JVM, which does not inherit it. The file says the
driver's number, which is true exactly as long as the lock is held.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_FILE = "lock"
_TRIES, _PAUSE_S = 20, 0.025


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[int | None]:
    """Takes the lock and gives its descriptor, for a driver to inherit; null if somebody holds it.

    Our descriptor is closed behind the block. The lock stays held if a driver has inherited it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _lock(descriptor):
            os.ftruncate(descriptor, 0)  # the number of an earlier holder
            yield descriptor
        else:
            yield None
    finally:
        os.close(descriptor)


def name_holder(descriptor: int, pid: int) -> None:
    """Writes down who holds the lock."""
    os.pwrite(descriptor, b"%d\n" % pid, 0)


def is_held(folder: Path) -> bool:
    """Returns whether a driver lives, or is just being started."""
    try:
        with (folder / _FILE).open("rb") as file:
            return not _is_free(file.fileno())
    except FileNotFoundError:
        return False


def holder(folder: Path) -> int | None:
    """Returns the process number of the living driver; null if there is none, or none that is known yet."""
    try:
        with (folder / _FILE).open("rb") as file:
            if _is_free(file.fileno()):
                return None
            text = file.read().strip()
            return int(text) if text.isdigit() else None
    except FileNotFoundError:
        return None


def signal_holder(find: Callable[[], int | None], number: int, *, group: bool = False) -> bool:
    """Sends a signal to the process that holds a lock; returns false if there is none (any more).

    Its number could be another's by the time that the signal comes. So we hold on to the process first and look once
    more: if it holds the lock then, it is the one that we hold. Where the system has no such handle (macOS) there is
    an instant between the look and the signal.

    Args:
        find: Returns the number of the process that holds the lock.
        number: The signal.
        group: To all processes of its group as well, if it is the first of one; for SIGKILL.
    """
    pid = find()
    if pid is None:
        return False
    try:
        with _held_on_to(pid) as send:
            if find() != pid:
                return False
            if group and os.getpgid(pid) == pid:
                send(signal.SIGSTOP)  # so that it cannot end, and give up its number, before its group is told
                if find() != pid:
                    return False
                os.killpg(pid, number)
            else:
                send(number)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def _held_on_to(pid: int) -> Iterator[Callable[[int], None]]:
    if not hasattr(os, "pidfd_open"):
        yield lambda number: os.kill(pid, number)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda number: signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _lock(descriptor: int) -> bool:
    """Tries more than once: whoever looks whether the lock is held holds it for an instant."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


__all__ = ["holder", "is_held", "name_holder", "signal_holder", "taken"]
