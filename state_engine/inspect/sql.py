"""The folding query: it returns the live rows of a state table; as text for DuckDB, Spark and polars.

A state table is a log: its rows record what was put, appended, deleted or cleared. The query keeps the live rows. It is
the fold of `log/fold.py` in SQL; `docs/state-tables.md` explains it line by line.
"""

from typing import Any, Literal

import pyarrow as pa

from state_engine.errors import LakestateError, NothingToRestoreError
from state_engine.extras import from_extra
from state_engine.inspect.read import At, History, history_at, schema_of
from state_engine.log.paths import state_table_path
from state_engine.log.records import StateFile, StateSchema

Dialect = Literal["duckdb", "polars", "spark"]


def state_sql(root: str, job: str, uid: str, state_name: str, dialect: Dialect = "duckdb", *, at: At = None) -> str:
    """Returns a query for the live rows of a state at the newest checkpoint before an epoch.

    DuckDB and polars get the list of files that the checkpoint names. So the query needs no Delta extension, and its
    result does not change while the job goes on. Spark gets the Delta table itself: its newest version.

    Args:
        root: Of the storage.
        job: Name of the job.
        uid: The operator.
        state_name: The state.
        dialect: `duckdb` and `spark`: one SELECT; `polars`: a Python program with the result in the frame `state`.
        at: As of `read_state`.

    Raises:
        NothingToRestoreError: Nothing was published before this epoch.
        UnknownOperatorError: There is no such state.
    """
    history = history_at(root, job, at)
    return query_of(history, job, schema_of(history, job, uid, state_name), dialect)


def query_of(history: History, job: str, schema: StateSchema, dialect: Dialect) -> str:
    """Returns the query for one state of a history that was read before, so that several states are of one epoch.

    Raises:
        NothingToRestoreError: The history has no base, or none of its files holds rows of this state.
        LakestateError: The files are not Parquet files.
    """
    root = history.segment.storage.url.rstrip("/")
    table = f"{root}/{state_table_path(schema)}"
    files = published_files(history, job, schema)
    if any(file.format != "parquet" for file in files):
        raise LakestateError(
            f"State {schema.uid}/{schema.name} of job {job!r} is in no table: its checkpoints are kept by the "
            f"checkpoint storage {published_storage(history)!r}.",
            action="Use read_state or run_sql (`lakestate sql`), which can read it; or take a canonical "
            "savepoint, which is a table.",
        )
    copied = [file.path for file in files if not file.path.startswith(f"{state_table_path(schema)}/")]
    if dialect == "spark" and copied:  # a restore copied them from a canonical savepoint; no table has them yet
        return fold_query(schema, f"parquet.`{root}/{copied[0].rpartition('/')[0]}`", "struct", identifier="`")
    if dialect == "spark":
        return fold_query(schema, f"delta.`{table}`", "struct", identifier="`")
    paths = [f"{root}/{file.path}" for file in files]
    if not paths:
        raise NothingToRestoreError(
            f"State {schema.uid}/{schema.name} of job {job!r} has no rows in its newest checkpoint.",
            action="Use read_state.",
        )
    if dialect == "polars":
        return _polars_program(schema, paths, table)
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    source = f"read_parquet([{listed}])"
    return f"-- with the delta extension, instead of read_parquet: delta_scan('{table}')\n" + fold_query(
        schema, source, "row", identifier='"'
    )


def run_state_sql(root: str, job: str, uid: str, state_name: str, *, at: At = None) -> pa.Table:
    """Runs the folding query in DuckDB, an optional extra; local storages only.

    Raises:
        MissingExtraError: DuckDB is not installed.
    """
    with load_duckdb().connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        result = connection.sql(state_sql(root, job, uid, state_name, at=at)).to_arrow_table()
    assert isinstance(result, pa.Table)
    return result


def load_duckdb() -> Any:
    """Imports DuckDB when it is needed, and not before.

    Raises:
        MissingExtraError: It is not installed.
    """
    with from_extra("sql"):
        import duckdb
    return duckdb


def fold_query(schema: StateSchema, source: str, pair: str, *, identifier: str) -> str:
    """Returns the SELECT that folds a state table.

    Args:
        schema: The state; its shape decides which operations its log has.
        source: The text after FROM.
        pair: The dialect's function that makes a comparable pair: `row` or `struct`.
        identifier: The dialect's quote around names.
    """
    quoted = [f"{identifier}{name.replace(identifier, 2 * identifier)}{identifier}" for name in _key_names(schema)]
    entry = ", ".join(["key_group", *quoted])
    cell = f"{entry}, user_key" if schema.user_key is not None else entry
    shown = ", ".join([cell, "value", "position", "seq", "last_access"])
    place = f"{pair}(position, seq)"
    lines = [
        "WITH log AS (",
        "  SELECT *,",
        f"    max(CASE WHEN op = 'reset_group' THEN {place} END) OVER (PARTITION BY key_group) AS reset_at,",
        f"    max(CASE WHEN op = 'clear' THEN {place} END) OVER (PARTITION BY {entry}) AS cleared_at,",
        f"    row_number() OVER (PARTITION BY {cell} ORDER BY position DESC, seq DESC) AS newest",
        f"  FROM {source}",
        ")",
        f"SELECT {shown}",
        "FROM log",
        "WHERE op IN ('put', 'append')",
        f"  AND (reset_at IS NULL OR {place} > reset_at)",
        f"  AND (cleared_at IS NULL OR {place} > cleared_at)",
    ]
    if schema.shape != "list":
        lines.append("  AND newest = 1")
    else:
        lines = [line for line in lines if "AS newest" not in line]
        lines[3] = lines[3].rstrip(",")
    return "\n".join([*lines, f"ORDER BY {entry}, position, seq"]) + "\n"


def _key_names(schema: StateSchema) -> list[str]:
    return [*(column.name for column in schema.key), "namespace"]


def published_files(history: History, job: str, schema: StateSchema) -> list[StateFile]:
    """Returns the files of a state that the base of a history names; none if nothing of the state was published.

    Raises:
        NothingToRestoreError: The history has no base.
    """
    base = history.segment.base
    if base is None:
        raise NothingToRestoreError(
            f"Job {job!r} published nothing up to epoch {history.head.manifest.epoch}.",
            action="Wait for the first checkpoint, or use read_state (`lakestate sql --live`), which also reads what "
            "is not published yet.",
        )
    ids = {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
    return [file for file in base.files if file.schema_id in ids]


def published_storage(history: History) -> str:
    """Returns the checkpoint storage that keeps the base of a history."""
    base = history.segment.base
    return base.storage if base is not None else "delta"


def _polars_program(schema: StateSchema, paths: list[str], table: str) -> str:
    entry = ["key_group", *_key_names(schema)]
    cell = [*entry, "user_key"] if schema.user_key is not None else entry
    listed = ",\n    ".join(repr(path) for path in paths)
    newest = "" if schema.shape == "list" else f"    & (place == place.max().over({cell!r}))\n"
    return f"""import polars as pl

# or, with deltalake: pl.scan_delta({table!r})
log = pl.scan_parquet([
    {listed},
])
# one number per row in the order of (position, seq); 0 stands for "never"
log = log.sort("position", "seq").with_row_index("place", offset=1)
place = pl.col("place").cast(pl.Int64)
reset_at = pl.when(pl.col("op") == "reset_group").then(place).otherwise(0).max().over("key_group")
cleared_at = pl.when(pl.col("op") == "clear").then(place).otherwise(0).max().over({entry!r})
state = log.filter(
    pl.col("op").is_in(["put", "append"])
    & (place > reset_at)
    & (place > cleared_at)
{newest}).select({[*cell, "value", "position", "seq", "last_access"]!r}).collect()
"""


__all__ = [
    "Dialect",
    "fold_query",
    "load_duckdb",
    "published_files",
    "published_storage",
    "query_of",
    "run_state_sql",
    "state_sql",
]
