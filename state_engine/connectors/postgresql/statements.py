"""The statements that the sink sends. Names are quoted; values are parameters."""

from collections.abc import Sequence
from typing import NamedTuple

from state_engine.api.sinks import Upsert
from state_engine.connectors.postgresql.types import TableColumn

MARKERS = "lakestate_sinks"
STAGED = "lakestate_rows"
LATEST = "lakestate_latest"
ORDER = "lakestate_order"
_LONGEST_NAME = 63

COLUMNS_OF = """
SELECT a.attname, format_type(coalesce(nullif(t.typbasetype, 0), a.atttypid),
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END),
       b.typtype = 'e', t.typtype = 'd',
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""

KIND_OF = "SELECT relkind::text, row_security_active(oid) FROM pg_class WHERE oid = to_regclass($1)"

END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""


def quoted(name: str) -> str:
    """Returns a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def bounded(name: str) -> str:
    """Returns the name as PostgreSQL keeps it: at most 63 bytes."""
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore")


class Target(NamedTuple):
    """The table of a sink."""

    schema: str
    table: str

    @property
    def name(self) -> str:
        """Its quoted name."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def markers(self) -> str:
        """The quoted name of the table with the markers: in the same schema, so that a dump of it has both."""
        return f"{quoted(self.schema)}.{quoted(MARKERS)}"

    @property
    def abandoned(self) -> str:
        """The quoted name of the table with keys whose rows a restore has abandoned."""
        return f"{quoted(self.schema)}.{quoted(bounded(f'lakestate_abandoned_{self.table}'))}"


def create_markers(target: Target) -> str:
    """Creates the table with the markers of all sinks that write to this schema."""
    return (
        f"CREATE TABLE IF NOT EXISTS {target.markers} (job text, sink text, log bigint NOT NULL, "
        "generation bigint NOT NULL, epoch bigint NOT NULL, committed_at timestamptz NOT NULL DEFAULT now(), "
        "PRIMARY KEY (job, sink))"
    )


def read_marker(target: Target) -> str:
    """Reads a marker: parameters are job and sink."""
    return f"SELECT log, generation, epoch FROM {target.markers} WHERE job = $1 AND sink = $2"


def first_marker(target: Target) -> str:
    """Adds a marker if there is none: parameters are job, sink, log, generation, epoch. Returns a row if it did."""
    return (
        f"INSERT INTO {target.markers} (job, sink, log, generation, epoch) VALUES ($1, $2, $3, $4, $5) "
        "ON CONFLICT DO NOTHING RETURNING 1"
    )


def next_marker(target: Target) -> str:
    """Replaces a marker by another: parameters as `first_marker`, then the old log, generation and epoch.

    It locks the marker until the transaction ends, and returns a row if the marker was the old one.
    """
    return (
        f"UPDATE {target.markers} SET log = $3, generation = $4, epoch = $5, committed_at = now() "
        "WHERE job = $1 AND sink = $2 AND log = $6 AND generation = $7 AND epoch = $8 RETURNING 1"
    )


def create_table(target: Target, columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> str:
    """Creates the table from names and types of its columns, with a primary key for upserts."""
    key = [f"PRIMARY KEY ({_list(keys)})"] if keys else []
    return f"CREATE TABLE IF NOT EXISTS {target.name} ({', '.join([*_typed(columns), *key])})"


def create_staged(columns: Sequence[tuple[str, str]]) -> str:
    """Creates the table of one transaction that takes rows before they are cast or merged."""
    typed = _typed([*columns, (ORDER, "bigint")])
    return f"CREATE TEMPORARY TABLE {STAGED} ({', '.join(typed)}) ON COMMIT DROP"


def insert(target: Target, columns: Sequence[TableColumn], upsert: Upsert | None, source: str) -> str:
    """Inserts rows of a source that has the columns' names, cast to the columns' types."""
    cast = ", ".join(f"{quoted(c.name)}::{c.cast}" for c in columns)
    names = [c.name for c in columns]
    text = f"INSERT INTO {target.name} AS t ({_list(names)}) SELECT {cast} FROM {source}"
    if upsert is None:
        return text
    others = [name for name in names if name not in upsert.keys]
    if not others:
        return f"{text} ON CONFLICT ({_list(upsert.keys)}) DO NOTHING"
    changes = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in others)
    text = f"{text} ON CONFLICT ({_list(upsert.keys)}) DO UPDATE SET {changes}"
    if upsert.version_by is not None:
        version = quoted(upsert.version_by)
        text += f" WHERE t.{version} IS NULL OR t.{version} <= EXCLUDED.{version}"
    return text


def latest(upsert: Upsert, columns: Sequence[TableColumn]) -> str:
    """Keeps the last staged row of each key: by the version, else in the order in which rows were emitted.

    Keys and versions are compared as the table compares them: two spellings of a `uuid` are one.
    """
    casts = {c.name: f"{quoted(c.name)}::{c.cast}" for c in columns}
    keys = ", ".join(casts[key] for key in upsert.keys)
    version = f"{casts[upsert.version_by]} DESC NULLS LAST, " if upsert.version_by is not None else ""
    retracted = f"WHERE {quoted(upsert.op)} <> '-U'" if upsert.op is not None else ""
    return (
        f"CREATE TEMPORARY TABLE {LATEST} ON COMMIT DROP AS SELECT DISTINCT ON ({keys}) * FROM {STAGED} {retracted} "
        f"ORDER BY {keys}, {version}{quoted(ORDER)} DESC"
    )


def without_key(upsert: Upsert) -> str:
    """Finds a staged row with a null in its key: no key is equal to it."""
    return f"SELECT 1 FROM {STAGED} WHERE {' OR '.join(f'{quoted(key)} IS NULL' for key in upsert.keys)} LIMIT 1"


def without_op(op: str) -> str:
    """Finds a staged row whose `op` is none of Flink's short strings of a `RowKind`."""
    kinds = "('+I', '-U', '+U', '-D')"
    return f"SELECT {quoted(op)} FROM {STAGED} WHERE {quoted(op)} IS NULL OR {quoted(op)} NOT IN {kinds} LIMIT 1"


def delete(target: Target, columns: Sequence[TableColumn], upsert: Upsert) -> str:
    """Deletes the rows whose last staged row is a `-D`."""
    assert upsert.op is not None
    keys = [c for c in columns if c.name in upsert.keys]
    same = " AND ".join(f"t.{quoted(c.name)} = l.{quoted(c.name)}::{c.cast}" for c in keys)
    text = f"DELETE FROM {target.name} AS t USING {LATEST} AS l WHERE l.{quoted(upsert.op)} = '-D' AND {same}"
    if upsert.version_by is not None:
        version, [column] = quoted(upsert.version_by), [c for c in columns if c.name == upsert.version_by]
        text += f" AND (t.{version} IS NULL OR t.{version} <= l.{version}::{column.cast})"
    return text


def create_abandoned(target: Target, keys: Sequence[TableColumn]) -> str:
    """Creates the table with the keys whose rows a restore has abandoned."""
    columns = [f"{quoted(key.name)} {key.cast}" for key in keys]
    columns += ["lakestate_job text", "lakestate_generation bigint", "lakestate_at timestamptz DEFAULT now()"]
    return f"CREATE TABLE IF NOT EXISTS {target.abandoned} ({', '.join(columns)})"


def forget_abandoned(target: Target) -> str:
    """Removes what an earlier try of the same restore has added: parameters are the job and the generation."""
    return f"DELETE FROM {target.abandoned} WHERE lakestate_job = $1 AND lakestate_generation = $2"


def insert_abandoned(target: Target, keys: Sequence[TableColumn]) -> str:
    """Adds the staged keys, each once: parameters are the job and the generation that the restore begins."""
    names = [key.name for key in keys]
    cast = ", ".join(f"{quoted(key.name)}::{key.cast}" for key in keys)
    return (
        f"INSERT INTO {target.abandoned} ({_list(names)}, lakestate_job, lakestate_generation) "
        f"SELECT DISTINCT {cast}, $1, $2::bigint FROM {STAGED}"
    )


def _typed(columns: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{quoted(name)} {kind}" for name, kind in columns]


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


__all__ = [
    "COLUMNS_OF",
    "END_OTHERS",
    "KIND_OF",
    "LATEST",
    "MARKERS",
    "ORDER",
    "STAGED",
    "Target",
    "create_abandoned",
    "create_markers",
    "create_staged",
    "create_table",
    "delete",
    "first_marker",
    "forget_abandoned",
    "insert",
    "insert_abandoned",
    "latest",
    "next_marker",
    "quoted",
    "read_marker",
    "without_key",
    "without_op",
]
