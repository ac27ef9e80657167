"""Workload `kafka_source`: a running count over a topic of Kafka, next to the same records in Parquet files.

`pass` hands the records through Spark without a function or state. So the difference between its two forms is what
Kafka costs alone; the job may cost hardly more beyond the same job over files. Key and value are the columns as texts,
which the stream casts. The broker is a process on the same machine, so it takes a part of the two cores.
"""

import atexit
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import Longs, write_epoch
from benchmarks.forms.counting import OUTPUT, PARTS, batches_per_second, counts_of, has_counts, input_of, run_job
from benchmarks.forms.model import FormCase
from benchmarks.latency.functions import Count
from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.spark import DiscardingSink, StreamJob

_TOPIC = "records"
_AT_ONCE = 50_000


class KafkaSource:
    """Writes the same records into files and into a topic, and runs a form over one of them."""

    def __init__(self, case: FormCase) -> None:
        self._case = case
        self._work = Path(case.work)
        self._broker = KafkaBroker(self._work / "broker", any_kafka_port())
        self._broker.start()
        atexit.register(self._broker.stop)
        self.counts = self._written()
        self._passed: dict[str, int] = {}

    def run(self, spark: SparkSession, form: str, name: str) -> float:
        """See `child.Stream`."""
        through, source = form.split("/")
        records = input_of(spark, self._work / "in") if source == "parquet" else self._topic(spark)
        if through == "pass":
            return self._pass(records, name)
        job = StreamJob(name, root=str(self._work / "root"), parallelism=2, max_parallelism=128)
        counts = job.from_stream(records).key_by("k").process(Count(), OUTPUT, uid="count")
        counts.sink_to(DiscardingSink(), uid="out")
        client = run_job(job)
        assert client.query is not None
        return batches_per_second(client.query)

    def is_right(self, form: str, name: str) -> bool:
        """See `child.Stream`."""
        if form.startswith("pass"):
            return self._passed[name] == self._case.epoch * self._case.epochs
        return has_counts(self._work / "root", name, self.counts)

    def _pass(self, records: DataFrame, name: str) -> float:
        writer = records.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._work / "root" / name)).start()
        query.awaitTermination()
        self._passed[name] = sum(int(one["numInputRows"]) for one in query.recentProgress)
        return batches_per_second(query)

    def _topic(self, spark: SparkSession) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self._broker.servers,
            "subscribe": _TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self._case.epoch),
        }
        records = spark.readStream.format("kafka").options(**options).load()
        return records.selectExpr(
            "cast(cast(key AS string) AS bigint) AS k", "cast(cast(value AS string) AS bigint) AS file"
        )

    def _written(self) -> Longs:
        case, dice, counts = self._case, np.random.default_rng(1), np.zeros(self._case.keys, np.int64)
        admin = AdminClient({"bootstrap.servers": self._broker.servers})
        admin.create_topics([NewTopic(_TOPIC, PARTS)])[_TOPIC].result(60)
        producer = Producer({"bootstrap.servers": self._broker.servers, "linger.ms": 20})
        for epoch in range(case.epochs):
            keys = dice.integers(0, case.keys, case.epoch)
            counts += counts_of(keys, case.keys)
            columns = {"k": pa.array(keys), "file": pa.array(np.full(case.epoch, epoch))}
            write_epoch(self._work / "in", epoch, pa.table(columns), PARTS)
            for number, key in enumerate(keys.tolist()):
                producer.produce(_TOPIC, str(epoch), str(key), key % PARTS)
                if number % _AT_ONCE == 0:
                    producer.flush(60)
        assert producer.flush(60) == 0
        return counts


__all__ = ["KafkaSource"]
