"""Which executor each subtask prefers: the one that it preferred before, while no executor has more than its share."""

from collections import Counter
from collections.abc import Mapping, Sequence


def assign(
    parallelism: int, slots: Mapping[str, int], before: Sequence[str] = (), others: Mapping[str, int] | None = None
) -> list[str]:
    """Returns an executor for each subtask, so that all run at once if there is a slot for each, and few move.

    The shares are those of D'Hondt: whoever is least full with one subtask more gets the next one. So no executor has
    to run its subtasks in more turns than the cluster as a whole needs.

    Args:
        parallelism: Number of subtasks.
        slots: How many tasks each executor runs at a time; among equals the first one goes first.
        before: The executor that each subtask had; none of those that are gone is taken again.
        others: Of how many subtasks of other operators each executor is the preferred one.

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
    left = shares.copy()
    found: list[str | None] = [None] * parallelism
    for subtask, executor in enumerate(before[:parallelism]):
        if left[executor] > 0:
            left[executor] -= 1
            found[subtask] = executor
    rest = left.elements()
    return [next(rest) if executor is None else executor for executor in found]


__all__ = ["assign"]
