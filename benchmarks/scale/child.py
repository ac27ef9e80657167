"""Runs `scale` at one size in its own process: `python -m benchmarks.scale.child <case.json>`."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.scale.job import GROUPS, KEYS, OPERATORS, STATES, SimulatedJob
from benchmarks.scale.model import ROW, ScaleCase, ScaleRow
from state_engine.log.paths import manifest_path
from state_engine.storage.state_reader import Segment, load_groups, read_base

KIB = 1024


def run(case: ScaleCase) -> ScaleRow:
    """Runs epochs without a checkpoint, a start in a new process, a first checkpoint, and an incremental one."""
    folder = Path(case.work)
    job = SimulatedJob(folder, case.subtasks)
    job.start()
    job.epoch()  # makes the tasks
    forget_peak()
    times = [job.epoch() for _ in range(case.epochs)]
    peak, sealed = peak_mib(), job.head.manifest
    size = len(job.storage.get(manifest_path(sealed.generation, sealed.epoch)))
    start_seconds, start_mib, claimed = started(case)
    job.start()
    job.checkpoint()
    for _ in range(case.between):
        job.epoch()
    before, began = job.storage.reads.total(), time.perf_counter()
    base = read_base(job.storage, job.checkpoint())
    seconds, reads = time.perf_counter() - began, job.storage.reads.total() - before
    found = [load_groups([Segment(job.storage, base, ())], schema, 0, GROUPS - 1) for schema in base.schemas]
    sizes = [(len(rows), len(set(rows["k"].to_pylist()))) for rows in found]
    right = sizes == [(case.subtasks * KEYS, case.subtasks * KEYS)] * STATES * len(OPERATORS)
    return ScaleRow(
        subtasks=case.subtasks,
        driver_ms=round(median(times) * 1e3, 2),
        slowest_ms=round(max(times) * 1e3, 2),
        collected_bytes=job.tasks.collected,
        manifest_bytes=size,
        peak_mib=peak,
        checkpoint_epochs=case.between + 1,
        checkpoint_seconds=round(seconds, 3),
        checkpoint_reads=reads,
        start_epochs=case.epochs + 1,
        start_seconds=start_seconds,
        start_mib=start_mib,
        results_equal=right and claimed == sealed.epoch + 1,
    )


def started(case: ScaleCase) -> tuple[float, int, int]:
    """Starts the job in a new process: seconds, peak of its memory in MiB, and the epoch of its claim."""
    command = [sys.executable, "-m", __spec__.name, "--start", case.work, str(case.subtasks)]
    seconds, mib, epoch = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(mib), int(epoch)


def start(folder: str, subtasks: int) -> None:
    """Starts the job that another process has run, and prints what `started` returns."""
    job = SimulatedJob(Path(folder), subtasks)
    forget_peak()
    began = time.perf_counter()
    head = job.start()
    print(round(time.perf_counter() - began, 3), peak_mib(), head.stored.manifest.epoch)


def forget_peak() -> None:
    """Makes `peak_mib` begin anew with the memory that the process has now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> int:
    """Returns the largest resident memory of this process, MiB."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // KIB


def main(path: str) -> None:
    """Runs a case and writes its row to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=ScaleCase)
    (Path(case.work) / ROW).write_bytes(msgspec.json.encode(run(case)))


if __name__ == "__main__":
    if sys.argv[1] == "--start":
        start(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1])
