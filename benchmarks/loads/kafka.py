"""Workload `kafka`: an epoch of a million records of 100 bytes into a topic, next to the client's own loop.

Both send the same records in one transaction, from one core, in turn; the broker has the other core. `bare` has keys
and values in memory, as a loop of the client's documentation. The sink reads staged files, compares their checksums,
makes keys and values, and sends its marker. No Spark.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.loads.model import APPENDS, BARE, KAFKA, LoadReport, Way, in_turn, staged
from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName
from state_engine.spark import KafkaSink
from state_engine.storage.local import LocalStorage
from state_engine.storage.staged import StagedRows

ROWS = 1_000_000
_PARTITIONS = 4
_VALUE_BYTES = 90
_FIRST, _SECOND = SinkMarker(1, 1, 0), SinkMarker(1, 1, 1)


def measure(folder: Path, tell: Callable[[str], None], rows: int = ROWS, rounds: int = 3) -> LoadReport:
    """Returns a row for each way to write.

    Args:
        folder: Folder for staged files and the broker.
        tell: Called with lines of progress.
        rows: Records of an epoch.
        rounds: How many epochs each way sends; they take turns.
    """
    table = _rows(rows)
    epoch = StagedRows(LocalStorage(str(folder)), staged(folder, table))
    keys, values = (column.cast(pa.binary()).to_pylist() for column in table.columns)
    broker = KafkaBroker(folder / "broker", any_kafka_port())
    with _on_one_core(broker):
        bare, sink = _Bare(broker.servers, keys, values), _Writer(broker.servers, epoch)
        ways = {
            BARE: Way(bare.prepare, bare.write, lambda: _holds(broker.servers, bare.topic, rows)),
            APPENDS: Way(sink.prepare, sink.write, lambda: _holds(broker.servers, sink.topic, rows)),
        }
        return LoadReport(in_turn(KAFKA, ways, rows, rounds, tell), [])


class _Bare:
    """The client's own loop, in one transaction."""

    def __init__(self, servers: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        self._servers, self._keys, self._values = servers, keys, values
        self._producer: Producer
        self.topic = ""

    def prepare(self) -> None:
        self.topic = _new_topic(self._servers)
        settings = {"bootstrap.servers": self._servers, "transactional.id": "bare", "linger.ms": 20}
        self._producer = Producer({**settings, "partitioner": "murmur2_random"})
        self._producer.init_transactions()

    def write(self) -> None:
        producer, topic = self._producer, self.topic
        producer.begin_transaction()
        for key, value in zip(self._keys, self._values, strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.commit_transaction()


class _Writer:
    """The sink, and the epoch that it sends."""

    def __init__(self, servers: str, epoch: StagedRows) -> None:
        self._servers, self._epoch = servers, epoch
        self._connection: SinkConnection
        self.topic = ""

    def prepare(self) -> None:
        self.topic = _new_topic(self._servers)
        sink = KafkaSink(self._servers, self.topic, key="k", value="v", prefix=self.topic)
        self._connection = sink.connect(SinkName("job", "out"), None)
        self._connection.prepare()
        assert self._connection.commit((), None, _FIRST)

    def write(self) -> None:
        assert self._connection.commit(self._epoch, _FIRST, _SECOND)
        self._connection.close()


def _rows(count: int) -> pa.Table:
    """Returns records of 100 bytes: keys of 10, values of 90."""
    keys = [f"key-{n % 5_000:06}" for n in range(count)]
    values = [f"{n:012}-".ljust(_VALUE_BYTES, "abcdefghij"[n % 10]) for n in range(count)]
    return pa.table({"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.string())})


def _new_topic(servers: str) -> str:
    """Makes a topic."""
    topic = f"written-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result(60)
    return topic


def _holds(servers: str, topic: str, rows: int) -> bool:
    """Reads what was committed, and returns whether each record is there once."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
        left, seen, count = _PARTITIONS, set(), 0
        while left:
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    seen.add((message.value() or b"")[:12])
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    left -= 1
                else:
                    return False
        return count == len(seen) == rows
    finally:
        consumer.close()


@contextmanager
def _on_one_core(broker: KafkaBroker) -> Iterator[None]:
    """Runs the broker on one core, and this process on another one, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[1:2])  # the broker inherits it
    try:
        broker.start()
        os.sched_setaffinity(0, cores[:1])
        yield
    finally:
        os.sched_setaffinity(0, cores)
        broker.stop()


__all__ = ["ROWS", "measure"]
