"""Values of every type reach PostgreSQL as they are; tables that would round or cut them are refused by name."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from postgres_rows import write

from state_engine.connectors.postgresql.statements import Target, create_markers
from state_engine.connectors.postgresql.types import TableColumn, postgres_type
from state_engine.errors import SinkError
from state_engine.spark import PostgresSink

pytestmark = pytest.mark.slow  # a server of PostgreSQL

Sinks = Callable[..., PostgresSink]
Query = Callable[..., list[Any]]
UTC = dt.UTC
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)

VALUES: list[tuple[pa.DataType, str, list[Any]]] = [
    (pa.bool_(), "boolean", [True, False]),
    (pa.int8(), "smallint", [-128, 127]),
    (pa.int16(), "smallint", [-(2**15), 2**15 - 1]),
    (pa.int32(), "integer", [-(2**31), 2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1]),
    (pa.float32(), "real", [1.5, -3.25, 2.0**20]),
    (pa.float64(), "double precision", [0.1, 2.0**53 + 2, 1.7976931348623157e308, float("inf"), 5e-324]),
    (pa.decimal128(38, 6), "numeric", [Decimal("-12345678901234567890123456789012.123456"), Decimal("0.000001")]),
    (pa.decimal128(5, 0), "numeric", [Decimal(99999), Decimal(-1)]),
    (pa.string(), "text", ["", "ä€𝄞", 'a,"b"\\n\n\t', "NULL", "\\N"]),
    (pa.binary(), "bytea", [b"", b"\x00\xff", bytes(range(256))]),
    (pa.date32(), "date", [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), "timestamp without time zone", [dt.datetime(1, 1, 1), LAST]),
    (
        pa.timestamp("us", tz="UTC"),
        "timestamp with time zone",
        [dt.datetime(1, 1, 2, tzinfo=UTC), LAST.replace(day=30, tzinfo=UTC)],
    ),
    (pa.list_(pa.int64()), "bigint[]", [[], [1, None, 3]]),
    (pa.list_(pa.string()), "text[]", [['a"b', None, "", "{,}"], []]),
    (pa.list_(pa.decimal128(9, 2)), "numeric[]", [[Decimal("1.50"), None]]),
    (pa.list_(pa.date32()), "date[]", [[dt.date(2024, 2, 29)]]),
    (pa.list_(pa.bool_()), "boolean[]", [[True, None]]),
]


@pytest.mark.parametrize(("data_type", "named", "values"), VALUES, ids=lambda value: str(value)[:30])
def test_values_come_back_as_they_were(
    sink_to: Sinks, query: Query, schema: str, data_type: pa.DataType, named: str, values: list[Any]
) -> None:
    rows = pa.table({"i": range(len(values) + 1), "v": pa.array([*values, None], data_type)})
    write(sink_to("copied"), rows)
    write(sink_to("upserted", mode="upsert", keys=["i"]), rows)
    for table in ("copied", "upserted"):
        found = query(f"SELECT v, pg_typeof(v)::text FROM {schema}.{table} ORDER BY i")
        assert [row[1] for row in found] == [named] * len(found)
        got = [bytes(v) if isinstance(v, memoryview) else v for v, _ in found]
        assert got == [*values, None]


def test_a_float_that_is_no_number_stays_one(sink_to: Sinks, query: Query, schema: str) -> None:
    write(sink_to(), pa.table({"v": pa.array([float("nan"), float("-inf"), -0.0])}))
    assert query(f"SELECT v::text FROM {schema}.counts") == [("NaN",), ("-Infinity",), ("-0",)]


NESTED: list[tuple[pa.DataType, Any, Any]] = [
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 2**62, "b": None}, {"a": 2**62, "b": None}),
    (pa.map_(pa.string(), pa.int64()), [("x", 1), ("y", None)], {"x": 1, "y": None}),
    (pa.map_(pa.string(), pa.int64()), [], {}),
    (pa.map_(pa.int64(), pa.bool_()), [(1, True)], [[1, True]]),
    (pa.list_(pa.list_(pa.int32())), [[1], [], None], [[1], [], None]),
    (pa.list_(pa.struct([("f", pa.float64())])), [{"f": float("nan")}, {"f": 0.5}], [{"f": "NaN"}, {"f": 0.5}]),
    (pa.struct([("d", pa.decimal128(38, 2))]), {"d": Decimal("123456789012345678901234.50")}, None),
    (pa.struct([("t", pa.timestamp("us"))]), {"t": dt.datetime(2024, 1, 2, 3)}, {"t": "2024-01-02T03:00:00"}),
]


@pytest.mark.parametrize(("data_type", "value", "wanted"), NESTED, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("column", ["", "jsonb", "json", "text"])
def test_what_postgresql_has_no_type_for_is_json(
    sink_to: Sinks, query: Query, schema: str, data_type: pa.DataType, value: Any, wanted: Any, column: str
) -> None:
    if column:
        query(f"CREATE TABLE {schema}.counts (v {column})")
    write(sink_to(), pa.table({"v": pa.array([value, None], data_type)}))
    [(found, text), (nothing, _)] = query(f"SELECT v::jsonb, v::text FROM {schema}.counts")
    assert nothing is None
    if wanted is None:
        assert "123456789012345678901234.50" in text, "no digit is lost"
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("column", "data_type", "takes", "copies"),
    [
        ("bigint", pa.int64(), True, True),
        ("bigint", pa.int32(), True, False),
        ("numeric", pa.int64(), True, False),
        ("numeric(20,2)", pa.int64(), True, False),
        ("numeric(20,-2)", pa.int64(), False, False),
        ("integer", pa.int64(), True, False),
        ("smallint", pa.int64(), True, False),
        ("real", pa.int32(), False, False),
        ("double precision", pa.int64(), False, False),
        ("double precision", pa.int32(), True, False),
        ("double precision", pa.float32(), True, False),
        ("real", pa.float64(), False, True),
        ("numeric", pa.float64(), False, False),
        ("numeric(18,2)", pa.decimal128(18, 2), True, True),
        ("numeric(18,4)", pa.decimal128(18, 2), True, True),
        ("numeric(18,1)", pa.decimal128(18, 2), False, True),
        ("numeric", pa.decimal128(18, 2), True, True),
        ("character varying(3)", pa.string(), True, True),
        ("character(3)", pa.string(), False, False),
        ("uuid", pa.string(), True, False),
        ("integer", pa.string(), False, False),
        ("timestamp(0) without time zone", pa.timestamp("us"), False, True),
        ("timestamp without time zone", pa.timestamp("us"), True, True),
        ("timestamp without time zone", pa.timestamp("us", tz="UTC"), False, False),
        ("timestamp with time zone", pa.timestamp("us", tz="UTC"), True, True),
        ("timestamp with time zone", pa.timestamp("us"), False, False),
        ("date", pa.timestamp("us"), False, False),
        ("bigint[]", pa.list_(pa.int64()), True, True),
        ("integer[]", pa.list_(pa.int64()), False, False),
        ("jsonb", pa.list_(pa.list_(pa.int64())), True, False),
        ("text", pa.struct([("a", pa.int64())]), True, False),
        ("bytea", pa.string(), False, False),
    ],
)
def test_which_columns_take_which_values(column: str, data_type: pa.DataType, takes: bool, copies: bool) -> None:
    one = TableColumn("v", column, is_enum=False, is_domain=False, must_be_given=False)
    assert one.takes(data_type) is takes
    if takes:
        assert one.takes_bytes(data_type) is copies


def test_each_type_that_an_output_can_have_is_taken_by_the_column_that_is_made_for_it() -> None:
    for data_type, named, _ in VALUES:
        made = postgres_type(data_type)
        assert made.startswith(named)
        one = TableColumn("v", made, is_enum=False, is_domain=False, must_be_given=False)
        assert one.takes(data_type)
        assert one.takes_bytes(data_type)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("k text", "it has no column 'n'"),
        ("k text, n real", "column 'n' is real, and the output has bigint"),
        (
            "k text, n bigint, more int NOT NULL",
            "column 'more' must not be null, has no default, and is not in the out",
        ),
        ("k text, n bigint GENERATED ALWAYS AS (1) STORED", "cannot insert a non-DEFAULT value into column"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(
    sink_to: Sinks, query: Query, schema: str, columns: str, said: str
) -> None:
    query(f"CREATE TABLE {schema}.counts ({columns})")
    with pytest.raises(SinkError, match=said):
        write(sink_to(), pa.table({"k": ["a"], "n": [1]}))
    assert query("SELECT to_regclass(%s)", f"{schema}.lakestate_sinks") == [(None,)], "nothing was made"


def test_other_relations_than_tables_are_refused(sink_to: Sinks, query: Query, schema: str) -> None:
    query(f"CREATE TABLE {schema}.base (k text, n bigint); CREATE VIEW {schema}.counts AS SELECT * FROM {schema}.base")
    with pytest.raises(SinkError, match="it is a view, a foreign table"):
        write(sink_to(), pa.table({"k": ["a"], "n": [1]}))


def test_partitioned_tables_enumerations_domains_identity_and_triggers(
    sink_to: Sinks, query: Query, schema: str
) -> None:
    query(
        f"CREATE TYPE {schema}.mood AS ENUM ('ok', 'sad'); CREATE DOMAIN {schema}.positive AS bigint CHECK (value > 0);"
        f"CREATE TABLE {schema}.counts (id bigint GENERATED ALWAYS AS IDENTITY, m {schema}.mood, n {schema}.positive, "
        "twice bigint GENERATED ALWAYS AS (n * 2) STORED) PARTITION BY RANGE (n);"
        f"CREATE TABLE {schema}.low PARTITION OF {schema}.counts FOR VALUES FROM (1) TO (10);"
        f"CREATE TABLE {schema}.high PARTITION OF {schema}.counts FOR VALUES FROM (10) TO (100)"
    )
    sink = sink_to()
    write(sink, pa.table({"m": ["ok", "sad"], "n": [1, 50]}))
    assert query(f"SELECT id, m::text, n, twice FROM {schema}.counts ORDER BY n") == [
        (1, "ok", 1, 2),
        (2, "sad", 50, 100),
    ]
    for bad, said in ((("angry", 1), "mood"), (("ok", -1), "positive"), (("ok", 100), "no partition")):
        with pytest.raises(Exception, match=said):
            write(sink, pa.table({"m": [bad[0]], "n": [bad[1]]}))
    assert query(f"SELECT count(*) FROM {schema}.counts") == [(2,)]


def test_what_a_column_refuses_writes_nothing_and_the_statement_is_not_in_the_message(
    sink_to: Sinks, query: Query, schema: str
) -> None:
    query(f"CREATE TABLE {schema}.counts (k varchar(3))")
    with pytest.raises(Exception, match=r"^value too long for type character varying\(3\)$"):
        write(sink_to(), pa.table({"k": ["abc"]}), pa.table({"k": ["abcd"]}))
    assert query(f"SELECT k FROM {schema}.counts") == [("abc",)]
    assert query(f"SELECT epoch FROM {schema}.lakestate_sinks") == [(0,)]


def test_a_number_that_a_narrower_column_cannot_hold_writes_nothing(sink_to: Sinks, query: Query, schema: str) -> None:
    query(f"CREATE TABLE {schema}.counts (n smallint)")
    write(sink_to(), pa.table({"n": [-(2**15), 2**15 - 1]}))
    with pytest.raises(Exception, match="smallint out of range"):
        write(sink_to(), pa.table({"n": [1, 2**15]}))
    assert query(f"SELECT n FROM {schema}.counts ORDER BY n") == [(-(2**15),), (2**15 - 1,)]


def test_names_with_quotes_capitals_and_spaces(sink_to: Sinks, query: Query, schema: str) -> None:
    for options in ({}, {"mode": "upsert", "keys": ['The "Key"']}):
        write(sink_to(f'My "Table" {len(options)}', **options), pa.table({'The "Key"': ["a"], "select": [1]}))
    assert query(f'SELECT "The ""Key""", "select" FROM {schema}."My ""Table"" 0"') == [("a", 1)]


def test_a_user_who_may_create_nothing_uses_tables_that_exist(
    sink_to: Sinks, query: Query, schema: str, server: Any
) -> None:
    user = f"{schema}_user"[-60:]
    query(f"CREATE ROLE {user} LOGIN PASSWORD 'an umbrella'; GRANT USAGE ON SCHEMA {schema} TO {user}")
    sink = PostgresSink("counts", server.uri.replace("//lakestate@", f"//{user}@"), schema=schema)
    rows = pa.table({"n": [1]})
    with pytest.raises(SinkError, match='counts" does not exist, and the user may not create it'):
        write(sink, rows)
    query(f"CREATE TABLE {schema}.counts (n bigint); GRANT INSERT ON {schema}.counts TO {user}")
    with pytest.raises(SinkError, match='lakestate_sinks" does not exist, and the user may not create it'):
        write(sink, rows)
    query(create_markers(Target(schema, "counts")))
    with pytest.raises(SinkError, match=r"may not read and write.*GRANT SELECT, INSERT, UPDATE ON"):
        write(sink, rows)
    query(f"GRANT SELECT, INSERT, UPDATE ON {schema}.lakestate_sinks TO {user}")
    write(sink, rows)
    assert query(f"SELECT n FROM {schema}.counts") == [(1,)]


def test_a_user_with_rights_to_insert_alone_can_append(sink_to: Sinks, query: Query, schema: str, server: Any) -> None:
    query(f"CREATE TABLE {schema}.counts (n bigint); ALTER TABLE {schema}.counts ENABLE ROW LEVEL SECURITY")
    user = f"{schema}_user"[-60:]
    query(f"CREATE ROLE {user} LOGIN PASSWORD 'an umbrella'; GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}")
    sink = PostgresSink("counts", server.uri.replace("//lakestate@", f"//{user}@"), schema=schema)
    with pytest.raises(SinkError, match=r"permission denied for table counts.*Grant"):
        write(sink, pa.table({"n": [1]}))
    query(f"GRANT INSERT ON {schema}.counts TO {user}; CREATE POLICY odd ON {schema}.counts WITH CHECK (n % 2 = 1)")
    write(sink, pa.table({"n": [1]}))
    with pytest.raises(Exception, match="row-level security"):
        write(sink, pa.table({"n": [2]}))
    assert query(f"SELECT n FROM {schema}.counts") == [(1,)]
