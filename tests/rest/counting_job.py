"""A job for the runner, named `counting`: counts the records of each key in a folder of Parquet files."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import DeltaSink, StreamJob

COLUMNS = "n bigint, k string"


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.n, value.k, count


def build(spark: Any, root: str, options: Mapping[str, str]) -> StreamJob:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    job = StreamJob("counting", root=root, parallelism=2)
    source = spark.readStream.schema(COLUMNS).parquet(str(Path(root) / "in"))
    counted = (
        job.from_stream(source).key_by("k", order_by=["n"]).process(Count(), f"{COLUMNS}, times bigint", uid="count")
    )
    counted.sink_to(DeltaSink(str(Path(root) / "out")), uid="out")
    return job
