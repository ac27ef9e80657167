"""Sends signals to the process that holds a lock, and to no other process."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator


def signal_holder(find: Callable[[], int | None], number: int, *, group: bool = False) -> bool:
    """Sends a signal to the process that holds a lock; returns false if there is none (any more).

    By the time of the signal, its process id could belong to another process. So we open a handle of the process first,
    then check again: if the process still holds the lock, the handle is that of the right process. Where the system has
    no such handle (macOS), a short gap remains between the check and the signal.

    Args:
        find: Returns the id of the process that holds the lock.
        number: The signal.
        group: Signal all processes of its group, if it is the leader of one; for SIGKILL.
    """
    pid = find()
    if pid is None:
        return False
    try:
        with _held_on_to(pid) as send:
            if find() != pid:
                return False
            if group and os.getpgid(pid) == pid:
                send(signal.SIGSTOP)  # so that it cannot end, and free its id, before its group gets the signal
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
