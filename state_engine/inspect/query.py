"""SQL over all states of a job: `select … from aircraft.legs` in DuckDB, an optional extra.

A state is the view `"<operator uid>"."<state name>"`. Names are looked up in the job's manifests; the text that a user
types becomes neither a path nor a part of the folding query.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from state_engine.errors import LakestateError, UnknownOperatorError
from state_engine.inspect.read import At, History, history_at, known_states, last_group, segments_of
from state_engine.inspect.reading import history_kept
from state_engine.inspect.sql import Dialect, load_duckdb, published_files, query_of
from state_engine.log.records import StateSchema
from state_engine.storage.state_reader import Segment, empty_rows, load_groups

if TYPE_CHECKING:
    import duckdb


def list_states(root: str, job: str, *, at: At = None) -> list[StateSchema]:
    """Returns the states of a job at an epoch, in the order of their names.

    Raises:
        NothingToRestoreError: There is no such job, epoch or savepoint.
    """
    return known_states(history_at(root, job, at))


def run_sql(root: str, job: str, statement: str, *, at: At = None, live: bool = False) -> pa.Table:
    """Runs a statement over the live rows of a job's states, all of one epoch.

    Only states that the statement names are read. As with `state_sql`, rows are as old as the newest checkpoint at or
    before the epoch; local storages only. The files are kept from retention until they are read.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        statement: In DuckDB's dialect; a state is the view `"<operator uid>"."<state name>"`.
        at: As of `read_state`.
        live: Use the rows of `read_state`: as new as the epoch, from any storage, but read into memory.

    Raises:
        NothingToRestoreError: There is no such job, epoch or savepoint, or nothing was published before it.
        UnknownOperatorError: The statement names a table that is no state; the error names those that exist.
        CondemnedError: Retention is removing some of what is read.
        MissingExtraError: DuckDB is not installed.
        LakestateError: DuckDB refuses the statement.
    """
    engine = load_duckdb()
    with history_kept(root, job, at, purpose="sql") as history, engine.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # tables are states, not our local variables
        try:
            for uid in {schema.uid for schema in known_states(history) if schema.uid.lower() in statement.lower()}:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(uid)}")  # so that errors name the state
            for number, schema in enumerate(_named(statement, history)):
                rows = _rows(root, job, history, schema) if live else None
                _create_view(connection, job, history, schema, rows, f"lakestate_rows_{number}")
            result = connection.sql(statement)
            table = result.to_arrow_table() if result is not None else pa.table({})
        except engine.Error as error:
            raise _refused(str(error), job, history) from error
    assert isinstance(table, pa.Table)
    return table


def show_sql(root: str, job: str, statement: str, dialect: Dialect, *, at: At = None) -> str:
    """Returns the folding queries of the states that a statement names, of all states when it is empty.

    For DuckDB it is a script that ends with the statement; for Spark and polars the statement is not translated.

    Raises:
        NothingToRestoreError: There is no such job, epoch or savepoint, or nothing was published before it.
        UnknownOperatorError: The statement names no state.
    """
    history = history_at(root, job, at)
    chosen = _named(statement, history) if statement.strip() else known_states(history)
    if not chosen:
        raise UnknownOperatorError(f"The statement names no state. {_which(job, history)}", action=_HOW_TO_NAME)
    parts = []
    for schema in chosen:
        query = query_of(history, job, schema, dialect)
        comment = "#" if dialect == "polars" else "--"
        head = f"{comment} {schema.uid}/{schema.name}\n"
        parts.append(head + (_view(schema, query) if dialect == "duckdb" else query))
    if dialect == "duckdb" and statement.strip():
        parts.append(f"{statement.strip().rstrip(';')};\n")
    return "\n".join(parts)


_HOW_TO_NAME = 'Name a state as "<operator uid>"."<state name>", in double quotes where it is no plain word.'


def _named(statement: str, history: History) -> Sequence[StateSchema]:
    """Returns the states with uid and name in the statement: at least all that it uses, however it is written."""
    text = statement.replace('""', '"').lower()
    chosen = [s for s in known_states(history) if s.uid.lower() in text and s.name.lower() in text]
    folded: dict[tuple[str, str], StateSchema] = {}
    for schema in chosen:
        other = folded.setdefault((schema.uid.lower(), schema.name.lower()), schema)
        if other is not schema:
            raise LakestateError(
                f"States {other.uid}/{other.name} and {schema.uid}/{schema.name} have one name for DuckDB, which does "
                "not distinguish upper from lower case.",
                action="Use read_state or state_sql.",
            )
    return chosen


def _create_view(
    connection: "duckdb.DuckDBPyConnection",
    job: str,
    history: History,
    schema: StateSchema,
    rows: pa.Table | None,
    name: str,
) -> None:
    """Makes the view of a state over its rows; without them over its folding query."""
    files = published_files(history, job, schema) if rows is None else []
    if rows is None and not files:
        rows = empty_rows(schema).drop_columns(["op"])
    if any(file.format != "parquet" for file in files):  # DuckDB cannot read these files, so we do
        base = Segment(history.segment.storage, history.segment.base, ())
        rows = load_groups([base], schema, 0, files[0].max_parallelism - 1).drop_columns(["op"])
    if rows is not None:
        connection.register(name, rows)
    query = query_of(history, job, schema, "duckdb") if rows is None else f"SELECT * FROM {name}"
    connection.execute(_view(schema, query))


def _rows(root: str, job: str, history: History, schema: StateSchema) -> pa.Table:
    # Not `read_state`: a name such as "latest" may mean another epoch by now.
    segments = segments_of(root, job, history)
    return load_groups(segments, schema, 0, last_group(history, schema.uid)).drop_columns(["op"])


def _view(schema: StateSchema, query: str) -> str:
    uid, name = _quoted(schema.uid), _quoted(schema.name)
    return f"CREATE SCHEMA IF NOT EXISTS {uid};\nCREATE VIEW {uid}.{name} AS\n{query.rstrip()};\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _which(job: str, history: History) -> str:
    names = ", ".join(f"{_quoted(schema.uid)}.{_quoted(schema.name)}" for schema in known_states(history)) or "none"
    return f"Job {job!r} has at epoch {history.head.manifest.epoch} the states {names}."


def _refused(said: str, job: str, history: History) -> LakestateError:
    """Returns an error with DuckDB's first line; others quote the statement or suggest tables that are no states."""
    line = said.splitlines()[0].rstrip(".!")
    if "Table with name" in line:
        return UnknownOperatorError(f"DuckDB: {line}. {_which(job, history)}", action=_HOW_TO_NAME)
    return LakestateError(
        f"DuckDB refuses the statement: {line}. {_which(job, history)}",
        action="Correct the statement; `--show duckdb` (`show_sql`) gives it whole, to be tried in DuckDB's shell.",
    )


__all__ = ["list_states", "run_sql", "show_sql"]
