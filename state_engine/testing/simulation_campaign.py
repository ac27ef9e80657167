"""Plays many new histories of the simulated cluster on all cores, and prints failing ones as lines for the corpus.

```
make campaign ARGS="--histories 20000 --seed 7"
```
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from random import SystemRandom
from typing import NamedTuple

from state_engine.testing.history_words import random_history, text_of
from state_engine.testing.simulated_history import find, shrink
from state_engine.testing.simulated_processes import stepping

CHUNK = 25
PROGRESS_S = 10.0


class Find(NamedTuple):
    """A history that fails.

    Attributes:
        seed: Its seed.
        kind: The kind of failure, without numbers.
        message: The failure.
        line: The history, shrunk; empty if another history of this kind was shrunk.
    """

    seed: int
    kind: str
    message: str
    line: str = ""


class Chunk(NamedTuple):
    """The result of several consecutive seeds."""

    played: int
    finds: tuple[Find, ...]


def play(first: int, count: int, known: frozenset[str] = frozenset()) -> Chunk:
    """Plays the histories of consecutive seeds, and shrinks the first failing one of each new kind.

    Args:
        first: The first seed.
        count: Number of seeds.
        known: Kinds of failures that need not be shrunk.
    """
    finds: list[Find] = []
    seen = set(known)
    with stepping():
        for seed in range(first, first + count):
            actions = random_history(seed)
            failure = find(actions)
            if failure is None:
                continue
            line = ""
            if failure.kind not in seen:
                seen.add(failure.kind)
                line = text_of(shrink(actions, failure.kind))
            finds.append(Find(seed, failure.kind, str(failure), line))
    return Chunk(count, tuple(finds))


def campaign(seed: int, histories: int, processes: int, *, stop: bool = False) -> tuple[int, list[Find]]:
    """Plays histories on several cores and prints its progress.

    Args:
        seed: The first seed.
        histories: Number of histories.
        processes: Number of processes.
        stop: Whether to stop at the first failure.

    Returns:
        The number of histories played, and the failures.
    """
    finds: list[Find] = []
    done, printed, began = 0, time.monotonic(), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for chunk in pool.imap_unordered(_play, _chunks(seed, histories)):
            done += chunk.played
            finds += chunk.finds
            for find in chunk.finds:
                print(f"seed {find.seed}: {find.message}\n  {find.line}", flush=True)
            if time.monotonic() - printed > PROGRESS_S:
                printed = time.monotonic()
                rate = done / (printed - began)
                print(f"{done} of {histories} histories, {rate:.0f}/s, {len(finds)} finds", flush=True)
            if stop and finds:
                break
    return done, finds


def _chunks(seed: int, histories: int) -> Iterator[tuple[int, int]]:
    for start in range(0, histories, CHUNK):
        yield seed + start, min(CHUNK, histories - start)


def _play(chunk: tuple[int, int]) -> Chunk:
    return play(*chunk)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays a campaign; returns 1 if a history failed."""
    parser = argparse.ArgumentParser(prog="make campaign", description="Play random histories of the protocol.")
    parser.add_argument("--histories", type=int, default=20_000)
    parser.add_argument("--seed", type=int, help="the first seed; a new one by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop", action="store_true", help="end at the first find")
    given = parser.parse_args(arguments)
    seed = SystemRandom().randrange(2**32) if given.seed is None else given.seed
    print(f"{given.histories} histories from seed {seed} in {given.processes} processes", flush=True)
    began = time.monotonic()
    done, finds = campaign(seed, given.histories, given.processes, stop=given.stop)
    took = time.monotonic() - began
    kinds = Counter(find.kind for find in finds)
    print(f"{done} histories, seeds {seed} to {seed + given.histories - 1}, {took:.0f} s, {done / took:.1f}/s")
    for kind, number in kinds.most_common():
        of_kind = [find for find in finds if find.kind == kind]
        shortest = min((find for find in of_kind if find.line), key=lambda find: len(find.line), default=of_kind[0])
        print(f"{number} x {kind} (first seed {min(find.seed for find in of_kind)})\n  {shortest.message}")
        print(f"  corpus line: {shortest.line}")
    print(f"{len(finds)} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["Chunk", "Find", "campaign", "main", "play"]
