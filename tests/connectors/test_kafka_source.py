"""Starts of a job whose topic has lost what the job still needs: refused by name, and nothing is written."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka_job
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition
from pyspark import cloudpickle

from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.errors import SourcePositionLostError, SourceUnavailableError
from state_engine.spark import MemorySink, StreamJob
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(autouse=True, scope="module")
def functions_travel_by_value() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(kafka_job)
    yield
    cloudpickle.unregister_pickle_by_value(kafka_job)


class Topic:
    """A topic, and a job that counts its records."""

    def __init__(self, spark: Any, broker: KafkaBroker, name: str, root: Path) -> None:
        self._spark, self._broker, self._name, self._root = spark, broker, name, root
        self.admin = AdminClient({"bootstrap.servers": broker.servers})

    def make(self, partitions: int = 2) -> None:
        self.admin.create_topics([NewTopic(self._name, partitions)])[self._name].result(30)

    def delete(self) -> None:
        self.admin.delete_topics([self._name], operation_timeout=30)[self._name].result(30)

    def delete_records(self, partition: int, before: int) -> None:
        asked = TopicPartition(self._name, partition, before)
        for future in self.admin.delete_records([asked]).values():
            future.result(30)

    def send(self, *numbers: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self._broker.servers})
        for n in numbers:
            producer.produce(self._name, str(n), "k", partition)
        assert producer.flush(30) == 0

    def job(self, servers: str = "", **options: str) -> StreamJob:
        servers = servers or self._broker.servers
        read = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
        read |= {} if "subscribePattern" in options else {"subscribe": self._name}
        stream = self._spark.readStream.format("kafka").options(**{**read, **options}).load()
        rows = stream.selectExpr(
            "cast(key AS string) AS k",
            "cast(cast(value AS string) AS bigint) AS n",
            "partition AS part",
            "offset AS off",
        )
        job = StreamJob("from-kafka", root=str(self._root), parallelism=1)
        keyed = job.from_stream(rows).key_by("k", order_by=["part", "off"])
        counts = keyed.process(kafka_job.Count(), "k string, n bigint, c bigint", uid="count")
        counts.sink_to(MemorySink(self._name), uid="out")
        return job

    def run(self, **options: Any) -> list[int]:
        """Runs the job over the available input; returns the numbers that it has seen, in order."""
        client = self.job(**options).start(available_now=True)
        client.await_termination(60)
        return [row["n"] for row in MemorySink(self._name).rows()]

    def epochs(self) -> list[int]:
        return ManifestLog(open_storage(str(self._root), "from-kafka"), "from-kafka").epochs(1)


@pytest.fixture
def made(spark: Any, broker: KafkaBroker, topic: str, tmp_path: Path) -> Topic:
    made = Topic(spark, broker, topic, tmp_path / "root")
    made.make()
    made.send(1, 2, 3)
    return made


def refused(made: Topic, said: str, **options: str) -> None:
    before = made.epochs()
    with pytest.raises(SourcePositionLostError, match=said):
        made.job(**options).start(available_now=True)
    assert made.epochs() == before, "a start that was refused has written nothing"


def test_a_topic_that_goes_on_and_has_more_partitions(made: Topic) -> None:
    assert made.run() == [1, 2, 3]
    from confluent_kafka.cimpl import NewPartitions

    for future in made.admin.create_partitions([NewPartitions(made._name, 3)]).values():
        future.result(30)
    made.send(4, partition=2)
    assert made.run() == [1, 2, 3, 4]


def test_a_topic_that_is_gone_or_was_made_anew(made: Topic) -> None:
    made.run()
    made.delete()
    refused(made, "does not exist")
    made.make()
    made.send(*range(10, 20))
    refused(made, "was made anew")
    refused(made, "was made anew", failOnDataLoss="false")


def test_records_that_retention_has_deleted_unread(made: Topic) -> None:
    made.run()
    made.send(4, 5, 6)
    made.delete_records(0, 5)
    refused(made, r"begins at offset 5: 2 records from 3 on that the job has not read were deleted")
    assert made.run(failOnDataLoss="false") == [1, 2, 3, 6]


def test_a_restore_of_an_epoch_whose_records_are_deleted(made: Topic) -> None:
    made.run()
    first = made.epochs()[-1]
    made.send(4, 5, 6)
    made.run()
    made.delete_records(0, 5)
    before = made.epochs()
    with pytest.raises(SourcePositionLostError, match="begins at offset 5"):
        made.job().start(available_now=True, restore=f"epoch:1/{first}", keep_output=True)
    assert made.epochs() == before
    assert made.run() == [1, 2, 3, 4, 5, 6], "its newest epoch has read them"


def test_brokers_that_do_not_answer_are_named(made: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_engine.spark.driver.kafka_topics._TIMEOUT_MS", 2_000)
    made.run()
    before, nobody = made.epochs(), f"127.0.0.1:{any_kafka_port()}"
    with pytest.raises(
        SourceUnavailableError, match=f"The Kafka brokers {nobody} did not answer about.*TimeoutException"
    ):
        made.job(nobody).start(available_now=True)
    assert made.epochs() == before


def test_a_topic_of_a_pattern_that_was_made_anew(made: Topic) -> None:
    pattern = {"subscribePattern": made._name[:-1] + ".*"}
    made.run(**pattern)
    made.delete()
    made.make()
    made.send(*range(10, 20))
    refused(made, "was made anew", **pattern)


def test_lag_of_a_running_job(made: Topic) -> None:
    made.send(*range(4, 30))
    client = made.job(maxOffsetsPerTrigger="5").start()
    try:
        seen: list[int] = []
        until = time.monotonic() + 60
        while not seen or seen[-1]:
            assert time.monotonic() < until, seen
            [lag] = client.source_lags()
            assert lag.name == "source"
            if lag.records is not None and seen[-1:] != [lag.records]:
                seen.append(lag.records)
            time.sleep(0.02)
        assert seen == sorted(seen, reverse=True)
        assert set(seen) <= {24, 19, 14, 9, 4, 0}
        assert len(seen) > 1
    finally:
        client.stop()


def test_the_manifest_has_the_ids_of_topics_and_no_secret(made: Topic) -> None:
    made.run(**{"kafka.sasl.jaas.config": "", "kafka.ssl.key.password": "hush"})
    newest = ManifestLog(open_storage(str(made._root), "from-kafka"), "from-kafka").newest(1)
    assert newest is not None
    [source] = newest.manifest.fingerprints
    assert list(source.ids) == [made._name]
    assert len(source.ids[made._name]) == 22
    assert json.loads(newest.manifest.sources[0].offset) == {made._name: {"0": 3, "1": 0}}
    for file in made._root.rglob("*"):
        assert not file.is_file() or b"hush" not in file.read_bytes()
