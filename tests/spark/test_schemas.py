"""Column types of a DataFrame, with any names of fields. No JVM."""

import pytest
from pyspark.sql import types as spark
from pyspark.sql.types import StructField

from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import UnsupportedTypeError
from state_engine.spark.wire.schemas import ddl_of, struct_of

STRANGE = ("$oid", "@id", "first name", "x:int,y", "a`b", "<", "größe", "1st")


def struct(*fields: tuple[str, spark.DataType]) -> spark.StructType:
    return spark.StructType([StructField(name, kind) for name, kind in fields])


@pytest.mark.parametrize("name", STRANGE)
def test_fields_at_any_depth_may_be_called_anything(name: str) -> None:
    inner = struct((name, spark.LongType()), ("plain", spark.DecimalType(5, 2)))
    columns = struct(
        (name, spark.StringType()),
        ("in_list", spark.ArrayType(inner)),
        ("in_map", spark.MapType(spark.StringType(), inner)),
        ("in_row", inner),
    )
    schema = struct_of(columns, "the source")
    assert schema.names == (name, "in_list", "in_map", "in_row")
    rows = schema.types[1].element, schema.types[2].value, schema.types[3]  # type: ignore[attr-defined]
    assert [row.names for row in rows] == [(name, "plain")] * 3
    assert [[kind.ddl() for kind in row.types] for row in rows] == [["bigint", "decimal(5,2)"]] * 3
    assert parse_columns_ddl(ddl_of(schema)) == schema


def test_a_type_that_no_operator_takes_is_named_by_its_column() -> None:
    columns = struct(("a", spark.ArrayType(struct(("first name", spark.VariantType())))))
    with pytest.raises(UnsupportedTypeError, match=r"Column 'a' of the source has the type .*variant"):
        struct_of(columns, "the source")
    with pytest.raises(UnsupportedTypeError, match="collate"):
        struct_of(struct(("a", spark.StringType("UTF8_LCASE"))), "the source")


@pytest.mark.parametrize(
    "kind",
    [
        spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType(), spark.FloatType(),
        spark.DoubleType(), spark.StringType(), spark.BinaryType(), spark.BooleanType(), spark.DateType(),
        spark.TimestampType(), spark.TimestampNTZType(),
    ],
)  # fmt: skip
def test_atoms_are_what_spark_calls_them(kind: spark.DataType) -> None:
    assert struct_of(struct(("a", kind)), "the source").types[0].ddl() == kind.simpleString()
