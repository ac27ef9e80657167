"""Real processes from Kafka to Kafka, killed again and again: another reader counts every record once, in order."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import kafka_job
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka_reader import read_topic

from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.spark.worker.kill_at import CRASH_AT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = Path(kafka_job.__file__)
POINTS = ["E5_OUTPUT_STAGED", "E5_ACKED", "E6_ACKS_HELD", "E6_BEFORE_PUT", "E6_SEALED", "E7_BEFORE_SINK_COMMIT"]
POINTS += ["E7_SINK_COMMITTED", "E7_COMMITTED", "E8_BEFORE_RETURN"]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path / "kafka", any_kafka_port())
    broker.start()
    yield broker
    broker.stop()


def write_input(servers: str, records: int, keys: int) -> None:
    """Fills the topic `in`: record n has the key of n, and value n; each key is in one partition, in order of n."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("in", 3), NewTopic("out", 4), NewTopic("copied", 4)])["in"].result(30)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    for n in range(records):
        while True:
            try:
                producer.produce("in", str(n), f"k{n * 7919 % keys}")
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def begin(folder: Path, servers: str, epoch: int, *others: str, crash_at: str | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ} | ({CRASH_AT: crash_at} if crash_at else {})
    command = [sys.executable, str(SCRIPT), str(folder), servers, str(epoch), *others]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)


def ended(process: subprocess.Popen[str], folder: Path, code: int) -> None:
    process.wait(300)
    assert process.returncode == code, (folder / "log").read_text()[-4000:]


def check(servers: str, records: int, keys: int) -> None:
    """Reads the output, and compares it with the definition of the input."""
    found: dict[str, list[tuple[int, int]]] = {}
    for message in read_topic(servers, "out"):
        row = json.loads(message.value())
        found.setdefault(message.key().decode(), []).append((row["n"], row["c"]))
    assert sum(map(len, found.values())) == records
    wanted: dict[str, list[int]] = {}
    for n in range(records):
        wanted.setdefault(f"k{n * 7919 % keys}", []).append(n)
    assert found == {key: [(n, place + 1) for place, n in enumerate(numbers)] for key, numbers in wanted.items()}


# Without a JVM: test_kafka_sessions.py::test_a_driver_that_dies_loses_and_doubles_nothing.
@pytest.mark.long
def test_a_job_that_is_killed_after_its_output_was_sent(own_broker: KafkaBroker, tmp_path: Path) -> None:
    write_input(own_broker.servers, 1_000, 30)
    killed = begin(tmp_path, own_broker.servers, 300, crash_at="E7_SINK_COMMITTED@3")
    ended(killed, tmp_path, -signal.SIGKILL)
    ended(begin(tmp_path, own_broker.servers, 300), tmp_path, 0)
    check(own_broker.servers, 1_000, 30)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_million_records_twenty_kills_and_two_stops_of_the_broker(own_broker: KafkaBroker, tmp_path: Path) -> None:
    records, keys, epoch, chance = 1_000_000, 1_000, 10_000, random.Random()
    servers = own_broker.servers
    write_input(servers, records, keys)
    sealed = tmp_path / "root" / kafka_job.NAME / "_epochs" / "g000001"

    def epochs() -> int:
        return len(list(sealed.glob("e*.json")))

    for kill in range(20):
        process, before = begin(tmp_path, servers, epoch), epochs()
        while epochs() < before + 2 and process.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.random() * 0.5)
        if kill in (6, 13):
            own_broker.stop(signal.SIGKILL if kill == 6 else signal.SIGTERM)
            threading.Timer(2.0, own_broker.start).start()
            time.sleep(chance.random() * 12)
        process.send_signal(signal.SIGKILL)
        ended(process, tmp_path, -signal.SIGKILL)
        while not own_broker.listens:
            time.sleep(0.1)
    for point in POINTS:
        newest = int(max(path.stem for path in sealed.glob("e*.json"))[1:])
        crash_at = f"{point}@{newest + 2}"  # after its claim
        ended(begin(tmp_path, servers, epoch, crash_at=crash_at), tmp_path, -signal.SIGKILL)
    ended(begin(tmp_path, servers, epoch), tmp_path, 0)
    check(servers, records, keys)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_sparks_own_sink_doubles_records_under_the_same_kills(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """It shows that a test like the one above can fail."""
    servers, records = own_broker.servers, 200_000
    write_input(servers, records, 1_000)
    chance = random.Random()
    for _ in range(10):
        process, before = begin(tmp_path, servers, 20_000, "spark"), len(read_topic(servers, "copied"))
        while len(read_topic(servers, "copied")) < before + 1_000 and process.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    ended(begin(tmp_path, servers, 20_000, "spark"), tmp_path, 0)
    times = Counter(message.value() for message in read_topic(servers, "copied"))
    assert len(times) == records
    doubled = sum(number - 1 for number in times.values())
    print(f"Spark's own sink sent {doubled:,} of {records:,} records more than once")
    assert doubled > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_stood_still_for_longer_than_offsets_are_kept(tmp_path: Path) -> None:
    settings = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
    broker = KafkaBroker(tmp_path / "kafka", any_kafka_port(), settings)
    broker.start()
    try:
        write_input(broker.servers, 600, 30)
        ended(begin(tmp_path, broker.servers, 300, crash_at="E7_SINK_COMMITTED@3"), tmp_path, -signal.SIGKILL)
        wait_until_offsets_expire(broker.servers)
        ended(begin(tmp_path, broker.servers, 300), tmp_path, 0)
        check(broker.servers, 600, 30)
    finally:
        broker.stop()


def wait_until_offsets_expire(servers: str) -> None:
    """Commits the offset of a group without members, as a sink might keep its marker, and waits until it is gone."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "marker"})
    try:
        consumer.commit(offsets=[TopicPartition("in", 0, 5)], asynchronous=False)
        until = time.monotonic() + 600
        while consumer.committed([TopicPartition("in", 0)], timeout=30)[0].offset == 5:
            assert time.monotonic() < until, "the offset did not expire"
            time.sleep(1)
    finally:
        consumer.close()
