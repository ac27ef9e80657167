"""Runs each case in a separate process, samples its CPU and memory, and computes the rows of the report."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pyarrow.parquet as pq

from benchmarks.child import ENDS, FINAL, TASKS
from benchmarks.data import same_tables
from benchmarks.model import CONTENDERS, Case, Result, Tables
from benchmarks.noise import look_ns
from benchmarks.processes import Sample, SessionSampler, cpu_between, end_session, peak_rss_mb
from benchmarks.steady import steady_part

REPOSITORY = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 3600.0


class EngineFailedError(Exception):
    """An engine's process ended with an error or took too long; the message ends with its last lines."""


class Run(NamedTuple):
    """The measurements of one case: ends of epochs, samples, final results, other work of tasks, memory speed."""

    case: Case
    ends: list[float]
    samples: Sequence[Sample]
    final: Tables
    task_ms: Mapping[str, Sequence[float]] = MappingProxyType({})
    look_ns: float | None = None


def run_case(case: Case, timeout: float = TIMEOUT_SECONDS) -> Run:
    """Runs a case in a new process, with its own JVM and Python workers.

    Raises:
        EngineFailedError: The process ended with an error, or did not end in time.
    """
    work = Path(case.work)
    before = look_ns()
    samples = run_child("benchmarks.child", msgspec.json.encode(case), work, case.engine, timeout)
    slowest = max(before, look_ns())
    ends = msgspec.json.decode((work / ENDS).read_bytes(), type=list[float])
    task_ms = msgspec.json.decode((work / TASKS).read_bytes(), type=dict[str, list[float]])
    final = {path.stem: pq.read_table(path) for path in sorted((work / FINAL).iterdir())}
    shutil.rmtree(work)  # these grow to gigabytes; a failed case keeps its folder for inspection
    return Run(case, ends, samples, final, task_ms, slowest)


def run_child(module: str, case: bytes, work: Path, name: str, timeout: float = TIMEOUT_SECONDS) -> list[Sample]:
    """Runs a module in a new process that leads its own session, and samples this session.

    Args:
        module: The module; it gets the path of a file with the case.
        case: The case as JSON.
        work: Folder for the case and the output of the process; it is created.
        name: Name for the error message.
        timeout: The longest time that it may take, in seconds.

    Raises:
        EngineFailedError: The process ended with an error, or did not end in time.
    """
    work.mkdir(parents=True)
    (work / "case.json").write_bytes(case)
    command = [sys.executable, "-m", module, str(work / "case.json")]
    with (work / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=work, env=child_environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            with SessionSampler(process.pid) as sampler:
                status: int | str = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = f"none after {timeout:g} s"
        finally:
            process.kill()
            process.wait()
            end_session(process.pid)  # the JVM still cleans up, which must not disturb the next engine
    if status != 0:
        raise ended_with(name, status, work / "log.txt")
    return sampler.samples


def ended_with(name: str, status: int | str, log: Path) -> EngineFailedError:
    """Returns the error of an engine that has ended, with the last lines of its log."""
    last = log.read_text(errors="replace").splitlines()[-25:]
    return EngineFailedError(f"{name} ended with status {status}:\n" + "\n".join(last))


def child_environment() -> dict[str, str]:
    """Returns the environment of a process that runs an engine."""
    search_path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": search_path,  # Python workers import the engines too
        "PYSPARK_PYTHON": sys.executable,  # transformWithState starts one that ignores spark.pyspark.python
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
    }


def result_of(run: Run, truth: Tables, peak: Callable[[Sequence[Sample], float], float] = peak_rss_mb) -> Result:
    """Returns the row of the report for one run.

    Args:
        run: The measurements.
        truth: The expected results.
        peak: Computes the peak memory up to the end of the last epoch, in MiB.
    """
    case, steady = run.case, steady_part(run.ends)
    engine, records = CONTENDERS[case.engine], case.records * steady.epochs // case.epochs
    return Result(
        workload=case.workload,
        engine=engine.engine,
        form=engine.form,
        backend=engine.backend,
        key_type=case.key_type,
        keys=case.keys,
        records=case.records,
        epoch_records=case.epoch_records,
        parallelism=case.parallelism,
        records_per_second=round(records / (steady.end - steady.start), 1),
        cpu_seconds_per_million=round(cpu_between(run.samples, steady.start, steady.end) / records * 1e6, 3),
        peak_rss_mb=round(peak(run.samples, steady.end), 1),
        results_equal=same_tables(run.final, truth),
        memory_mb=case.memory_mb,
        checkpoints=engine.checkpoints,
        freeze_ms=_steady_median(run.task_ms.get("freeze_ms"), steady.epochs),
        changes_ms=_steady_median(run.task_ms.get("changes_ms"), steady.epochs),
        look_ns=run.look_ns,
    )


def _steady_median(times: Sequence[float] | None, epochs: int) -> float | None:
    return round(median(times[-epochs:]), 3) if times else None


def middle(results: Sequence[Result]) -> Result:
    """Returns one row for several rounds of one case: medians of speed and CPU, the worst of all else."""
    return msgspec.structs.replace(
        results[0],
        records_per_second=median(r.records_per_second for r in results),
        cpu_seconds_per_million=median(r.cpu_seconds_per_million for r in results),
        peak_rss_mb=max(r.peak_rss_mb for r in results),
        freeze_ms=max((r.freeze_ms for r in results if r.freeze_ms is not None), default=None),
        changes_ms=max((r.changes_ms for r in results if r.changes_ms is not None), default=None),
        look_ns=max((r.look_ns for r in results if r.look_ns is not None), default=None),
        results_equal=all(r.results_equal for r in results),
    )
