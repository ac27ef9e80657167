"""Upserts: which row of a key is there in the end, against a model in Python."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from postgres_rows import LOG, NAME, write

from state_engine.api.sinks import SinkMarker
from state_engine.errors import SinkError
from state_engine.spark import PostgresSink

pytestmark = pytest.mark.slow  # a server of PostgreSQL

Sinks = Callable[..., PostgresSink]
Query = Callable[..., list[Any]]
Row = dict[str, Any]


def expected(rows: Sequence[Row], keys: Sequence[str], version: str | None, *, op: bool) -> dict[tuple[Any, ...], Row]:
    """Returns the rows by key: row by row, as a table would be changed by hand."""
    table: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if op and row["op"] == "-U":
            continue
        before = table.get(key)
        if version is not None and before is not None and before[version] > row[version]:
            continue
        if op and row["op"] == "-D":
            table.pop(key, None)
        else:
            table[key] = {name: value for name, value in row.items() if name != "op"}
    return table


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("op", [False, True], ids=["rows", "changelog"])
@pytest.mark.parametrize("existing", [False, True], ids=["made", "existing"])
def test_the_last_row_of_a_key_is_there(
    sink_to: Sinks, query: Query, schema: str, seed: int, op: bool, existing: bool
) -> None:
    chance = random.Random(seed)
    keys = ["k", "part"] if seed % 2 else ["k"]
    if existing:
        query(f"CREATE TABLE {schema}.counts (n numeric, k varchar, part int, UNIQUE ({', '.join(keys)}))")
    epochs = []
    for _ in range(4):
        rows = [
            {
                "op": chance.choice(["+I", "-U", "+U", "-D"]),
                "k": chance.choice("abcd"),
                "part": chance.randrange(2),
                "n": chance.randrange(100),
            }
            for _ in range(chance.randrange(1, 30))
        ]
        epochs.append(rows if op else [{name: row[name] for name in row if name != "op"} for row in rows])
    cuts = [[pa.RecordBatch.from_pylist(rows[:9]), pa.RecordBatch.from_pylist(rows[9:] or rows[:0])] for rows in epochs]
    batches = [[batch for batch in cut if batch.num_rows] for cut in cuts]
    write(sink_to(mode="upsert", keys=keys, op="op" if op else None), *batches)
    wanted = expected([row for rows in epochs for row in rows], keys, None, op=op)
    found = query(f"SELECT k, part, n FROM {schema}.counts ORDER BY k, part, n")
    assert found == sorted((row["k"], row["part"], row["n"]) for row in wanted.values())


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_version_wins_whatever_the_order(sink_to: Sinks, query: Query, schema: str, seed: int) -> None:
    chance = random.Random(seed)
    rows = [{"k": chance.choice("abc"), "v": version, "n": chance.randrange(9)} for version in range(40)]
    chance.shuffle(rows)
    epochs = [pa.Table.from_pylist(rows[begin : begin + 13]) for begin in range(0, 40, 13)]
    write(sink_to(mode="upsert", keys=["k"], version_by="v"), *epochs)
    wanted = expected(rows, ["k"], "v", op=False)
    found = query(f"SELECT k, v, n FROM {schema}.counts ORDER BY k")
    assert found == sorted((row["k"], row["v"], row["n"]) for row in wanted.values())


@pytest.mark.parametrize("column", ["varchar(3)", "short"])
@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "keys": ["k"]}], ids=["append", "upsert"])
def test_a_text_that_is_too_long_is_refused_and_never_cut(
    sink_to: Sinks, query: Query, schema: str, column: str, options: dict[str, Any]
) -> None:
    query(f"CREATE DOMAIN {schema}.short AS varchar(3)")
    column = column.replace("short", f"{schema}.short")
    query(f"CREATE TABLE {schema}.counts (k {column} PRIMARY KEY, v {column}, n numeric)")
    write(sink_to(**options), pa.table({"k": ["abc"], "v": ["xyz"], "n": [1]}))
    for wrong in ({"k": ["abcd"], "v": ["x"], "n": [2]}, {"k": ["b"], "v": ["wxyz"], "n": [2]}):
        with pytest.raises(Exception, match=r"value too long for type character varying\(3\)"):
            write(sink_to(**options), pa.table(wrong))
    assert query(f"SELECT k, v, n FROM {schema}.counts") == [("abc", "xyz", 1)]


def test_a_null_in_a_key_is_refused_by_name_and_nothing_is_written(sink_to: Sinks, query: Query, schema: str) -> None:
    sink = sink_to(mode="upsert", keys=["k"])
    with pytest.raises(SinkError, match=r"has a null in its key \(k\)"):
        write(sink, pa.table({"k": ["a"], "n": [1]}), pa.table({"k": ["a", None], "n": [2, 3]}))
    assert query(f"SELECT k, n FROM {schema}.counts") == [("a", 1)]


@pytest.mark.parametrize("op", [None, "D", "-d"])
def test_an_op_that_is_none_is_refused_by_name_and_nothing_is_written(
    sink_to: Sinks, query: Query, schema: str, op: str | None
) -> None:
    rows = pa.table({"k": ["a", "b"], "n": [1, 2], "op": pa.array(["+I", op], pa.string())})
    with pytest.raises(SinkError, match="which is none of"):
        write(sink_to(mode="upsert", keys=["k"], op="op"), rows)
    assert query(f"SELECT * FROM {schema}.counts") == []


def test_keys_and_versions_are_compared_as_the_table_compares_them(sink_to: Sinks, query: Query, schema: str) -> None:
    first, second = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
    query(f"CREATE TABLE {schema}.counts (k uuid PRIMARY KEY, v uuid, n int)")
    low, high = "00000000-0000-0000-0000-000000000001", "F0000000-0000-0000-0000-000000000000"
    sink = sink_to(mode="upsert", keys=["k"], op="op", version_by="v")
    write(sink, pa.table({"k": [first, second], "v": [high, low], "n": [1, 2], "op": ["+I", "+U"]}))
    assert query(f"SELECT n FROM {schema}.counts") == [(1,)]
    write(sink, pa.table({"k": [first, second], "v": [high, high], "n": [3, 3], "op": ["+I", "-D"]}))
    assert query(f"SELECT n FROM {schema}.counts") == []


def test_a_note_that_cannot_be_written_does_not_stop_the_restore(
    sink_to: Sinks, query: Query, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    query(f"CREATE TABLE {schema}.lakestate_abandoned_counts (other int)")
    sink, rows = sink_to(mode="upsert", keys=["k"]), pa.table({"k": ["a"], "n": [1]})
    write(sink, rows)
    with closing(sink.connect(NAME, None)) as connection:
        assert connection.rewind(rows.to_batches(), SinkMarker(LOG, 1, 0), SinkMarker(LOG, 2, 0))
        assert connection.marker() == SinkMarker(LOG, 2, 0)
    assert "could not note which keys the restore abandons" in caplog.text


def test_a_table_without_a_unique_index_is_refused_before_anything_is_written(
    sink_to: Sinks, query: Query, schema: str
) -> None:
    query(f"CREATE TABLE {schema}.counts (k text, n bigint)")
    with pytest.raises(SinkError, match=r"no unique or exclusion constraint.*unique index of its keys"):
        write(sink_to(mode="upsert", keys=["k"]), pa.table({"k": ["a"], "n": [1]}))
    assert query("SELECT to_regclass(%s)", f"{schema}.lakestate_sinks") == [(None,)]


def test_other_columns_of_the_table_keep_their_values(sink_to: Sinks, query: Query, schema: str) -> None:
    query(f"CREATE TABLE {schema}.counts (k text PRIMARY KEY, n bigint, note text DEFAULT 'new')")
    query(f"INSERT INTO {schema}.counts VALUES ('a', 0, 'mine')")
    write(sink_to(mode="upsert", keys=["k"]), pa.table({"k": ["a", "b"], "n": [1, 2]}))
    assert query(f"SELECT k, n, note FROM {schema}.counts ORDER BY k") == [("a", 1, "mine"), ("b", 2, "new")]


def test_rows_of_keys_alone(sink_to: Sinks, query: Query, schema: str) -> None:
    write(sink_to(mode="upsert", keys=["k"]), pa.table({"k": ["a", "b", "a"]}), pa.table({"k": ["b", "c"]}))
    assert query(f"SELECT k FROM {schema}.counts ORDER BY k") == [("a",), ("b",), ("c",)]


def test_a_rewind_lists_each_key_that_was_abandoned(sink_to: Sinks, query: Query, schema: str) -> None:
    sink = sink_to(mode="upsert", keys=["k"])
    rows = pa.table({"k": ["a", "b", "a"], "n": [1, 2, 3]})
    write(sink, rows)
    with closing(sink.connect(NAME, None)) as connection:
        assert connection.rewind(rows.to_batches(), SinkMarker(LOG, 1, 0), SinkMarker(LOG, 2, 0))
        assert connection.rewind((), SinkMarker(LOG, 2, 0), SinkMarker(LOG, 3, 0))
        assert connection.rewind(rows.to_batches(), SinkMarker(LOG, 2, 0), SinkMarker(LOG, 4, 0)) is False
    names = "k, lakestate_job, lakestate_generation"
    assert query(f"SELECT {names} FROM {schema}.lakestate_abandoned_counts ORDER BY k") == [
        ("a", "job", 2), ("b", "job", 2),
    ]  # fmt: skip
    assert query(f"SELECT k, n FROM {schema}.counts ORDER BY k") == [("a", 3), ("b", 2)]


def test_a_rewind_of_a_sink_that_appends_lists_nothing(sink_to: Sinks, query: Query, schema: str) -> None:
    sink, rows = sink_to(), pa.table({"k": ["a"], "n": [1]})
    write(sink, rows)
    with closing(sink.connect(NAME, None)) as connection:
        assert connection.rewind(rows.to_batches(), SinkMarker(LOG, 1, 0), SinkMarker(LOG, 2, 0))
    assert query("SELECT to_regclass(%s)", f"{schema}.lakestate_abandoned_counts") == [(None,)]
