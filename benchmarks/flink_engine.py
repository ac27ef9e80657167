"""The peer: Apache Flink, in Java, in SQL and in PyFlink, on the same records; in an environment of its own.

`make flink` makes that environment. Flink runs in one process, as Spark does here: its local environment, with as many
task slots as there are subtasks. It does not tell its state, but what its rows came to (`data.checks_of_counts`): their
number, the sum of their counts, and that of the counts times the keys.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from benchmarks.data import CHECKS
from benchmarks.environment import FLINK, FLINK_PYTHON
from benchmarks.model import CONTENDERS, FLINK_CHECKPOINTS_MS, Case, Outcome

SOURCES = Path(__file__).with_name("flink")
HEAP = "-Xmx2g"
NOTED_EVERY = 1000
OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio", "java.text", "java.time")
]


def run(case: Case) -> Outcome:
    """Runs one case to its end.

    Raises:
        RuntimeError: There is no environment.
        subprocess.CalledProcessError: Flink failed; what it printed is in the log of the case.
    """
    if not FLINK.is_dir():
        raise RuntimeError("There is no Flink to compare with: run `make flink` first.")
    work, engine = Path(case.work), CONTENDERS[case.engine]
    seen = work / "seen"
    seen.mkdir()
    keys = ds.dataset(case.inputs, format="parquet").to_table().column("k")
    backend = "rocksdb" if engine.backend == "rocksdb" else "hashmap"
    arguments = [str(seen), str(case.parallelism), backend, str(FLINK_CHECKPOINTS_MS), str(work / "checkpoints")]
    form = engine.form.partition("/")[0]
    if form in ("java", "sql"):
        command = java_command(form, keys, work, arguments)
    else:
        command = pyflink_command(keys, work, arguments, case.parallelism)
    subprocess.run(
        command, check=True, cwd=work, env=os.environ | {"PATH": f"{FLINK_PYTHON.parent}:{os.environ['PATH']}"}
    )
    told = [json.loads(path.read_text()) for path in sorted(seen.iterdir())]
    final = pa.table({name: [wrapped(sum(one[name] for one in told))] for name in CHECKS})
    return Outcome(epoch_ends([time for one in told for time in one["times"]], case), final)


def java_command(form: str, keys: Any, work: Path, arguments: Sequence[str]) -> list[str]:
    """Returns what runs the job in Java, over a file that is mapped into memory; the job is compiled first."""
    file, classes = work / "keys.bin", work / "classes"
    np.asarray(keys).astype("<i8").tofile(file)
    path = f"{FLINK}/lib/*"
    sources = sorted(map(str, SOURCES.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(classes), *sources], check=True)
    job = ["RunningCount", form, str(file), str(len(keys)), *arguments]
    return ["java", HEAP, *OPENED, "-cp", f"{classes}:{path}", *job]


def pyflink_command(keys: Any, work: Path, arguments: Sequence[str], files: int) -> list[str]:
    """Returns what runs the job in PyFlink's thread mode, over CSV files, one for each subtask."""
    folder = work / "csv"
    folder.mkdir()
    borders = [len(keys) * part // files for part in range(files + 1)]
    for part, (start, end) in enumerate(pairwise(borders)):
        table = pa.table({"k": keys.slice(start, end - start)})
        csv.write_csv(table, folder / f"{part}.csv", csv.WriteOptions(include_header=False))
    return [str(FLINK_PYTHON), str(SOURCES / "pyflink_running_count.py"), str(folder), *arguments]


def epoch_ends(times: list[float], case: Case) -> list[float]:
    """Returns when so many records had been counted as an epoch has: what Flink streams has no epochs of its own.

    Args:
        times: Each is noted behind `NOTED_EVERY` records of a subtask; seconds since 1970.
        case: Tells how many records make an epoch.
    """
    times = sorted(times)
    last = len(times) - 1
    return [times[min(last, epoch * case.epoch_records // NOTED_EVERY - 1)] for epoch in range(1, case.epochs + 1)]


def wrapped(number: int) -> int:
    """Returns a sum as it is left in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63
