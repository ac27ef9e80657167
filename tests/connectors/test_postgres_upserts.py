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


def test_a_null_in_a_key_is_refused_by_name_and_nothing_is_written(sink_to: Sinks, query: Query, schema: str) -> None:
    sink = sink_to(mode="upsert", keys=["k"])
    with pytest.raises(SinkError, match=r"has a null in its key \(k\)"):
        write(sink, pa.table({"k": ["a"], "n": [1]}), pa.table({"k": ["a", None], "n": [2, 3]}))
    assert query(f"SELECT k, n FROM {schema}.counts") == [("a", 1)]


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
