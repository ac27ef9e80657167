"""Keeps Python's garbage collector in a worker from walking all objects of the worker after each task.

Spark collects after every task. Objects that have survived one collection (modules, states) are set aside here, and
later collections look only at new ones. Modules alone cost a worker 33 ms a task, one million keys up to 142 ms.
Garbage in cycles among the objects set aside goes with the next full collection.
"""

import gc

_NEW = 50_000
"""A collection within a task starts after this number of new objects: rows come and go by 10,000, in no cycles."""


class Garbage:
    """Decides which objects a collection looks at: new ones, or all."""

    def __init__(self) -> None:
        self._tasks = 0
        self._full_at = 1
        self._let_go = False

    def note_dropped(self) -> None:
        """Notes that something large may be garbage now: an instance with its state was dropped."""
        self._let_go = True

    def collect(self) -> None:
        """Collects after a task, when nothing waits for this worker.

        Full collections come after tasks 1, 2, 4, 8, …, so their cost is about one per doubling. The garbage that they
        miss in between is no more than the same number of earlier tasks has left.
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
