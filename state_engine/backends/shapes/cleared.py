"""Keeps which entries an epoch cleared, by number."""

from collections.abc import Callable

import numpy as np

from state_engine.api.keys import Numbers
from state_engine.backends.ascending import Flags


class ClearedKeys:
    """The keys of the lists or maps that an epoch cleared."""

    def __init__(self) -> None:
        self._parts: list[Numbers] = []
        self._flags: Flags = np.zeros(0, bool)

    def add(self, numbers: Numbers, size: int) -> None:
        """Adds keys; some may have been added before.

        Args:
            numbers: Their numbers, each once.
            size: All numbers of keys are below it.
        """
        numbers = numbers[~self.has(numbers)]
        if len(self._flags) < size:
            before, self._flags = self._flags, np.zeros(size, bool)
            self._flags[: len(before)] = before
        self._flags[numbers] = True
        self._parts.append(numbers)

    def has(self, numbers: Numbers) -> Flags:
        """Returns which of the keys were added."""
        flags = np.zeros(len(numbers), bool)
        in_range = np.flatnonzero(numbers < len(self._flags))
        flags[in_range] = self._flags[numbers[in_range]]
        return flags

    @property
    def numbers(self) -> Numbers:
        """The keys, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *self._parts]))

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each key another number, in the same order."""
        numbers = new(self.numbers)
        self._parts, self._flags = [], np.zeros(0, bool)
        self.add(numbers, int(numbers.max(initial=-1)) + 1)


__all__ = ["ClearedKeys"]
