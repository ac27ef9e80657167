"""Runs work that waits for the disk, a few pieces at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

MOST_AT_ONCE = 4
"""One process works on one piece per core at a time, and at most on this number: each is held in memory."""

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Returns how many pieces this process works on at the same time."""
    return min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)


@contextmanager
def few_at_once(do: Callable[[T], R], pieces: Sequence[T], threads: int) -> Iterator[Iterator[R]]:
    """Gives an iterator over the results of `do` for the pieces, in their order; it raises what `do` raised.

    After the `with` no piece is worked on any more, however the block ended. A single piece gets no thread of its own.

    Args:
        do: Called for each piece; from threads if there are several of both.
        pieces: The pieces of work.
        threads: The number of pieces that are worked on at a time.
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
