"""Brokers that crash, drivers that fence each other, epochs that take too long: each epoch is read once."""

import json
import signal
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka_reader import read_topic
from whole_job import BATCH, WholeJob, ended_at

from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.connectors.kafka import connection as connections
from state_engine.connectors.kafka import marker_topic
from state_engine.connectors.kafka.errors import KafkaSinkError
from state_engine.connectors.kafka.marker_topic import KEY, encoded, topic_of, transactional_id
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import FencedError, SinkAheadError, SinkError, SinkRewindError
from state_engine.savepoint.restore import JobRestore
from state_engine.spark import KafkaSink
from state_engine.spark.graph.nodes import SinkNode
from state_engine.spark.sinks.recorded import RecordedSinks

pytestmark = pytest.mark.slow
NAME = SinkName("job", "out")
LOG = 5
FIRST, SECOND, THIRD = (SinkMarker(LOG, 1, epoch) for epoch in range(3))
POINTS = [CrashPoint.E6_SEALED, CrashPoint.E7_BEFORE_SINK_COMMIT, CrashPoint.E8_BEFORE_RETURN]


class KafkaJob(WholeJob):
    """A job with one sink in Kafka."""

    def __init__(self, folder: Path, servers: str, topic: str, **options: Any) -> None:
        super().__init__(folder)
        self.sink = KafkaSink(servers, topic, prefix=topic, **options)

    def sinks(self) -> list[SinkNode]:
        return [SinkNode("out", "main", self.sink)]


@pytest.fixture
def job(tmp_path: Path, broker: KafkaBroker, topic: str) -> KafkaJob:
    return KafkaJob(tmp_path, broker.servers, topic)


@pytest.fixture
def numbers_in(broker: KafkaBroker, topic: str) -> Callable[[], list[int]]:
    return lambda: sorted(json.loads(one.value())["n"] for one in read_topic(broker.servers, topic))


def numbers(batches: int) -> list[int]:
    return list(range(batches * BATCH))


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": pa.array([n])}) for n in values]


@pytest.mark.parametrize(
    "point",
    [CrashPoint.E7_SINK_COMMITTED, *(pytest.param(point, marks=pytest.mark.long) for point in POINTS)],
    ids=lambda point: point.name,
)
def test_a_driver_that_dies_loses_and_doubles_nothing(
    job: KafkaJob, numbers_in: Callable[[], list[int]], point: CrashPoint
) -> None:
    for epoch in (2, 4):
        ended_at(job, point, epoch, lambda driver: driver.steps(4))
    driver = job.start().steps(2)
    found = numbers_in()
    assert found == numbers(len(found) // BATCH)
    assert len(found) == driver.offset


def test_of_two_drivers_the_older_one_ends_and_the_newer_one_goes_on(
    job: KafkaJob, numbers_in: Callable[[], list[int]]
) -> None:
    old = job.start().steps(2)
    new = job.start().steps(1)
    with pytest.raises(FencedError):
        old.step()
    sealed = job.log().read(1, 3)
    old.sinks.commit(sealed)  # it has the marker in mind that it committed, and does nothing
    old.sinks.close()
    with pytest.raises(FencedError, match="has taken over after epoch 3"):
        old.sinks.commit(sealed)
    new.steps(1)
    assert numbers_in() == numbers(4)


def test_a_driver_that_kafka_has_fenced_and_that_owns_the_job_goes_on(
    job: KafkaJob, numbers_in: Callable[[], list[int]]
) -> None:
    driver = job.start().steps(1)
    with closing(job.sink.connect(NAME, None)) as stranger:  # an old driver that comes last
        assert stranger.commit((), FIRST, SECOND) is False
    driver.steps(2)
    assert numbers_in() == numbers(3)


def test_a_look_at_the_marker_fences_nobody(job: KafkaJob, numbers_in: Callable[[], list[int]]) -> None:
    driver = job.start().steps(1)
    producer = driver.sinks._exact["out"]._connection._producer  # type: ignore[union-attr]
    with closing(job.sink.connect(NAME, None)) as other:
        other.check()
        assert other.marker() is not None
    driver.steps(1)
    assert driver.sinks._exact["out"]._connection._producer is producer  # type: ignore[union-attr]
    assert numbers_in() == numbers(2)


def test_the_open_transaction_of_a_dead_driver_is_ended_by_the_next_one(
    job: KafkaJob, broker: KafkaBroker, topic: str, numbers_in: Callable[[], list[int]]
) -> None:
    job.start().steps(1)

    dead = Producer({"bootstrap.servers": broker.servers, "transactional.id": transactional_id(topic, NAME)})
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(topic, json.dumps({"n": 100}))
    dead.flush()
    assert len(read_topic(broker.servers, topic, isolation="read_uncommitted")) == BATCH + 1
    driver = job.start().steps(1)
    assert numbers_in() == numbers(2)
    assert driver.offset == 2 * BATCH


def test_output_that_would_be_abandoned_needs_keep_output(job: KafkaJob, numbers_in: Callable[[], list[int]]) -> None:
    job.start().steps(3)
    with pytest.raises(SinkRewindError, match="Kafka topic"):
        job.start(restore=job.log().read(1, 2))
    JobRestore(job.root, job.name, "epoch:1/2", RecordedSinks, keep_output=True, validate=False).run()
    job.start().steps(2)
    assert numbers_in() == sorted([*numbers(3), *numbers(3)[BATCH:]])


def test_markers_that_are_gone_are_refused(job: KafkaJob, broker: KafkaBroker, topic: str) -> None:
    job.start().steps(2).sinks.close()
    markers = topic_of(topic, NAME)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.delete_topics([markers])[markers].result(30)
    with pytest.raises(SinkAheadError, match="has no marker of this sink"):
        job.start()
    job.start(adopt_sinks=True).steps(1)


def test_the_marker_is_found_behind_many_aborted_ones(job: KafkaJob, broker: KafkaBroker, topic: str) -> None:
    with closing(job.sink.connect(NAME, None)) as connection:
        connection.prepare()
        assert connection.commit((), None, FIRST)
        assert connection.commit(rows(1), FIRST, SECOND)
    aborts = Producer({"bootstrap.servers": broker.servers, "transactional.id": transactional_id(topic, NAME)})
    aborts.init_transactions()
    for _ in range(20):
        aborts.begin_transaction()
        aborts.produce(topic_of(topic, NAME), encoded(THIRD), KEY)
        aborts.flush()
        aborts.abort_transaction()
    with closing(job.sink.connect(NAME, None)) as other:
        assert other.marker() == SECOND


def test_a_topic_of_markers_that_loses_them_is_refused(job: KafkaJob, broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    markers = topic_of(topic, NAME)
    for partitions, policy in ((2, "compact"), (1, "delete")):
        admin.create_topics([NewTopic(markers, partitions, config={"cleanup.policy": policy})])[markers].result(30)
        with pytest.raises(SinkError, match=f"has {partitions} partitions and cleanup.policy={policy}"):
            job.start()
        admin.delete_topics([markers], operation_timeout=30)[markers].result(30)
    job.start().steps(1)
    job.start().steps(1)


def test_records_and_marker_are_one_transaction(
    job: KafkaJob, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(job.sink.connect(NAME, None)) as connection:
        connection.prepare()
        assert connection.commit((), None, FIRST)
        monkeypatch.setattr(marker_topic, "encoded", lambda marker: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            connection.commit(rows(1), FIRST, SECOND)
    assert read_topic(broker.servers, topic) == []


def test_older_drivers_are_fenced_before_the_marker_is_read(
    job: KafkaJob, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = job.sink.connect(NAME, None), job.sink.connect(NAME, None)
    old.prepare()
    assert old.commit((), None, FIRST)
    read = connections.KafkaConnection._read

    def read_while_the_old_driver_commits(connection: Any) -> SinkMarker | None:
        marker = read(connection)
        with suppress(KafkaSinkError):
            old.commit(rows(1), FIRST, SECOND)
        return marker

    monkeypatch.setattr(connections.KafkaConnection, "_read", read_while_the_old_driver_commits)
    assert new.commit(rows(2), FIRST, SECOND)
    assert [json.loads(one.value())["n"] for one in read_topic(broker.servers, topic)] == [2]


def test_an_epoch_that_takes_too_long_is_named_and_leaves_nothing(
    tmp_path: Path, broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = KafkaSink(broker.servers, topic, prefix=topic, options={"transaction.timeout.ms": 1000})
    monkeypatch.setattr(connections, "_SHARE", 0.0001)
    with closing(sink.connect(NAME, None)) as connection:
        connection.prepare()
        assert connection.commit((), None, FIRST)
        with pytest.raises(SinkError, match=r"takes longer to send to Kafka than transaction.timeout.ms allows, 1 s"):
            connection.commit(rows(*range(50)), FIRST, SECOND)
        monkeypatch.setattr(connections, "_SHARE", 0.8)
        assert connection.commit(rows(7), FIRST, SECOND)
        monkeypatch.setattr(connections, "_TELLING", 1)
        assert connection.commit(rows(8), SECOND, SECOND._replace(generation=2))

        class Many(list[pa.RecordBatch]):
            num_rows = 10**9

        with pytest.raises(SinkError, match="An epoch of 1,000,000,000 records would take about"):
            connection.commit(Many(), SECOND._replace(generation=2), THIRD)
    assert sorted(json.loads(one.value())["n"] for one in read_topic(broker.servers, topic)) == [7, 8]


def test_a_broker_that_is_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SECONDS", 1.0)
    job = KafkaJob(tmp_path, f"127.0.0.1:{any_kafka_port()}", "nowhere")
    with pytest.raises(SinkError, match=r"cannot check the Kafka topic 127.*_TRANSPORT.*Connection refused"):
        job.start()
    assert not list(Path(job.root).rglob("*.json"))


@pytest.mark.long
def test_a_broker_that_crashes_and_starts_again_loses_and_doubles_nothing(tmp_path: Path, topic: str) -> None:
    broker = KafkaBroker(tmp_path / "kafka", any_kafka_port())
    broker.start()
    try:
        job = KafkaJob(tmp_path, broker.servers, topic)
        driver = job.start().steps(1)
        for how in (signal.SIGKILL, signal.SIGTERM):
            broker.stop(how)
            again = threading.Timer(1.0, broker.start)
            again.start()
            driver.steps(1)
            again.join()
        found = sorted(json.loads(one.value())["n"] for one in read_topic(broker.servers, topic))
        assert found == numbers(3)
    finally:
        broker.stop()
