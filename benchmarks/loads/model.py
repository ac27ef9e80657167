"""Rows, verdicts and turns of the workloads that write an epoch into another system."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import Verdict
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile

POSTGRESQL, KAFKA = "postgresql", "kafka"
BARE, APPENDS, CASTS, UPSERTS = "bare", "sink/append", "sink/append with casts", "sink/upsert"
LEAST_ROWS_PER_SECOND, LEAST_RATIO = 150_000, 0.7
"""What `--check` asks of `sink/append`: by itself, and as a multiple of `bare`."""


class LoadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `POSTGRESQL` or `KAFKA`.
        label: What wrote.
        records: Rows of one epoch.
        runs: How many epochs were measured.
        seconds: Median of one epoch, with its commit.
        records_per_second: Of that.
        cpu_us: CPU time of the client for each row, in microseconds; the server's is not in it.
        results_equal: Whether the system has each row once, counted without the sink.
    """

    workload: str
    label: str
    records: int
    runs: int
    seconds: float
    records_per_second: float
    cpu_us: float
    results_equal: bool


class LoadReport(NamedTuple):
    """Rows, and failures."""

    results: list[LoadRow]
    failures: list[str]


class Way(NamedTuple):
    """One way to write.

    Attributes:
        prepare: Makes the system empty, and connects.
        write: Writes an epoch, and commits.
        holds: Returns whether the system has each row of the epoch once.
    """

    prepare: Callable[[], None]
    write: Callable[[], None]
    holds: Callable[[], bool]


def in_turn(
    workload: str, ways: Mapping[str, Way], rows: int, rounds: int, tell: Callable[[str], None]
) -> list[LoadRow]:
    """Lets each way write an epoch, round by round, and returns a row for each."""
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    cpu: dict[str, list[float]] = {label: [] for label in ways}
    equal = dict.fromkeys(ways, True)
    for number in range(rounds):
        for label, way in ways.items():
            tell(f"{workload}, {label}, {number + 1} of {rounds}: {rows:,} rows")
            way.prepare()
            began, began_cpu = time.perf_counter(), time.process_time()
            way.write()
            seconds[label].append(time.perf_counter() - began)
            cpu[label].append(time.process_time() - began_cpu)
            equal[label] = way.holds() and equal[label]
    return [
        LoadRow(
            workload=workload,
            label=label,
            records=rows,
            runs=rounds,
            seconds=round(median(times), 3),
            records_per_second=round(rows / median(times)),
            cpu_us=round(median(cpu[label]) / rows * 1e6, 2),
            results_equal=equal[label],
        )
        for label, times in seconds.items()
    ]


def staged(folder: Path, table: pa.Table) -> list[OutputFile]:
    """Writes rows as two subtasks stage them."""
    folder.mkdir(parents=True, exist_ok=True)
    files, half = [], table.num_rows // 2
    for number, part in enumerate((table[:half], table[half:])):
        sink = pa.BufferOutputStream()
        pq.write_table(part, sink, compression="zstd", store_schema=False, write_page_checksum=True)
        data, path = sink.getvalue(), f"staged-{number}.parquet"
        (folder / path).write_bytes(data)
        length, checksum = data.size, checksum_of(data)
        rows = part.num_rows
        files.append(OutputFile(output="out", path=path, in_table=False, length=length, checksum=checksum, rows=rows))
    return files


def judge_loads(rows: Sequence[LoadRow]) -> list[Verdict]:
    """Returns the verdicts on appends of the workloads that were run."""
    workloads = dict.fromkeys(row.workload for row in rows)
    return [verdict for one in workloads for verdict in _judged(one, [row for row in rows if row.workload == one])]


def _judged(workload: str, rows: Sequence[LoadRow]) -> list[Verdict]:
    by_label = {row.label: row for row in rows}
    mine, bare = by_label.get(APPENDS), by_label.get(BARE)
    names = (
        f"{workload}: {APPENDS} at least {LEAST_ROWS_PER_SECOND:,} rows/s",
        f"{workload}: {APPENDS} at least {LEAST_RATIO:g} times {BARE}",
    )
    if mine is None or bare is None:
        return [Verdict(name, None, False, "not measured in this run", (APPENDS, BARE)) for name in names]
    if not (mine.results_equal and bare.results_equal):
        return [Verdict(name, None, False, "wrong results") for name in names]
    speed, ratio = mine.records_per_second, mine.records_per_second / bare.records_per_second
    return [
        Verdict(names[0], speed, speed >= LEAST_ROWS_PER_SECOND),
        Verdict(names[1], round(ratio, 3), ratio >= LEAST_RATIO),
    ]


def show(rows: Sequence[LoadRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    for name in ("what writes", "rows", "runs", "s", "rows/s", "× bare", "client's CPU µs/row", "results"):
        shown.add_column(name, justify="right", no_wrap=True)
    bare = {row.workload: row.records_per_second for row in rows if row.label == BARE}
    for row in rows:
        ratio = f"{row.records_per_second / bare[row.workload]:.2f}" if row.workload in bare else ""
        shown.add_row(
            f"{row.workload} {row.label}",
            f"{row.records:,}",
            str(row.runs),
            f"{row.seconds:.2f}",
            f"{row.records_per_second:,.0f}",
            ratio,
            f"{row.cpu_us:.2f}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = [
    "APPENDS",
    "BARE",
    "CASTS",
    "KAFKA",
    "POSTGRESQL",
    "UPSERTS",
    "LoadReport",
    "LoadRow",
    "Way",
    "in_turn",
    "judge_loads",
    "show",
    "staged",
]
