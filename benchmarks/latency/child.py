"""Runs one case of `latency` in its own process: `python -m benchmarks.latency.child <case.json>`."""

import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.engines.spark import MEMORY, PEER_SETTINGS
from benchmarks.latency.feed import Feed, keys_of, table_of
from benchmarks.latency.functions import Count, CountProcessor
from benchmarks.latency.model import RECORDS, LatencyCase, LatencyRow, Pace
from state_engine.api import EmbeddedRocksDBStateBackend, HashMapStateBackend
from state_engine.spark import DeltaSink, StreamJob, local_session

ROWS = "rows.json"
ALONE_MS = {"spark/delta": 1_200.0, "spark/transformWithState": 2_500.0}
"""Mean time between two files that come alone: twice what an engine needs for one; 400 ms for Lakestate."""
_EACH_MS = 100.0
_PATIENCE_S = 120.0


class Running(NamedTuple):
    """A stream that runs: Spark's query, and what stops it."""

    query: Any
    stop: Callable[[], None]


class Seen(NamedTuple):
    """The table's log: when each file's last rows came, when each entry was made, and all rows."""

    files: dict[int, int]
    entries: list[int]
    rows: pa.Table


def main(path: str) -> None:
    """Runs a case and writes the rows of the report to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=LatencyCase)
    work = Path(case.work)
    (work / "in").mkdir()
    pq.write_table(table_of(np.arange(case.keys, dtype=np.int64), -1), work / "in" / "first.parquet")
    extra = {"spark.local.dir": str(work / "local"), "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    if case.engine == "spark/transformWithState":
        extra |= PEER_SETTINGS
    spark = local_session("benchmark-latency", "2", shuffle_partitions=2, memory=MEMORY, extra=extra)
    running = _start(case, spark)
    _await_records(running, case.keys)
    paces: Sequence[tuple[Pace, float, float]] = (
        ("alone", ALONE_MS.get(case.engine, 400.0), 0.25),
        ("each 100 ms", _EACH_MS, 0.0),
    )
    phases, number, records = [], 0, case.keys
    for pace, pace_ms, jitter in paces:
        before, begun_ns = _count_files(work), time.time_ns()
        files = case.warm + case.files
        _feed(case, number, files, pace_ms, jitter)
        records += files * RECORDS
        _await_records(running, records)
        counted = range(number + case.warm, number + files)
        phases.append((pace, counted, begun_ns, time.time_ns(), _count_files(work) - before - files))
        number += files
    running.stop()
    spark.stop()
    seen = _look(work / "table")
    fed = {int(number): int(ns) for number, ns in (line.split() for line in (work / "feed.log").open())}
    right = _is_right(case, seen.rows, number)
    rows = [_row(case, *phase, seen=seen, fed=fed, right=right) for phase in phases]
    (work / ROWS).write_bytes(msgspec.json.encode(rows))


def _start(case: LatencyCase, spark: SparkSession) -> Running:
    work = Path(case.work)
    stream = spark.readStream.schema("k bigint, file bigint").parquet(str(work / "in"))
    table = str(work / "table")
    if case.engine.startswith("lakestate"):
        backend = EmbeddedRocksDBStateBackend() if case.engine.endswith("rocksdb") else HashMapStateBackend()
        if isinstance(backend, EmbeddedRocksDBStateBackend):
            backend.set_db_storage_paths(str(work / "rocksdb"))
        job = StreamJob("latency", root=str(work / "root"), parallelism=2, max_parallelism=128, state_backend=backend)
        counts = job.from_stream(stream).key_by("k").process(Count(), "k bigint, n bigint, file bigint", uid="count")
        counts.sink_to(DeltaSink(table), uid="out")
        client = job.start(trigger_interval_ms=case.trigger_interval_ms)
        return Running(client.query, client.stop)
    if case.engine == "spark/transformWithState":
        stream = stream.groupBy("k").transformWithState(
            statefulProcessor=CountProcessor(),
            outputStructType="k bigint, n bigint, file bigint",
            outputMode="Append",  # Delta takes no updates
            timeMode="None",
        )
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(work / "checkpoint"))
    query = writer.outputMode("append").start(table)
    return Running(query, query.stop)


def _feed(case: LatencyCase, first: int, files: int, pace_ms: float, jitter: float) -> None:
    work = Path(case.work)
    feed = Feed(
        folder=str(work / "in"), log=str(work / "feed.log"), first=first, files=files, keys=case.keys,
        pace_ms=pace_ms, jitter=jitter,
    )  # fmt: skip
    (work / "feed.json").write_bytes(msgspec.json.encode(feed))
    subprocess.run([sys.executable, "-m", "benchmarks.latency.feed", str(work / "feed.json")], check=True)


def _await_records(running: Running, records: int) -> None:
    """Waits until the query has read this number of records, and written them."""
    deadline = time.monotonic() + _PATIENCE_S
    while _read(running) < records:
        if (failure := running.query.exception()) is not None:
            raise failure
        if time.monotonic() > deadline:
            raise TimeoutError(f"{records} records were not read, only {_read(running)}")
        time.sleep(0.2)


def _read(running: Running) -> int:
    seen: dict[int, int] = {}
    for progress in running.query.recentProgress:
        seen[progress["batchId"]] = max(seen.get(progress["batchId"], 0), progress["numInputRows"])
    return sum(seen.values())


def _count_files(work: Path) -> int:
    return sum(
        1 for file in work.rglob("*") if file.is_file() and "local" not in file.parts and ".draft" not in str(file)
    )


def _look(table: Path) -> Seen:
    files: dict[int, int] = {}
    entries, rows = [], []
    for entry in sorted((table / "_delta_log").glob("*.json")):
        made_ns = entry.stat().st_ctime_ns  # a link or a rename, which gives the entry its name, changes it
        entries.append(made_ns)
        for line in entry.read_text().splitlines():
            if (add := json.loads(line).get("add")) is not None:
                rows.append(pq.read_table(table / add["path"]))
                files |= {int(number): made_ns for number in pc.unique(rows[-1].column("file")).to_numpy()}
    return Seen(files, entries, pa.concat_tables(rows, promote_options="permissive"))


def _is_right(case: LatencyCase, rows: pa.Table, files: int) -> bool:
    """Returns whether each record of each file is there once, and, with state, with its number among its key's."""
    expected = Counter({(key, -1): 1 for key in range(case.keys)})
    for number in range(files):
        expected.update((int(key), number) for key in keys_of(number, case.keys))
    keys, numbers = rows.column("k").to_pylist(), rows.column("file").to_pylist()
    if Counter(zip(keys, numbers, strict=True)) != expected:
        return False
    if case.engine == "spark/delta":
        return True
    counts = Counter(keys)
    wanted = {(key, n) for key, count in counts.items() for n in range(1, count + 1)}
    return set(zip(keys, rows.column("n").to_pylist(), strict=True)) == wanted


def _row(
    case: LatencyCase,
    pace: Pace,
    counted: range,
    begun_ns: int,
    ended_ns: int,
    made: int,
    *,
    seen: Seen,
    fed: dict[int, int],
    right: bool,
) -> LatencyRow:
    took = sorted((seen.files.get(number, ended_ns) - fed[number]) / 1e6 for number in counted)
    hours = (ended_ns - begun_ns) / 3.6e12
    entries = sum(1 for made_ns in seen.entries if begun_ns <= made_ns <= ended_ns)

    def at(share: float) -> float:
        return round(took[math.ceil(share * len(took)) - 1], 1)

    return LatencyRow(
        engine=case.engine,
        keys=case.keys,
        trigger_interval_ms=case.trigger_interval_ms,
        pace=pace,
        files=len(counted),
        p50_ms=at(0.5),
        p90_ms=at(0.9),
        p99_ms=at(0.99),
        max_ms=at(1.0),
        commits_per_hour=round(entries / hours),
        files_per_hour=round(made / hours),
        results_equal=right,
    )


if __name__ == "__main__":
    main(sys.argv[1])
