"""Workloads `small_epochs` and `large_epochs`: epochs must cost what they change, over a state of any size.

Both are the running count: first every key once, in epochs of up to a million records, then the measured epochs. Small
epochs draw their records from all keys, so that no key is more likely to be cached than another. Large epochs touch ten
thousand keys, spread over all keys and different in each epoch. A higher cost per record is then due to the size of the
state.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, Longs, write_epoch
from benchmarks.model import IN_FILES, LARGE_EPOCHS, RUNNING_COUNT, SMALL_EPOCHS, Case, Result
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import Run
from benchmarks.state_backend_engine import spread
from benchmarks.steady import WARM_UP
from benchmarks.streams import PARALLELISM, judged

LOADED = 1_000_000
"""The most keys that one of the first epochs creates."""


class Epochs(NamedTuple):
    """A workload over states of several sizes.

    Attributes:
        workload: Its name.
        about: What it does, in one line.
        records: Number of records of a measured epoch.
        least: Least number of epochs, including those that create keys; the largest states have more.
        touched: Number of keys that a measured epoch touches; None if it draws from all keys.
        engines: The engines that it compares by default.
    """

    workload: str
    about: str
    records: int
    least: int
    touched: int | None
    engines: tuple[str, ...]

    def over(self, keys: int) -> int:
        """Returns the number of epochs for a number of keys; epochs that create keys are part of the warm-up."""
        return max(self.least, math.ceil(loading(keys) / WARM_UP))


SMALL = Epochs(
    SMALL_EPOCHS,
    "Epochs of 1,000 records over states of many sizes.",
    1_000,
    120,
    None,
    ("lakestate", "lakestate/rocksdb", IN_FILES),
)
LARGE = Epochs(
    LARGE_EPOCHS,
    "Epochs of 1,000,000 records that touch 10,000 keys, over states of many sizes.",
    1_000_000,
    60,
    10_000,
    ("lakestate", "lakestate/rocksdb", "vectorised", "declared"),
)


def measure(
    epochs: Epochs,
    folder: Path,
    tell: Callable[[str], None],
    keys: Sequence[int],
    engines: Sequence[str],
    rounds: int = 1,
) -> Report:
    """Runs each engine at each number of keys, and returns one row per case."""
    return run_rounds(
        rounds,
        lambda round_number: cases(epochs, folder, keys, engines, round_number),
        lambda run: row(epochs, run),
        tell,
        lambda case: f"{case.engine}, {case.keys:,} keys",
    )


def row(epochs: Epochs, run: Run) -> Result:
    """Returns the row of a run: that of a running count, with this workload's name and the actual number of records."""
    case = run.case
    records = case.keys + (case.epochs - loading(case.keys)) * epochs.records
    return msgspec.structs.replace(judged(run), workload=epochs.workload, records=records)


def cases(
    epochs: Epochs, folder: Path, keys: Sequence[int], engines: Sequence[str], round_number: int
) -> Iterator[Case]:
    """Writes the input files of one round, and yields its cases."""
    for count in keys:
        inputs = folder / "inputs" / str(count)
        if not inputs.exists():
            for epoch, numbers in enumerate(key_numbers(epochs, count)):
                write_epoch(inputs, epoch, pa.table({"k": pa.array(numbers)}), PARALLELISM)
        for engine in engines:
            yield Case(
                workload=RUNNING_COUNT,
                engine=engine,
                key_type="int",
                keys=count,
                epochs=epochs.over(count),
                epoch_records=epochs.records,
                files_per_epoch=PARALLELISM,
                parallelism=PARALLELISM,
                inputs=str(inputs),
                work=str(folder / f"round-{round_number}" / f"{engine.replace('/', '-')}-{count}"),
            )


def key_numbers(epochs: Epochs, keys: int) -> Iterator[Longs]:
    """Yields the keys of each epoch: first epochs with every key once, then the measured epochs."""
    random = np.random.default_rng(SEED)
    yield from np.array_split(random.permutation(keys), loading(keys))
    for epoch in range(epochs.over(keys) - loading(keys)):
        numbers = random.integers(0, min(keys, epochs.touched or keys), size=epochs.records, dtype=np.int64)
        yield numbers if epochs.touched is None else spread(keys, epochs.touched, epoch)[numbers]


def loading(keys: int) -> int:
    """Returns the number of first epochs that create the keys."""
    return math.ceil(keys / LOADED)
