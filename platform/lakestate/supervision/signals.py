"""Signals to the process that holds a lock, and to nobody else."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator


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


__all__ = ["signal_holder"]
