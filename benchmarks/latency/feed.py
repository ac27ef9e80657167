"""Renames files into a folder at a pace, and notes when: `python -m benchmarks.latency.feed <feed.json>`.

A process of its own, so that it keeps its pace while the driver works.
"""

import os
import random
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.latency.model import RECORDS


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be fed.

    Attributes:
        folder: Where the files are to appear.
        log: File for a line per file: its number and the time of its rename in ns.
        first: Number of the first file.
        files: Number of files.
        keys: Number of keys.
        pace_ms: Mean time between two files.
        jitter: Largest deviation from it, as a share of it.
    """

    folder: str
    log: str
    first: int
    files: int
    keys: int
    pace_ms: float
    jitter: float


def keys_of(number: int, keys: int) -> np.ndarray:
    """Returns the keys of a file's records; the same for the same number."""
    return np.random.default_rng(number).integers(0, keys, RECORDS, dtype=np.int64)


def table_of(keys: np.ndarray, number: int) -> pa.Table:
    """Returns the records of a file."""
    return pa.table([pa.array(keys), pa.array(np.full(len(keys), number, np.int64))], names=["k", "file"])


def times_of(log: Path) -> dict[int, int]:
    """Returns when each file of a feed's log was renamed, in ns since 1970."""
    return {int(number): int(ns) for number, ns in map(str.split, log.read_text().splitlines())}


def run(feed: Feed) -> None:
    """Feeds all files."""
    draft, dice = Path(feed.folder + ".draft"), random.Random(feed.first)
    draft.mkdir(exist_ok=True)
    due = time.time()
    with open(feed.log, "a") as log:
        for number in range(feed.first, feed.first + feed.files):
            name = f"f{number:06d}.parquet"
            pq.write_table(table_of(keys_of(number, feed.keys), number), draft / name)
            due += feed.pace_ms / 1000 * (1 + feed.jitter * (2 * dice.random() - 1))
            time.sleep(max(0.0, due - time.time()))
            os.rename(draft / name, Path(feed.folder, name))
            log.write(f"{number} {time.time_ns()}\n")
            log.flush()


if __name__ == "__main__":
    run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Feed))
