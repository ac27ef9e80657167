"""Work that waits for the disk, a few pieces at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

MOST_AT_ONCE = 4
"""Pieces that one process works on at the same time, where it has the cores: each is held in memory."""

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Returns how many pieces this process works on at the same time."""
    return min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)


@contextmanager
def few_at_once(do: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[Iterator[R]]:
    """Gives what `do` returns for each piece, in their order, and raises what it raised.

    Behind the `with` nothing is done any more, whatever ended it. A single piece has no thread of its own.

    Args:
        do: Is called for each piece; of several, from threads.
        pieces: What there is to do.
        threads: How many pieces are in the works at a time.
    """
    if threads == 1 or len(pieces) < 2:
        yield map(do, pieces)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="savepoint")
    try:
        yield pool.map(do, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


__all__ = ["MOST_AT_ONCE", "cores", "few_at_once"]
