"""Runs `long_life` in its own process: `python -m benchmarks.long_life_child <case.json>`."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.engines.spark import MEMORY
from benchmarks.latency.functions import Count
from benchmarks.long_life import PART, ROW, Kind, Left, LifeCase, LifeRow
from lakestate.policies.retention import StreamRetention
from state_engine.savepoint.retain import retain
from state_engine.spark import DeltaSink, StreamJob, local_session

JOB, KEYS = "life", 7
CHECKPOINT_MS = 10_000
"""Short, so that retention has something to remove."""


def main(path: str) -> None:
    """Runs the stream, counts its files, and writes the row of the report."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=LifeCase)
    work = Path(case.work)
    (work / "in").mkdir()
    for number in range(case.epochs):
        table = pa.table([pa.array([number % KEYS]), pa.array([number])], names=["k", "file"])
        pq.write_table(table, work / "in" / f"f{number:06d}.parquet")
    spark = local_session(
        "benchmark-life", "2", shuffle_partitions=2, memory=MEMORY, extra={"spark.local.dir": str(work / "local")}
    )
    schema = "k bigint, file bigint"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(work / "in"))
    root = str(work / "root")
    job = StreamJob(JOB, root=root, parallelism=2, max_parallelism=128, checkpoint_interval_ms=CHECKPOINT_MS)
    counts = job.from_stream(stream).key_by("k").process(Count(), "k bigint, n bigint, file bigint", uid="count")
    counts.sink_to(DeltaSink(str(work / "table")), uid="out")
    client = job.start(available_now=True)
    client.await_termination()
    times = [1000 * epoch.seconds for epoch in client.epochs if epoch.kind == "epoch"]
    spark.stop()
    before = _count(work)
    retain(root, JOB, replace(StreamRetention().policy, grace_ms=0))
    after = _count(work)
    rows = DeltaTable(str(work / "table")).to_pyarrow_table()
    row = LifeRow(
        epochs=len(times),
        first_ms=round(median(times[:PART]), 1),
        last_ms=round(median(times[-PART:]), 1),
        left=[Left(kind, *before[kind], *after[kind]) for kind in get_args(Kind)],
        results_equal=_is_right(rows, case.epochs),
    )
    (work / ROW).write_bytes(msgspec.json.encode(row))


def _count(work: Path) -> dict[Kind, tuple[int, int]]:
    files: Counter[Kind] = Counter()
    sizes: Counter[Kind] = Counter()
    for folder in (work / "root", work / "table"):
        for file in folder.rglob("*"):
            if file.is_file():
                kind = _kind(file.relative_to(work))
                files[kind] += 1
                sizes[kind] += file.stat().st_size
    return {kind: (files[kind], sizes[kind]) for kind in get_args(Kind)}


def _kind(path: Path) -> Kind:
    if path.parts[0] == "table":
        return "table's log" if path.parts[1] == "_delta_log" else "table"
    below = path.parts[2]
    if below == "_epochs":
        return "checkpoints" if "bases" in path.parts else "manifests"
    if below == "_spark":
        return "Spark's directory"
    return "other" if below in ("_control", "_savepoints") else "checkpoints"


def _is_right(rows: pa.Table, epochs: int) -> bool:
    counts = Counter(number % KEYS for number in range(epochs))
    expected = Counter((key, n) for key, count in counts.items() for n in range(1, count + 1))
    return Counter(zip(rows.column("k").to_pylist(), rows.column("n").to_pylist(), strict=True)) == expected


if __name__ == "__main__":
    main(sys.argv[1])
