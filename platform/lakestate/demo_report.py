"""Compares the outputs and states of the demonstration with the truth, and prints the result."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

from lakestate.demo_history import History
from lakestate.examples.compare import Difference, Truth, collect_lists, compare
from state_engine.errors import NotFoundError
from state_engine.extras import from_extra
from state_engine.inspect import read_state, state_sql
from state_engine.storage.delta import live_files

with from_extra("demo"):
    import duckdb

_FIRST_ROWS = 5
_NOT_SHOWN = ("namespace", "seq", "last_access")


class Check(msgspec.Struct, frozen=True):
    """One table compared with the truth."""

    name: str
    is_state: bool
    rows: int
    difference: Difference


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes. Rows of a list state are its elements."""

    records_in: int
    rows_out: int
    state_rows: int
    lost: int
    doubled: int
    differing: int
    kills: int
    restores: int
    parallelism: list[int]
    epochs: int
    spark_jobs: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every table equals the truth."""
        return not (self.lost or self.doubled or self.differing)


def read_output(table: Path, schema: pa.Schema) -> pa.Table:
    """Returns the newest version of a sink's Delta table; an empty table if no file, or no table, exists."""
    try:
        files = live_files(str(table))
    except NotFoundError:
        files = []
    return pa.concat_tables([pyarrow.parquet.read_table(table / file) for file in files] or [schema.empty_table()])


def check_tables(truth: Truth, root: Path, tables: Path, job: str) -> list[Check]:
    """Compares all outputs and all states."""
    checks = []
    for name, expected in truth.outputs.items():
        actual = read_output(tables / name, expected.schema)
        checks.append(Check(name, False, actual.num_rows, compare(actual, expected, truth.keys[name])))
    for (uid, name), expected in truth.states.items():
        rows = read_state(str(root), job, uid, name)
        is_list = pa.types.is_list(expected.schema.field("value").type)
        actual = collect_lists(rows, truth.keys[uid]) if is_list else rows
        key = [column for column in expected.column_names if column != "value"]
        checks.append(Check(f"{uid}/{name}", True, rows.num_rows, compare(actual, expected, key)))
    return checks


def make_report(checks: list[Check], history: History, *, kills: int, spark_jobs: int, seconds: float) -> Report:
    """Adds up the checks. A record that the job never read counts as lost through its missing rows."""
    return Report(
        records_in=history.records_in,
        rows_out=sum(check.rows for check in checks if not check.is_state),
        state_rows=sum(check.rows for check in checks if check.is_state),
        lost=sum(check.difference.lost for check in checks),
        doubled=sum(check.difference.doubled for check in checks),
        differing=sum(check.difference.differing for check in checks),
        kills=kills,
        restores=history.restores,
        parallelism=history.parallelism,
        epochs=history.epochs,
        spark_jobs=spark_jobs,
        seconds=round(seconds, 1),
    )


def print_report(console: Console, report: Report, checks: list[Check]) -> None:
    """Prints one line per table, and the sums."""
    table = Table(title="Against the truth, recomputed as one batch in DuckDB")
    for heading in ("table", "rows", "lost", "doubled", "differing"):
        table.add_column(heading, justify="left" if heading == "table" else "right")
    for is_state, kind in ((False, "output"), (True, "state")):
        for check in checks:
            if check.is_state is is_state:
                table.add_row(f"{kind} {check.name}", f"{check.rows:,}", *(f"{n:,}" for n in check.difference))
        table.add_section()
    total = (report.lost, report.doubled, report.differing)
    style = "bold green" if report.is_right else "bold red"
    table.add_row("all", f"{report.rows_out + report.state_rows:,}", *(f"{n:,}" for n in total), style=style)
    console.print(table)
    parallelism = " → ".join(str(p) for p in report.parallelism)
    console.print(
        f"records in {report.records_in:,} · rows out {report.rows_out:,} · state rows {report.state_rows:,} · "
        f"lost, doubled, differing: [{style}]{report.lost}, {report.doubled}, {report.differing}[/]",
        soft_wrap=True,
    )
    console.print(
        f"killed {report.kills} times · restored {report.restores} times · parallelism {parallelism} · "
        f"{report.epochs} epochs in {report.spark_jobs} Spark jobs · {report.seconds:.0f} s",
        soft_wrap=True,
    )


def print_state_query(console: Console, root: Path, job: str, uid: str, state: str) -> None:
    """Prints the folders of the state tables, the query that reads one of them, and its first rows."""
    console.print("\nThe state is stored in Delta tables that any engine can read:")
    for folder in sorted((root / job).glob("[!_]*/*")):
        console.print(f"  {folder}", soft_wrap=True, highlight=False)
    query = state_sql(str(root), job, uid, state, dialect="duckdb")
    console.print(query, soft_wrap=True, highlight=False, markup=False)  # unchanged, to be copied
    with duckdb.connect() as connection:
        first = connection.sql(query).limit(_FIRST_ROWS).to_arrow_table()
    shown = first.drop_columns([name for name in _NOT_SHOWN if name in first.column_names])
    rows = Table(*shown.column_names, title=f"Its first rows, without {', '.join(_NOT_SHOWN)}")
    for row in shown.to_pylist():
        rows.add_row(*(str(value) for value in row.values()))
    console.print(rows)


__all__ = ["Check", "Report", "check_tables", "make_report", "print_report", "print_state_query"]
