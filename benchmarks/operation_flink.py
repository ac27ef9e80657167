"""Measures Flink in Java: savepoints and checkpoints of the same state, and restores. Runs in a separate process.

`flink/Savepoints.java` does the work, once with compressed snapshots and once without, each in one JVM with one
cluster. Each savepoint and checkpoint is restored, and each restored job reports sums of its state. So everything that
is timed is also checked.
"""

import json
import shutil
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.data import same_rows
from benchmarks.engines.flink import compiled, java, run_flink
from benchmarks.operation_inputs import changes, load, replaced
from benchmarks.operation_model import Operation, OperationCase, operation
from benchmarks.workloads.workload import CHECKS, checks, checks_of, longs

FORMS = {"java": "false", "java compressed": "true"}
"""Form in the report, and whether snapshots are compressed: the setting `snapshot-compression`."""


class Told(NamedTuple):
    """One reported row: its part, operation, name in Java, folder with the job's sums, and suffix of its form."""

    part: str
    operation: str
    what: str
    seen: str
    ending: str = ""


READ, CHECKPOINT = " until read", " until checkpoint"
ROWS = (
    Told("canonical", "canonical savepoint", "canonical savepoint", "restore"),
    Told("canonical", "native savepoint", "native savepoint", "native"),
    Told("restore", "restore", "restore", "restore", READ),
    Told("restore", "restore", "restore to checkpoint", "restore", CHECKPOINT),
    Told("rescale", "rescale", "rescale", "rescale", READ),
    Told("rescale", "rescale", "rescale to checkpoint", "rescale", CHECKPOINT),
    Told("rescale", "rescale", "back", "back", READ),
    Told("rescale", "rescale", "back to checkpoint", "back", CHECKPOINT),
    Told("checkpoint", "checkpoint", "checkpoint", "checkpointed"),
)


def run(case: OperationCase) -> list[Operation]:
    """Runs Flink once for each form, and returns the rows of the chosen parts.

    Raises:
        subprocess.CalledProcessError: Flink failed; its output is in the log of the case.
    """
    work = Path(case.work)
    before, changed = pa.concat_tables(load(case)), changes(case)
    for name, table in (("values", before), ("changes", changed)):
        write_raw(work / name, table)
    right = sums_of(replaced(before, changed))
    classes, rows = compiled(work), []
    for form, compressed in FORMS.items():
        folder = work / form
        folder.mkdir()
        numbers = [case.keys, len(changed), case.value_bytes, case.parallelism, case.other_parallelism]
        backend = "hashmap" if case.backend == "heap" else case.backend
        arguments = [str(work / "values"), str(work / "changes"), *map(str, numbers), backend, compressed]
        run_flink(java(classes, "Savepoints", [*arguments, str(case.rounds + 1), str(folder)]), work)
        rows += rows_of(case, form, folder, right)
        shutil.rmtree(folder)  # gigabytes
    return rows


def rows_of(case: OperationCase, form: str, folder: Path, right: pa.Table) -> list[Operation]:
    """Returns the rows of a form; the first round does not count, but must be right."""
    times = [json.loads(line) for line in (folder / "times.jsonl").read_text().splitlines()]
    rows = []
    for told in ROWS:
        if told.part not in case.parts:
            continue
        runs = [one for one in times if one["what"] == told.what]
        parallelism = runs[0]["parallelism"]
        rows.append(
            operation(
                case,
                told.operation,
                f"flink/{form}{told.ending}",
                [one["seconds"] for one in runs[1:]],
                rows=case.keys,
                cpu_seconds=[one["cpu_seconds"] for one in runs[1:]],
                parallelism=parallelism,
                from_parallelism=case.other_than(parallelism) if told.operation == "rescale" else None,
                equal=len(runs) == case.rounds + 1
                and all(is_right(folder / "seen" / f"{told.seen}-{number}", right) for number in range(len(runs))),
            )
        )
    return rows


def is_right(seen: Path, right: pa.Table) -> bool:
    """Returns whether the sums that the subtasks of a restored job recorded are right."""
    noted = [json.loads(file.read_text()) for file in seen.iterdir()]
    return same_rows(checks(*(sum(one[name] for one in noted) for name in CHECKS)), right)


def sums_of(state: pa.Table) -> pa.Table:
    """Returns the sums of a state of `k` and `v`: of its keys, and of the check sums of their values."""
    values = (zlib.crc32(value.as_buffer()) for value in state["v"])
    return checks_of(longs(state, "k"), np.fromiter(values, np.int64, len(state)))


def write_raw(path: Path, table: pa.Table) -> None:
    """Writes the values, one after the other."""
    with path.open("wb") as file:
        for chunk in table["v"].chunks:
            for value in chunk:
                file.write(value.as_buffer())


__all__ = ["is_right", "rows_of", "run", "sums_of", "write_raw"]
