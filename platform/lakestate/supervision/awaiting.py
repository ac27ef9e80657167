"""The end of a start: the job runs, has ended, or has failed to."""

import time

from lakestate.supervision.heartbeat import Condition, Heartbeat, look
from lakestate.supervision.restarts import give_up

_POLL_S = 0.2


def await_start(root: str, job: str) -> Heartbeat:
    """Waits until a driver that has just been started is no longer starting; returns what is the matter with it then.

    A start that has failed is not repeated by anybody: whoever waits is told.
    """
    while (seen := look(root, job)).condition is Condition.STARTING:
        time.sleep(_POLL_S)
    if seen.condition is Condition.FAILED and seen.wanted is not None:
        give_up(root, job, seen.wanted, "Its start failed, and whoever started it was told.")
    return seen


__all__ = ["await_start"]
