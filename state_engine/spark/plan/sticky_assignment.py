"""Decides which executor a subtask prefers: the same as before, while no executor has more than its share."""

from collections import Counter
from collections.abc import Mapping, Sequence


def assign(
    parallelism: int, slots: Mapping[str, int], before: Sequence[str] = (), others: Mapping[str, int] | None = None
) -> list[str]:
    """Returns an executor for each subtask, so that all run at once if there is a slot for each, and few move.

    The shares are those of D'Hondt: the executor that is least full with one more subtask gets the next one. So no
    executor has to run its subtasks in more turns than the cluster as a whole needs.

    Args:
        parallelism: Number of subtasks.
        slots: How many tasks each executor runs at a time; among equals the first one goes first.
        before: The executor that each subtask had; executors that are gone are not used again.
        others: For each executor, how many subtasks of other operators prefer it.

    Raises:
        ValueError: There is no executor.
    """
    if not slots:
        raise ValueError("there is no executor")
    held, loads = Counter(before), others or {}
    shares: Counter[str] = Counter()

    def fullness(executor: str) -> tuple[float, bool, float]:
        room = slots[executor]
        return (shares[executor] + 1) / room, held[executor] <= shares[executor], loads.get(executor, 0) / room

    for _ in range(parallelism):
        shares[min(slots, key=fullness)] += 1
    remaining = shares.copy()
    chosen: list[str | None] = [None] * parallelism
    for subtask, executor in enumerate(before[:parallelism]):
        if remaining[executor] > 0:
            remaining[executor] -= 1
            chosen[subtask] = executor
    rest = remaining.elements()
    return [next(rest) if executor is None else executor for executor in chosen]


__all__ = ["assign"]
