"""Runs one case of `latency` in its own process: `python -m benchmarks.latency.child <case.json>`."""

import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.latency.feed import Feed, table_of, times_of
from benchmarks.latency.model import RECORDS, LatencyCase, LatencyRow, Pace
from benchmarks.latency.streams import Running, session_for, start
from benchmarks.latency.table import TableWatch, is_right

ROWS = "rows.json"
ALONE_MS = {"spark/delta": 1_200.0, "spark/transformWithState": 2_500.0}
"""Mean time between two files that come alone: twice what an engine needs for one; 400 ms for Lakestate."""
_EACH_MS = 100.0
_PATIENCE_S = 120.0


def main(path: str) -> None:
    """Runs a case and writes the rows of the report to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=LatencyCase)
    work = Path(case.work)
    (work / "in").mkdir()
    pq.write_table(table_of(np.arange(case.keys, dtype=np.int64), -1), work / "in" / "first.parquet")
    spark = session_for(case.engine, work)
    running = start(case.engine, work, spark, case.trigger_interval_ms)
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
    seen = TableWatch(work / "table")
    seen.look()
    fed = times_of(work / "feed.log")
    written = pa.concat_tables(seen.rows, promote_options="permissive")
    right = is_right(written, case.keys, number, counted=case.engine != "spark/delta")
    rows = [_row(case, *phase, seen=seen, fed=fed, right=right) for phase in phases]
    (work / ROWS).write_bytes(msgspec.json.encode(rows))


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


def _row(
    case: LatencyCase,
    pace: Pace,
    counted: range,
    begun_ns: int,
    ended_ns: int,
    made: int,
    *,
    seen: TableWatch,
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
