"""Workload `worker_memory`: what a Python worker weighs that holds a million keys of three numbers each."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.data import numbers_truth, write_worker_memory
from benchmarks.model import WORKER_MEMORY, Case
from benchmarks.processes import Sample, worker_peaks_mb
from benchmarks.runner import EngineFailedError, result_of, run_case
from benchmarks.running_count import PARALLELISM, Report

KEYS_PER_SUBTASK = 1_000_000
PASSES = 2
"""Each key comes once per pass: the first makes the state, the second changes all of it."""
EPOCHS_PER_PASS = 4


def measure(folder: Path, tell: Callable[[str], None], keys: int = KEYS_PER_SUBTASK * PARALLELISM) -> Report:
    """Runs Lakestate on `keys` keys at parallelism 2 and reports the heaviest worker.

    Workers rotate between subtasks, so a worker may have held the state of each of them at some time.
    """
    inputs, epoch_records = folder / "inputs" / "worker_memory", keys // EPOCHS_PER_PASS
    write_worker_memory(inputs, keys=keys, passes=PASSES, epoch_records=epoch_records, files_per_epoch=PARALLELISM)
    case = Case(
        workload=WORKER_MEMORY,
        engine="lakestate",
        key_type="int",
        keys=keys,
        epochs=EPOCHS_PER_PASS * PASSES,
        epoch_records=epoch_records,
        files_per_epoch=PARALLELISM,
        parallelism=PARALLELISM,
        inputs=str(inputs),
        work=str(folder / "worker_memory"),
    )
    tell(f"running {case.engine}, {keys:,} keys of three numbers, epochs of {epoch_records:,}")
    try:
        run = run_case(case)
        result = result_of(run, numbers_truth(inputs), heaviest_worker_mb)
    except EngineFailedError as error:
        tell(str(error))
        return Report([], [str(error)])
    for pid, peak in worker_peaks_mb(run.samples, run.ends[-1]).items():
        tell(f"  Python worker {pid}: {peak:,.0f} MiB at most")
    return Report([result], [])


def heaviest_worker_mb(samples: Sequence[Sample], end: float) -> float:
    """Returns the largest memory of any Python worker, in MiB.

    Raises:
        EngineFailedError: No worker was seen, which must not pass for a small one.
    """
    peaks = worker_peaks_mb(samples, end)
    if not peaks:
        raise EngineFailedError("No Python worker was seen, so nothing is known of its memory.")
    return max(peaks.values())
