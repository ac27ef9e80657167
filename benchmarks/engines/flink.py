"""The peer: Apache Flink, in Java, in SQL and in PyFlink, on the same records; in an environment of its own.

`make flink` makes that environment. Flink runs in one process, as Spark does here: its local environment, with as many
task slots as there are subtasks. It does not tell its state, but what its rows came to (`CHECKS`).
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
"""As much as Spark has; more made windows in SQL no faster, and restores slower."""
SEEN = "seen"
NOTED_EVERY = 1000
NO_KEY = -(2**63)
"""The key of records that fill up a part of the file that Java reads; it leaves them out."""
OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio", "java.text", "java.time")
]


class Job(NamedTuple):
    """What both languages are told: the workload, with a suffix in SQL; a gap or a size; what follows the input.

    `heap_gb` is for Java: its heap, in GiB.
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
        # Nothing keeps a subtask from reading one file behind the other, and then all of the second would be late.
        parts = [pa.concat_tables(parts).sort_by("t")]
    if form == "python":
        return outcome(pyflink_command(job, parts, work, variant.partition("/")[0]), case)
    return outcome(java_command(job, parts, work), case)


def settings(case: Case) -> list[str]:
    """Returns what follows the input; a folder for what is seen is made.

    Raises:
        RuntimeError: There is no environment.
    """
    if not FLINK.is_dir():
        raise RuntimeError("There is no Flink to compare with: run `make flink` first.")
    work = Path(case.work)
    seen = work / SEEN
    seen.mkdir()
    backend = "rocksdb" if CONTENDERS[case.engine].backend == "rocksdb" else "hashmap"
    return [str(seen), str(case.parallelism), backend, str(FLINK_CHECKPOINTS_MS), str(work / "checkpoints")]


def outcome(command: Sequence[str], case: Case) -> Outcome:
    """Runs a job to its end, and returns what it noted.

    Raises:
        subprocess.CalledProcessError: Flink failed; what it printed is in the log of the case.
    """
    run_flink(command, Path(case.work))
    told = [json.loads(file.read_text()) for file in sorted((Path(case.work) / SEEN).iterdir())]
    emitted = checks(*(sum(one[name] for one in told) for name in CHECKS))
    return Outcome(epoch_ends([time for one in told for time in one["times"]], case), {EMITTED: emitted})


def parts_of(inputs: Path, files: int) -> list[pa.Table]:
    """Returns the records of the files of each number, epoch after epoch: all of a key are in one of these parts."""
    paths = [sorted(inputs.glob(f"epoch-*-{part}.parquet")) for part in range(files)]
    return [pa.concat_tables(pq.read_table(path) for path in each) for each in paths]


def java_command(job: Job, parts: Sequence[pa.Table], work: Path) -> list[str]:
    """Returns what runs a job in Java, over a file that is mapped into memory; the job is compiled first."""
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
    """Compiles all that Flink runs in Java into a folder, and returns the class path."""
    path, classes = f"{FLINK}/lib/*", work / "classes"
    sources = sorted(map(str, SOURCES.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(classes), *sources], check=True)
    return f"{classes}:{path}"


def java(class_path: str, name: str, arguments: Sequence[str], heap_gb: int = HEAP_GB) -> list[str]:
    """Returns what runs a class."""
    return ["java", f"-Xmx{heap_gb}g", *OPENED, "-cp", class_path, name, *arguments]


def run_flink(command: Sequence[str], work: Path) -> None:
    """Runs a command, with PyFlink's Python first in the path.

    Raises:
        subprocess.CalledProcessError: Flink failed; what it printed is in the log of the case.
    """
    path = f"{FLINK_PYTHON.parent}:{os.environ['PATH']}"
    subprocess.run(command, check=True, cwd=work, env=os.environ | {"PATH": path})


def pyflink_command(job: Job, parts: Sequence[pa.Table], work: Path, mode: str) -> list[str]:
    """Returns what runs a job in PyFlink, in its mode `thread` or `process`; a CSV file for each source subtask."""
    folder = work / "csv"
    folder.mkdir()
    for part, table in enumerate(parts):
        csv.write_csv(table, folder / f"{part}.csv", csv.WriteOptions(include_header=False))
    script = str(SOURCES / "pyflink_jobs.py")
    return [str(FLINK_PYTHON), script, job.workload, str(job.length_ms), str(folder), mode, *job.settings]


def epoch_ends(times: list[float], case: Case) -> list[float]:
    """Returns when so many records had been read as an epoch has: what Flink streams has no epochs of its own.

    Args:
        times: Each is noted behind `NOTED_EVERY` records of a subtask; seconds since 1970.
        case: Tells how many records make an epoch.
    """
    times = sorted(times)
    last, all_of = len(times) - 1, case.records
    return [times[min(last, epoch * all_of // case.epochs // NOTED_EVERY - 1)] for epoch in range(1, case.epochs + 1)]
