"""Both Parquet readers of Spark read state tables that store integers as differences."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from state_engine.storage.open import open_root
from state_engine.storage.parquet import write_parquet

pytestmark = pytest.mark.spark

ROWS = 40_000


@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_spark_reads_packed_columns(spark: SparkSession, tmp_path: Path, vectorised: str) -> None:
    mixed = np.random.default_rng(1).permutation(ROWS)
    table = pa.table(
        {
            "key_group": pa.array(np.sort(mixed % 128), pa.int32()),
            "k": pa.array(mixed, pa.int64(), mask=mixed == 7),
            "number": pa.array(-mixed, pa.int32()),
            "seq": pa.array(range(ROWS), pa.int64()),
            "day": pa.array(mixed.astype(np.int32), pa.date32()),
            "at": pa.array(mixed, pa.timestamp("us", "UTC")),
        }
    )
    write_parquet(open_root(str(tmp_path)), "f.parquet", table)
    group = pq.ParquetFile(tmp_path / "f.parquet").metadata.row_group(0)
    assert [at for at in range(6) if "DELTA_BINARY_PACKED" in group.column(at).encodings] == [1, 2, 3, 4, 5]

    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
    try:
        read = spark.read.parquet(str(tmp_path / "f.parquet")).orderBy("seq").toArrow()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")

    assert read.cast(table.schema).equals(table)
