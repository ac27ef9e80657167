"""Python's search for garbage in a worker, kept from walking all that the worker holds behind each task.

Spark collects behind every task. What has survived one collection (modules, states) is set aside here, and later ones
look at what is new alone: modules alone cost a worker 33 ms a task, one million keys up to 142 ms. What lies in cycles
among the things set aside goes with the next full collection.
"""

import gc

_NEW = 50_000
"""So many more objects than before start a collection within a task: rows come and go by 10,000, in no cycles."""


class Garbage:
    """Decides how much a collection looks at."""

    def __init__(self) -> None:
        self._tasks = 0
        self._full_at = 1
        self._let_go = False

    def let_go(self) -> None:
        """Says that something large may be garbage now: an instance with its state was dropped."""
        self._let_go = True

    def collect(self) -> None:
        """Collects behind a task, while nobody waits for it.

        Full collections come behind tasks 1, 2, 4, 8, …: all of them together cost about what one does for each
        doubling, and what they missed in between is no more than what as many tasks have left before.
        """
        self._tasks += 1
        if self._tasks == 1:
            gc.set_threshold(_NEW, *gc.get_threshold()[1:])
        if self._let_go or self._tasks >= self._full_at:
            gc.unfreeze()
            self._let_go = False
            self._full_at = 2 * self._tasks
        gc.collect()
        gc.freeze()


GARBAGE = Garbage()

__all__ = ["GARBAGE", "Garbage"]
