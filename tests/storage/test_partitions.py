"""Rows divided into the partitions of a Delta table: each in one, in their order, spelled as Delta's own writers do."""

import datetime
import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from state_engine.storage.partitions import can_partition, partitions_of

DAY = datetime.date(2026, 11, 30)


def test_each_row_is_in_one_partition_and_their_order_stays() -> None:
    draw = random.Random(1)
    rows = [
        {"n": n, "shop": draw.choice(["a", "b", None, "", "ü/%"]), "day": draw.choice([DAY, None]), "v": draw.random()}
        for n in range(500)
    ]
    kinds = [("n", pa.int64()), ("shop", pa.string()), ("day", pa.date32()), ("v", pa.float64())]
    table = pa.Table.from_pylist(rows, pa.schema(kinds))
    seen = []
    for part in partitions_of(table, ["day", "shop"]):
        assert part.rows.column_names == ["n", "v"]
        numbers = part.rows["n"].to_pylist()
        assert numbers == sorted(numbers)
        for number in numbers:
            expected = {"day": rows[number]["day"], "shop": rows[number]["shop"] or None}
            assert part.values == {name: value and str(value) for name, value in expected.items()}
        seen += numbers
        assert re.fullmatch(r"day=[\w-]+/shop=[\w.-]+", part.folder, re.ASCII)
    assert sorted(seen) == list(range(500))
    assert len(list(partitions_of(table, ["day", "shop"]))) == 2 * 4, "an empty text is null"


def test_without_rows_there_are_no_partitions() -> None:
    assert list(partitions_of(pa.table({"n": pa.array([], pa.int64()), "k": pa.array([], pa.string())}), ["k"])) == []


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["x y", "ü%/=", "a" * 200, None]),
        pa.array([-5, 0, 1 << 62, None], pa.int64()),
        pa.array([-5, 0, 127, None], pa.int8()),
        pa.array([True, False, None]),
        pa.array([DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
        pa.array(["a", "b", None]).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
def test_values_are_spelled_as_by_delta(values: "pa.Array[object]", tmp_path: Path) -> None:
    table = pa.table({"n": range(len(values)), "k": values})
    parts = list(partitions_of(table, ["k"]))
    plain = table.set_column(1, "k", values.dictionary_decode()) if pa.types.is_dictionary(values.type) else table
    write_deltalake(str(tmp_path), plain, partition_by=["k"])
    [log] = (tmp_path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    theirs = {one["add"]["partitionValues"]["k"] for one in actions if "add" in one}
    assert {part.values["k"] for part in parts} == theirs
    assert all(len(part.folder.encode()) < 200 for part in parts)


@pytest.mark.parametrize(
    ("kind", "fits"),
    [(pa.string(), True), (pa.date32(), True), (pa.bool_(), True), (pa.int32(), True), (pa.decimal128(5, 2), False),
     (pa.float64(), False), (pa.timestamp("us", "UTC"), False), (pa.binary(), False), (pa.list_(pa.int8()), False)],
)  # fmt: skip
def test_which_columns_divide_a_table(kind: pa.DataType, fits: bool) -> None:
    assert can_partition(kind) is fits
