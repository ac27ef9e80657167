"""Workload `worker_memory`: the memory of a Python worker with a large state.

On the heap, with a million keys of three numbers each, this memory is a result in itself. In RocksDB, with fewer keys
that have half a KiB more each, it is compared with the memory that the backend may use. That limit covers block cache
and write buffers. The interpreter, the current records and the changes of an epoch need additional memory. `row/bare`
measures it: the same job, with the same number of epochs and records, over the keys of a single epoch.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.data import numbers_truth, write_worker_memory
from benchmarks.engines.lakestate_functions import wide_text
from benchmarks.model import WORKER_MEMORY, Case, Result, Tables
from benchmarks.processes import Sample, worker_peaks_mb
from benchmarks.rounds import Report
from benchmarks.runner import EngineFailedError, result_of, run_case
from benchmarks.streams import PARALLELISM

KEYS_PER_SUBTASK = 1_000_000
KEYS = KEYS_PER_SUBTASK * PARALLELISM
PASSES = 2
"""Each key comes once per pass: the first pass creates the state, the second changes all of it."""
BACKENDS = ("heap", "rocksdb")
EPOCHS_PER_PASS = {"heap": 4, "rocksdb": 20}
"""Both backends keep the changes of an epoch in memory; with RocksDB they must not dominate the measurement."""
WIDE_KEYS_SHARE = 5
"""RocksDB has a fifth of the heap's keys; each also has a text of `WIDTH` bytes, so that its state is larger."""
MEMORY_MB = 32
"""A third of the size of 200,000 keys with half a KiB each."""


def measure(
    folder: Path,
    tell: Callable[[str], None],
    keys: int = KEYS,
    backends: Sequence[str] = BACKENDS,
    memory_mb: int = MEMORY_MB,
) -> Report:
    """Runs Lakestate on `keys` keys at parallelism 2, and reports the largest worker of each case.

    Workers rotate between subtasks, so a worker may have held the state of each of them at some time.

    Args:
        folder: Folder for inputs and state.
        tell: Called with lines of progress.
        keys: Number of keys on the heap, all subtasks together; RocksDB gets a fifth.
        backends: Names in `BACKENDS`.
        memory_mb: Limit of RocksDB's memory in one worker, in MiB.
    """
    results: list[Result] = []
    failures: list[str] = []
    for case in cases(folder, keys, backends, memory_mb):
        tell(f"running {case.engine}, {case.keys:,} keys, epochs of {case.epoch_records:,}")
        try:
            run = run_case(case)
            results.append(result_of(run, truth_of(case), heaviest_worker_mb))
        except EngineFailedError as error:
            tell(str(error))
            failures.append(str(error))
            continue
        for pid, peak in worker_peaks_mb(run.samples, run.ends[-1]).items():
            tell(f"  Python worker {pid}: {peak:,.0f} MiB at most")
    return Report(results, failures)


def cases(folder: Path, keys: int, backends: Sequence[str], memory_mb: int) -> Iterator[Case]:
    """Writes the inputs of each case, and yields it. RocksDB has two cases with equal numbers of epochs and records."""
    for backend in backends:
        epochs = EPOCHS_PER_PASS[backend] * PASSES
        if backend == "heap":
            yield _case(folder, "lakestate", keys, epochs, keys // EPOCHS_PER_PASS[backend], None)
        else:
            wide = keys // WIDE_KEYS_SHARE
            records = wide // EPOCHS_PER_PASS[backend]
            yield _case(folder, "lakestate/bare", records, epochs, records, memory_mb)
            yield _case(folder, "lakestate/rocksdb", wide, epochs, records, memory_mb)


def truth_of(case: Case) -> Tables:
    """Returns the expected state: the numbers of each key, and its text if it has one."""
    truth = numbers_truth(Path(case.inputs))
    if case.memory_mb is None:
        return {"numbers": truth}
    keys: list[int] = truth["k"].to_numpy().tolist()
    return {"numbers": truth.append_column("text", pa.array([wide_text(key) for key in keys], pa.binary()))}


def _case(folder: Path, engine: str, keys: int, epochs: int, epoch_records: int, memory_mb: int | None) -> Case:
    name = engine.replace("/", "-")
    inputs, passes = folder / "inputs" / name, epochs * epoch_records // keys
    write_worker_memory(inputs, keys=keys, passes=passes, epoch_records=epoch_records, files_per_epoch=PARALLELISM)
    return Case(
        workload=WORKER_MEMORY,
        engine=engine,
        key_type="int",
        keys=keys,
        epochs=epochs,
        epoch_records=epoch_records,
        files_per_epoch=PARALLELISM,
        parallelism=PARALLELISM,
        inputs=str(inputs),
        work=str(folder / name),
        memory_mb=memory_mb,
    )


def heaviest_worker_mb(samples: Sequence[Sample], end: float) -> float:
    """Returns the largest memory of any Python worker, in MiB.

    Raises:
        EngineFailedError: No worker was found, which must not count as a small one.
    """
    peaks = worker_peaks_mb(samples, end)
    if not peaks:
        raise EngineFailedError("No Python worker was found, so its memory is unknown.")
    return max(peaks.values())
