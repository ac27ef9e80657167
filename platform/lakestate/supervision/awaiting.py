"""Waits for the end of a start: the job runs, has ended, or has failed."""

import time

from lakestate.supervision.heartbeat import Condition, Heartbeat, look
from lakestate.supervision.restarts import give_up

_POLL_S = 0.2


def await_start(root: str, job: str) -> Heartbeat:
    """Waits until a driver that has just been started is no longer starting; returns its condition then.

    A start that has failed is not repeated automatically, since the caller learns of the failure.
    """
    while (seen := look(root, job)).condition is Condition.STARTING:
        time.sleep(_POLL_S)
    if seen.condition is Condition.FAILED and seen.wanted is not None:
        give_up(root, job, seen.wanted, "Its start failed, and the error was returned to the caller.")
    return seen


__all__ = ["await_start"]
