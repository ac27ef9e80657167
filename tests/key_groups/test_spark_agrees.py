"""Spark's `xxhash64` and `pmod` on many random keys, and on the golden ones."""

import datetime
import decimal
import random
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from state_engine.api.type_hints import parse_ddl
from state_engine.key_groups import key_group_of, key_hasher
from state_engine.serialization.convert import writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500
MOMENT = datetime.datetime(1, 1, 2)
SPAN = int((datetime.datetime(9999, 12, 30) - MOMENT).total_seconds())
ALPHABETS = [65, 233, 0x6771, 0x1F680]
PLACES: dict[str, tuple[int, int]] = {"decimal(18,6)": (18, 6), "decimal(38,10)": (38, 10)}


def _moment(chance: random.Random) -> datetime.datetime:
    return MOMENT + datetime.timedelta(seconds=chance.randrange(SPAN), microseconds=chance.randrange(1_000_000))


def _decimal(chance: random.Random, digits: int, scale: int) -> decimal.Decimal:
    unscaled = chance.randrange(-(10 ** chance.randint(1, digits)) + 1, 10 ** chance.randint(1, digits))
    return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=77))


RANDOM: dict[str, Callable[[random.Random], Any]] = {
    "tinyint": lambda c: c.randrange(-128, 128),
    "smallint": lambda c: c.randrange(-(1 << 15), 1 << 15),
    "int": lambda c: c.randrange(-(1 << 31), 1 << 31),
    "bigint": lambda c: c.randrange(-(1 << 63), 1 << 63),
    "boolean": lambda c: c.random() < 0.5,
    "string": lambda c: "".join(chr(c.choice(ALPHABETS) + c.randrange(20)) for _ in range(c.randrange(40))),
    "binary": lambda c: c.randbytes(c.randrange(100)),
    "date": lambda c: _moment(c).date(),
    "timestamp": lambda c: _moment(c).replace(tzinfo=datetime.UTC),
    "timestamp_ntz": _moment,
    **{ddl: (lambda c, places=places: _decimal(c, *places)) for ddl, places in PLACES.items()},
}
COMBINATIONS = [*((ddl,) for ddl in RANDOM), ("string", "bigint"), ("date", "boolean", "binary"), tuple(RANDOM)]


def spark_hashes(
    spark: "SparkSession", types: Sequence[str], rows: Sequence[Sequence[Any]], max_parallelism: int
) -> list[tuple[int, int]]:
    """Returns hash and key group of each row, in order."""
    names = [f"k{i}" for i in range(len(types))]
    columns = [writer(parse_ddl(ddl))(list(column)) for ddl, column in zip(types, zip(*rows, strict=True), strict=True)]
    table = pa.table([*columns, pa.array(range(len(rows)))], names=[*names, "row"])
    hashed = f"xxhash64({', '.join(names)})"
    hashes = spark.createDataFrame(table).selectExpr("row", f"{hashed} h", f"pmod({hashed}, {max_parallelism}) g")
    return [(row.h, row.g) for row in sorted(hashes.collect(), key=lambda row: row.row)]


@pytest.mark.spark
@pytest.mark.parametrize("types", COMBINATIONS, ids="-".join)
def test_random_keys(spark: "SparkSession", types: tuple[str, ...]) -> None:
    chance = random.Random(" ".join(types))
    rows = [tuple(None if chance.random() < 0.1 else RANDOM[t](chance) for t in types) for _ in range(ROWS)]
    hash_key = key_hasher(types)
    assert spark_hashes(spark, types, rows, 13) == [(hash_key(row), key_group_of(row, types, 13)) for row in rows]


@pytest.mark.spark
def test_the_golden_file_is_what_spark_computes(spark: "SparkSession", vectors: list[Any]) -> None:
    for types, group in groupby(vectors, key=lambda v: v.types):
        listed = list(group)
        hashes = spark_hashes(spark, types, [v.values for v in listed], 128)
        assert hashes == [(v.hash, v.hash % 128) for v in listed]
