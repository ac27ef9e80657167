"""Workload `postgresql`: an epoch of a million rows into a table of PostgreSQL, next to the driver's bare bulk load.

Both write the same rows in one transaction, over one connection, in turn. `bare` has the rows in memory. The sink reads
staged files, compares their checksums, and replaces its marker. No JVM, no Spark.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import Verdict
from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile
from state_engine.spark import PostgresSink
from state_engine.storage.local import LocalStorage
from state_engine.storage.staged import StagedRows
from state_engine.testing.postgres_server import PASSWORD, postgres_programs, postgres_server

POSTGRESQL = "postgresql"
ROWS = 1_000_000
BARE, APPENDS, CASTS, UPSERTS = "adbc/bare", "sink/append", "sink/append with casts", "sink/upsert"
LEAST_ROWS_PER_SECOND, LEAST_RATIO = 150_000, 0.7
_LOG = 7
_CHECK = "SELECT count(*), sum(id), sum(n), count(note), max(at)::text FROM {}"
_COLUMNS = "(id {}, k text, n {}, price double precision, at timestamptz, note text)"


class LoadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `POSTGRESQL`.
        label: What wrote.
        records: Rows of one epoch.
        runs: How many epochs were measured.
        seconds: Median of one epoch, with its commit.
        records_per_second: Of that.
        cpu_us: CPU time of the client for each row, in microseconds; the server's is not in it.
        results_equal: Whether the table has each row once, counted by SQL.
    """

    workload: str = POSTGRESQL
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


def measure(folder: Path, tell: Callable[[str], None], rows: int = ROWS, rounds: int = 3) -> LoadReport:
    """Returns a row for each way to write.

    Args:
        folder: Folder for staged files.
        tell: Called with lines of progress.
        rows: Rows of an epoch.
        rounds: How many epochs each way writes; they take turns.
    """
    programs = postgres_programs()
    if programs is None:
        return LoadReport([], ["no PostgreSQL; Debian: apt-get install postgresql"])
    table = _rows(rows)
    files = _staged(folder, table)
    seconds: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    equal: dict[str, bool] = {}
    with postgres_server(programs) as server, _password():
        staged = StagedRows(LocalStorage(str(folder)), files)
        for number in range(rounds):
            for label, write in _ways(server.uri, table, staged).items():
                tell(f"{label}, {number + 1} of {rounds}: {rows:,} rows")
                _run(server.uri, *_table_of(label))
                began, began_cpu = time.perf_counter(), time.process_time()
                write()
                seconds.setdefault(label, []).append(time.perf_counter() - began)
                cpu.setdefault(label, []).append(time.process_time() - began_cpu)
                found = _run(server.uri, _CHECK.format("written"))[0]
                wanted = (rows, rows * (rows - 1) // 2, rows * (rows - 1) // 2, rows - (rows + 2) // 3)
                equal[label] = equal.get(label, True) and tuple(map(int, found[:4])) == wanted
    results = [
        LoadRow(
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
    return LoadReport(results, [])


def _ways(uri: str, table: pa.Table, staged: StagedRows) -> dict[str, Callable[[], None]]:
    def bare() -> None:
        with closing(dbapi.connect(uri)) as connection, closing(connection.cursor()) as cursor:
            cursor.adbc_ingest("written", table.to_reader(65_536), mode="append")
            connection.commit()

    def sink(**options: Any) -> Callable[[], None]:
        connection = PostgresSink("written", uri, **options).connect(SinkName("job", "out"), table.schema)

        def write() -> None:
            with closing(connection):
                before = connection.marker()
                after = SinkMarker(_LOG, 1, before.epoch + 1 if before is not None else 0)
                assert connection.commit(staged, before, after)

        connection.prepare()
        return write

    return {BARE: bare, APPENDS: sink(), CASTS: sink(), UPSERTS: sink(mode="upsert", keys=["id"])}


def _table_of(label: str) -> list[str]:
    """Returns the statements that make the empty table."""
    types = ("numeric", "numeric") if label == CASTS else ("bigint", "bigint")
    key = ["ALTER TABLE written ADD PRIMARY KEY (id)"] if label == UPSERTS else []
    return ["DROP TABLE IF EXISTS written", f"CREATE TABLE written {_COLUMNS.format(*types)}", *key]


def _rows(count: int) -> pa.Table:
    """Returns rows of about 100 bytes."""
    numbers = np.arange(count)
    return pa.table(
        {
            "id": pa.array(numbers),
            "k": [f"customer-{n % 5_000:08}" for n in range(count)],
            "n": pa.array(numbers[::-1]),
            "price": pa.array(numbers / 7),
            "at": pa.array(1_700_000_000_000_000 + numbers, pa.timestamp("us", tz="UTC")),
            "note": [None if n % 3 == 0 else f"paid with card {n % 97:02}, not yet sent" for n in range(count)],
        }
    )


def _staged(folder: Path, table: pa.Table) -> list[OutputFile]:
    """Writes the rows as two subtasks stage them."""
    folder.mkdir(parents=True, exist_ok=True)
    files, half = [], table.num_rows // 2
    for number, part in enumerate((table[:half], table[half:])):
        sink = pa.BufferOutputStream()
        pq.write_table(part, sink, compression="zstd", store_schema=False, write_page_checksum=True)
        data, path = sink.getvalue(), f"staged-{number}.parquet"
        (folder / path).write_bytes(data)
        checksum = checksum_of(data)
        files.append(
            OutputFile(output="out", path=path, in_table=False, length=data.size, checksum=checksum, rows=half)
        )
    return files


def _run(uri: str, *statements: str) -> list[Any]:
    with closing(dbapi.connect(uri)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        found = cursor.fetchall() if cursor.description else []
        connection.commit()
        return found


@contextmanager
def _password() -> Iterator[None]:
    before = os.environ.get("PGPASSWORD")
    os.environ["PGPASSWORD"] = PASSWORD
    try:
        yield
    finally:
        os.environ.pop("PGPASSWORD")
        if before is not None:
            os.environ["PGPASSWORD"] = before


def judge_loads(rows: Sequence[LoadRow]) -> list[Verdict]:
    """Returns the verdicts on appends; none when nothing was run."""
    if not rows:
        return []
    by_label = {row.label: row for row in rows}
    mine, bare = by_label.get(APPENDS), by_label.get(BARE)
    names = (
        f"{POSTGRESQL}: {APPENDS} at least {LEAST_ROWS_PER_SECOND:,} rows/s",
        f"{POSTGRESQL}: {APPENDS} at least {LEAST_RATIO:g} times {BARE}",
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
    bare = next((row.records_per_second for row in rows if row.label == BARE), None)
    for row in rows:
        ratio = f"{row.records_per_second / bare:.2f}" if bare else ""
        shown.add_row(
            row.label,
            f"{row.records:,}",
            str(row.runs),
            f"{row.seconds:.2f}",
            f"{row.records_per_second:,.0f}",
            ratio,
            f"{row.cpu_us:.2f}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = ["POSTGRESQL", "ROWS", "LoadReport", "LoadRow", "judge_loads", "measure", "show"]
