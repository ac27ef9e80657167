"""Workload `small_epochs`: epochs of a thousand records over a state of any size must cost what they change.

The running count, row by row: first every key once, in epochs of up to a million records, then the small epochs that
are measured. Their records are drawn over all keys, so none is more at hand than another.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs, write_epoch
from benchmarks.model import IN_FILES, RUNNING_COUNT, SMALL_EPOCHS, Case, Result
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import Run
from benchmarks.steady import WARM_UP
from benchmarks.streams import PARALLELISM, judged

RECORDS = 1_000
EPOCHS = 120
LOADED = 1_000_000
"""Keys that one of the first epochs brings, at most."""
ENGINES = ("lakestate", "lakestate/rocksdb", IN_FILES)


def measure(
    folder: Path, tell: Callable[[str], None], keys: Sequence[int], engines: Sequence[str], rounds: int = 1
) -> Report:
    """Runs each engine at each number of keys, and returns one row per case."""
    return run_rounds(
        rounds,
        lambda round_number: cases(folder, keys, engines, round_number),
        small,
        tell,
        lambda case: f"{case.engine}, {case.keys:,} keys",
    )


def small(run: Run) -> Result:
    """Returns the row of a run, as it is of a running count, but for its name and the number of its records."""
    case = run.case
    records = case.keys + (case.epochs - loading(case.keys)) * RECORDS
    return msgspec.structs.replace(judged(run), workload=SMALL_EPOCHS, records=records)


def cases(folder: Path, keys: Sequence[int], engines: Sequence[str], round_number: int) -> Iterator[Case]:
    """Yields the cases of one round with their input files written."""
    for count in keys:
        inputs = folder / "inputs" / str(count)
        if not inputs.exists():
            for epoch, numbers in enumerate(key_numbers(count)):
                write_epoch(inputs, epoch, pa.table({"k": pa.array(numbers)}), PARALLELISM)
        for engine in engines:
            yield Case(
                workload=RUNNING_COUNT,
                engine=engine,
                key_type="int",
                keys=count,
                epochs=epochs_of(count),
                epoch_records=RECORDS,
                files_per_epoch=PARALLELISM,
                parallelism=PARALLELISM,
                inputs=str(inputs),
                work=str(folder / f"round-{round_number}" / f"{engine.replace('/', '-')}-{count}"),
            )


def key_numbers(keys: int) -> Iterator[Longs]:
    """Yields the keys of each epoch: all of them once, then some of them."""
    random = np.random.default_rng(SEED)
    yield from np.array_split(random.permutation(keys), loading(keys))
    for _ in range(epochs_of(keys) - loading(keys)):
        yield random.integers(0, keys, size=RECORDS, dtype=np.int64)


def loading(keys: int) -> int:
    """Returns how many of the first epochs bring the keys."""
    return math.ceil(keys / LOADED)


def epochs_of(keys: int) -> int:
    """Returns how many epochs there are, the same for all but the largest states; those that bring keys are warm-up."""
    return max(EPOCHS, math.ceil(loading(keys) / WARM_UP))
