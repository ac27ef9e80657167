"""How fast memory is at the moment, on a machine that shares it with others.

Two virtual cores have the processor's last cache and the way to memory in common with whoever else runs on it, and no
figure of the system tells: neither the share of time that was stolen, nor the speed of plain arithmetic. What an engine
does with its state is slowed down all the same, so each row says what one look into memory took around it.
"""

import random
import time
from functools import lru_cache
from statistics import median

KEYS, LOOKS, PASSES = 50_000, 100_000, 31
"""As many keys as a subtask of `running_count` has: more than fits into the caches that a core has alone."""


def look_ns() -> float:
    """Returns what one look at a key takes now, in nanoseconds: the median of what a quarter of a second gives."""
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
