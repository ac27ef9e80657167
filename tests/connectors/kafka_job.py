"""A job from Kafka to Kafka in a process of its own, which tests kill:  kafka_job.py FOLDER SERVERS EPOCH [spark]

It counts how often each key of the topic `in` came, and sends each count to `out`. With `spark` it copies the records
by Spark's own sink to `copied`: at least once.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import KafkaSink, StreamJob, local_session

NAME = "from-kafka"


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.k, value.n, count


def records(spark: Any, servers: str, epoch: str) -> Any:
    """Returns the records of the topic `in`; an epoch reads at most `epoch` of them."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": "in", "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=epoch).load()
    key, number = "cast(key AS string) AS k", "cast(cast(value AS string) AS bigint) AS n"
    return stream.selectExpr(key, number, "partition AS part", "offset AS off")


def count_job(spark: Any, folder: Path, servers: str, epoch: str) -> StreamJob:
    job = StreamJob(NAME, root=str(folder / "root"), parallelism=2)
    keyed = job.from_stream(records(spark, servers, epoch)).key_by("k", order_by=["part", "off"])
    counts = keyed.process(Count(), "k string, n bigint, c bigint", uid="count")
    counts.sink_to(KafkaSink(servers, "out", key="k"), uid="out")
    return job


def copy_by_spark(spark: Any, folder: Path, servers: str, epoch: str) -> None:
    rows = records(spark, servers, epoch).selectExpr("k AS key", "cast(n AS string) AS value")
    options = {"kafka.bootstrap.servers": servers, "topic": "copied", "checkpointLocation": str(folder / "spark")}
    rows.writeStream.format("kafka").options(**options).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    folder, servers, epoch, *others = sys.argv[1:]
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = local_session("kafka-job", memory="1g", connectors=["kafka"])
    if others:
        copy_by_spark(spark, Path(folder), servers, epoch)
    else:
        count_job(spark, Path(folder), servers, epoch).start(available_now=True).await_termination()


if __name__ == "__main__":
    main()
