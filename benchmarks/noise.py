"""Measures how fast memory is at the moment, on a machine that is shared with other guests.

Two virtual cores share the processor's last-level cache and memory bandwidth with other guests. No figure of the system
shows this: neither stolen time nor the speed of plain arithmetic. It slows down an engine's work on state all the same,
so each row reports the time of a memory access measured around its run.
"""

import random
import time
from functools import lru_cache
from statistics import median

KEYS, LOOKS, PASSES = 50_000, 100_000, 31
"""The number of keys of a subtask of `running_count`: more than fits into the private caches of a core."""


def look_ns() -> float:
    """Returns the time of one access to a key now, in nanoseconds: the median over a quarter of a second."""
    states, order = _memory()
    return round(median(_pass_ns(states, order) for _ in range(PASSES)), 1)


def _pass_ns(states: dict[int, list[int]], order: list[int]) -> float:
    began = time.perf_counter_ns()
    for key in order:
        states[key][0] += 1
    return (time.perf_counter_ns() - began) / len(order)


@lru_cache(maxsize=1)
def _memory() -> tuple[dict[int, list[int]], list[int]]:
    draw = random.Random(7)
    states = {draw.getrandbits(40): [0] for _ in range(KEYS)}
    return states, draw.choices(list(states), k=LOOKS)


__all__ = ["look_ns"]
