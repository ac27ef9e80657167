"""Runs the peer Apache Flink, in Java, in SQL and in PyFlink, on the same records; in a separate environment.

`make flink` creates that environment. Flink runs in one process, as Spark does here: its local environment, with one
task slot per subtask. It does not report its state, but sums of its rows (`CHECKS`).
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from benchmarks.engines.flink_environment import FLINK, FLINK_PYTHON
from benchmarks.model import CONTENDERS, EMITTED, FLINK_CHECKPOINTS_MS, WINDOWS, Case, Outcome
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import CHECKS, checks, longs

SOURCES = Path(__file__).parents[1] / "flink"
HEAP_GB = 2
"""The same heap as Spark's; more made windows in SQL no faster, and restores slower."""
SEEN = "seen"
NOTED_EVERY = 1000
NO_KEY = -(2**63)
"""The key of padding records in the file that Java reads; Java skips them."""
OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio", "java.text", "java.time")
]


class Job(NamedTuple):
    """Arguments in both languages: the workload, with a suffix for SQL; a gap or a size; the arguments after the input.

    `heap_gb` is Java's heap, in GiB.
    """

    workload: str
    length_ms: int
    settings: Sequence[str]
    heap_gb: int = HEAP_GB


def run(case: Case) -> Outcome:
    """Runs one case to its end; raises as `outcome` does."""
    work, engine = Path(case.work), CONTENDERS[case.engine]
    form, _, variant = engine.form.partition("/")
    length_ms = WORKLOADS[case.workload].length_ms(case.keys)
    job = Job(case.workload + ("/sql" if form == "sql" else ""), length_ms, settings(case))
    parts = parts_of(Path(case.inputs), case.files_per_epoch)
    if form == "python" and case.workload == WINDOWS:
        # A subtask may read one file after the other, and then all records of the second would be late.
        parts = [pa.concat_tables(parts).sort_by("t")]
    if form == "python":
        return outcome(pyflink_command(job, parts, work, variant.partition("/")[0]), case)
    return outcome(java_command(job, parts, work), case)


def settings(case: Case) -> list[str]:
    """Returns the arguments after the input; creates a folder for the job's notes.

    Raises:
        RuntimeError: Flink is not installed.
    """
    if not FLINK.is_dir():
        raise RuntimeError("Flink is not installed: run `make flink` first.")
    work = Path(case.work)
    seen = work / SEEN
    seen.mkdir()
    backend = "rocksdb" if CONTENDERS[case.engine].backend == "rocksdb" else "hashmap"
    return [str(seen), str(case.parallelism), backend, str(FLINK_CHECKPOINTS_MS), str(work / "checkpoints")]


def outcome(command: Sequence[str], case: Case) -> Outcome:
    """Runs a job to its end, and returns the outcome from its notes.

    Raises:
        subprocess.CalledProcessError: Flink failed; its output is in the log of the case.
    """
    run_flink(command, Path(case.work))
    notes = [json.loads(file.read_text()) for file in sorted((Path(case.work) / SEEN).iterdir())]
    emitted = checks(*(sum(one[name] for one in notes) for name in CHECKS))
    return Outcome(epoch_ends([time for one in notes for time in one["times"]], case), {EMITTED: emitted})


def parts_of(inputs: Path, files: int) -> list[pa.Table]:
    """Returns the records of the files of each part number, epoch after epoch; all records of a key are in one part."""
    paths = [sorted(inputs.glob(f"epoch-*-{part}.parquet")) for part in range(files)]
    return [pa.concat_tables(pq.read_table(path) for path in each) for each in paths]


def java_command(job: Job, parts: Sequence[pa.Table], work: Path) -> list[str]:
    """Compiles a job in Java, writes its memory-mapped input file, and returns the command that runs it."""
    file = work / "records.bin"
    longest, names = max(len(part) for part in parts), parts[0].column_names
    records = np.full((len(parts), longest, len(names)), NO_KEY, "<i8")  # each source subtask reads one of these parts
    for part, table in enumerate(parts):
        for column, name in enumerate(names):
            records[part, : len(table), column] = longs(table, name)
    records.tofile(file)
    numbers = [str(len(parts) * longest), str(len(names))]
    arguments = [job.workload, str(job.length_ms), str(file), *numbers, *job.settings]
    return java(compiled(work), "Jobs", arguments, job.heap_gb)


def compiled(work: Path) -> str:
    """Compiles all Java sources for Flink into a folder, and returns the class path."""
    path, classes = f"{FLINK}/lib/*", work / "classes"
    sources = sorted(map(str, SOURCES.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(classes), *sources], check=True)
    return f"{classes}:{path}"


def java(class_path: str, name: str, arguments: Sequence[str], heap_gb: int = HEAP_GB) -> list[str]:
    """Returns the command that runs a class."""
    return ["java", f"-Xmx{heap_gb}g", *OPENED, "-cp", class_path, name, *arguments]


def run_flink(command: Sequence[str], work: Path) -> None:
    """Runs a command, with PyFlink's Python first in the path.

    Raises:
        subprocess.CalledProcessError: Flink failed; its output is in the log of the case.
    """
    path = f"{FLINK_PYTHON.parent}:{os.environ['PATH']}"
    subprocess.run(command, check=True, cwd=work, env=os.environ | {"PATH": path})


def pyflink_command(job: Job, parts: Sequence[pa.Table], work: Path, mode: str) -> list[str]:
    """Writes a CSV file for each source subtask, and returns the command that runs a job in PyFlink.

    `mode` is PyFlink's mode, `thread` or `process`.
    """
    folder = work / "csv"
    folder.mkdir()
    for part, table in enumerate(parts):
        csv.write_csv(table, folder / f"{part}.csv", csv.WriteOptions(include_header=False))
    script = str(SOURCES / "pyflink_jobs.py")
    return [str(FLINK_PYTHON), script, job.workload, str(job.length_ms), str(folder), mode, *job.settings]


def epoch_ends(times: list[float], case: Case) -> list[float]:
    """Returns when the records of each epoch had been read; Flink itself has no epochs.

    Args:
        times: A subtask notes one after every `NOTED_EVERY` records; seconds since 1970.
        case: Has the number of records of an epoch.
    """
    times = sorted(times)
    last, all_rows = len(times) - 1, case.records
    return [times[min(last, epoch * all_rows // case.epochs // NOTED_EVERY - 1)] for epoch in range(1, case.epochs + 1)]
