"""Decides which Python worker a task goes to: the one that has had its partition before."""

from collections import Counter
from typing import Generic, TypeVar

WorkerT = TypeVar("WorkerT")

_AT_ONCE = 2
"""Workers per connection: with one, subtasks that outnumber the task slots would often find their worker busy."""


class Homes(Generic[WorkerT]):
    """The workers of a host that each partition has had before.

    A partition has a list of workers that have had it, and goes to the first of them that is idle. So a subtask comes
    back to the worker that holds its state. If that worker is busy with another partition, the chosen one becomes the
    first, so that two partitions do not keep wanting the same worker. If it is busy with the same partition, its task
    is of a stage that runs at the same time. Then the order stays, so that each of the two finds its own worker next
    time.

    The number of a partition is a hint, not a promise: a worker with a task that is not its own loads what it lacks.

    Args:
        grows: Whether there may be more workers than tasks at a time.
    """

    def __init__(self, *, grows: bool = True) -> None:
        self._of_partition: dict[int, list[WorkerT]] = {}
        self._busy: dict[WorkerT, int | None] = {}
        """Each worker's partition, None while it is idle."""
        self._partitions: Counter[WorkerT] = Counter()
        """For each worker, how many partitions have it in their list: a Spark job may have tens of thousands."""
        self._per_connection = _AT_ONCE if grows else 1

    def add(self, worker: WorkerT) -> None:
        """Adds a worker, which is idle and has had no partition yet."""
        self._busy[worker] = None

    def remove(self, worker: WorkerT) -> None:
        """Forgets a worker that has ended."""
        del self._busy[worker], self._partitions[worker]
        for partition, workers in list(self._of_partition.items()):
            if worker in workers:
                workers.remove(worker)
                if not workers:
                    del self._of_partition[partition]

    def idle(self) -> list[WorkerT]:
        """Returns the workers without a task."""
        return [worker for worker, partition in self._busy.items() if partition is None]

    def choose(self, partition: int, connections: int) -> WorkerT | None:
        """Returns an idle worker for a task, or None if a new worker is to be added for it.

        Args:
            partition: Number of the task's partition.
            connections: Number of tasks that may come at the same time.
        """
        idle = self.idle()
        for worker in self._of_partition.get(partition, ()):
            if worker in idle:
                return worker
        freest = min(idle, key=self._partitions.__getitem__, default=None)
        may_grow = len(self._busy) < self._per_connection * connections
        return None if freest is None or (self._partitions[freest] and may_grow) else freest

    def begin(self, partition: int, worker: WorkerT) -> None:
        """Notes that an idle worker has got a task."""
        workers = self._of_partition.setdefault(partition, [])
        if worker not in workers:
            workers.append(worker)
            self._partitions[worker] += 1
        place = workers.index(worker)
        if all(self._busy[other] != partition for other in workers[:place]):
            workers.insert(0, workers.pop(place))
        self._busy[worker] = partition

    def end(self, worker: WorkerT) -> None:
        """Notes that a worker is done with its task."""
        self._busy[worker] = None


__all__ = ["Homes"]
