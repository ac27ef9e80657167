"""The data types of `latency`: a case, the reported row, and its limits."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from benchmarks.model import Verdict

LATENCY = "latency"
Engine = Literal["lakestate/row", "lakestate/row/rocksdb", "spark/delta", "spark/transformWithState"]
ENGINES: tuple[Engine, ...] = ("lakestate/row", "lakestate/row/rocksdb", "spark/delta", "spark/transformWithState")
Pace = Literal["alone", "each 100 ms"]
RECORDS = 1_000
"""Records of a file."""


class LatencyCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process.

    Attributes:
        engine: What runs.
        keys: Number of keys, all of which have state before the first file.
        warm: Number of files before those that count.
        files: Number of files of each pace.
        trigger_interval_ms: Of Lakestate.
        work: Empty folder.
    """

    engine: Engine
    keys: int
    warm: int
    files: int
    trigger_interval_ms: int
    work: str


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `LATENCY`.
        engine: What ran.
        keys: Number of keys with state.
        trigger_interval_ms: Least time between the beginnings of two epochs; 0 for peers.
        pace: `alone`: a file comes when the one before is long done. `each 100 ms`: ten files a second.
        files: Number of files that count.
        p50_ms, p90_ms, p99_ms, max_ms: From the name of a file to the entry in the table's log that has its rows.
        commits_per_hour: Entries of the table's log.
        files_per_hour: Files that the job left below its folders: table, state root, Spark's directory.
        results_equal: Whether each row came once, with the right count.
    """

    workload: str = LATENCY
    engine: str
    keys: int
    trigger_interval_ms: int
    pace: Pace
    files: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    commits_per_hour: int
    files_per_hour: int
    results_equal: bool


class LatencyLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure of an engine is at most `at_most` times that of another one, of files that come alone."""

    of: Engine
    to: Engine
    figure: Literal["p50_ms", "p99_ms"]
    at_most: float


def judge_latency(limits: Sequence[LatencyLimit], rows: Sequence[LatencyRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run. Rows with a trigger interval do not count."""
    alone = {row.engine: row for row in rows if row.pace == "alone" and not row.trigger_interval_ms}
    for limit in limits if rows else ():
        name = f"{LATENCY}: {limit.figure} of {limit.of} at most {limit.at_most:g} times {limit.to}"
        missing = tuple(engine for engine in (limit.of, limit.to) if engine not in alone)
        if missing:
            yield Verdict(name, None, False, "not measured in this run", missing)
            continue
        mine, other = alone[limit.of], alone[limit.to]
        measured = getattr(mine, limit.figure) / getattr(other, limit.figure)
        if wrong := sorted({row.engine for row in (mine, other) if not row.results_equal}):
            yield Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
        else:
            yield Verdict(name, measured, measured <= limit.at_most)


__all__ = [
    "ENGINES",
    "LATENCY",
    "RECORDS",
    "Engine",
    "LatencyCase",
    "LatencyLimit",
    "LatencyRow",
    "Pace",
    "judge_latency",
]
