"""A connection to Kafka: the marker, and the transaction that sends it together with an epoch's records."""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName
from state_engine.connectors.kafka import marker_topic
from state_engine.connectors.kafka.errors import KafkaSinkError, plainly
from state_engine.connectors.kafka.record_columns import RecordColumns
from state_engine.connectors.kafka.records import Headers, check_columns, records_of
from state_engine.connectors.kafka.settings import client_settings
from state_engine.errors import SinkError
from state_engine.extras import from_extra

with from_extra("kafka"):
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

_SECONDS = 30.0
_TIMEOUT_MS = "transaction.timeout.ms"
_DEFAULT_TIMEOUT_MS = 300_000
_TELLING = 50_000
"""From how many records on an epoch shows how fast the sink is; in a small one most of the time is the commit's."""
_SHARE = 0.8
"""How much of the transaction's time an epoch may take, so that its commit has time left."""
_RAISE = (
    f"Set {_TIMEOUT_MS} in the sink's options to more (and the broker's transaction.max.timeout.ms), and start again. "
    "Or limit the epochs (maxOffsetsPerTrigger), and restore the epoch before with keep_output=True."
)


class KafkaConnection(SinkConnection):
    """A connection for one sink.

    The first commit initialises transactions, which fences older drivers and ends their open transaction, and only then
    reads the marker. From then on no other driver can commit, so the marker is that of the last commit.

    Args:
        servers: The brokers.
        topic: The topic.
        parts: Which column is which part of a record.
        settings: Further settings.
        prefix: Beginning of the names of the topic with the markers and of the transactional id.
        name: Job and sink.
        columns: Columns of the rows, if they are known.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        parts: RecordColumns,
        settings: dict[str, str],
        prefix: str,
        name: SinkName,
        columns: pa.Schema | None,
    ) -> None:
        self._topic = topic
        self._parts = parts
        self._columns = columns
        self._heard: list[str] = []
        self._settings: dict[str, Any] = {
            **client_settings(servers, settings),
            "error_cb": lambda error: self._heard.append(error.str()),
            "logger": _silent,
        }
        self._prefix = prefix
        self._markers = marker_topic.topic_of(prefix, name)
        self._transactional_id = marker_topic.transactional_id(prefix, name)
        self._timeout_s = int(self._settings.setdefault(_TIMEOUT_MS, str(_DEFAULT_TIMEOUT_MS))) / 1000
        self._producer: Producer | None = None
        self._marker: SinkMarker | None = None
        self._records_per_second = 0.0

    def marker(self) -> SinkMarker | None:
        if self._producer is not None:
            return self._marker
        with plainly(self._heard):
            return self._read()

    def check(self) -> None:
        if self._columns is not None:
            check_columns(self._columns, self._parts)
        with plainly(self._heard):
            if self._markers in self._topics():
                marker_topic.check_topic(AdminClient(self._client_settings()), self._markers)

    def prepare(self) -> None:
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "600000"}
        with plainly(self._heard):
            admin, known = AdminClient(self._client_settings()), self._topics()
            wanted = [
                NewTopic(self._markers, num_partitions=1, replication_factor=-1, config=compacted),
                NewTopic(self._topic, num_partitions=-1, replication_factor=-1),
            ]
            missing = [topic for topic in wanted if topic.topic not in known]
            for topic, made in (admin.create_topics(missing) if missing else {}).items():
                try:
                    made.result(_SECONDS)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise KafkaSinkError(f"topic {topic} was not made: {error.args[0].str()}") from error

    def commit(self, rows: Iterable[pa.RecordBatch], before: SinkMarker | None, after: SinkMarker) -> bool:
        with plainly(self._heard):
            producer = self._producer or self._ready()
            if self._marker != before:
                return False
            self._refuse_too_large(rows)
            producer.begin_transaction()
            began, records = time.monotonic(), 0
            try:
                for batch in rows:
                    self._send(producer, batch)
                    records += batch.num_rows
                    self._refuse_too_slow(began)
                producer.produce(self._markers, key=marker_topic.KEY, value=marker_topic.encoded(after), partition=0)
                _commit(producer, began + self._timeout_s)
            except BaseException:
                with suppress(KafkaException):
                    producer.abort_transaction(_SECONDS)
                raise
            if records >= _TELLING:
                speed = records / max(time.monotonic() - began, 1e-3)
                self._records_per_second = max(speed, self._records_per_second)
            self._marker = after
            return True

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):  # after a fatal error, such as that of a fenced producer, they may raise
                producer.purge()
                producer.close()

    def _ready(self) -> Producer:
        """Fences older drivers, and then reads the marker that the last of them has left."""
        settings = {
            **self._settings,
            "transactional.id": self._transactional_id,
            "partitioner": "murmur2_random",  # as Kafka's Java clients: a key has one partition in all programs
            "linger.ms": self._settings.get("linger.ms", "20"),
        }
        producer = Producer(settings)
        producer.init_transactions(_SECONDS)
        self._marker = self._read()
        self._producer = producer
        return producer

    def _read(self) -> SinkMarker | None:
        if self._markers not in self._topics():
            return None
        return marker_topic.read_marker(self._client_settings(), self._markers, self._prefix)

    def _topics(self) -> set[str]:
        admin = AdminClient(self._client_settings())
        try:
            return set(admin.list_topics(timeout=_SECONDS).topics)
        finally:
            admin.poll(0)  # it reports now why it could not connect

    def _client_settings(self) -> dict[str, Any]:
        """Returns the settings of clients that do not produce; those of producers they would warn of."""
        return {name: value for name, value in self._settings.items() if name not in _OF_PRODUCERS}

    def _send(self, producer: Producer, batch: pa.RecordBatch) -> None:
        records = records_of(batch, self._parts)
        count = batch.num_rows
        keys = records.keys or [None] * count
        partitions, topics = records.partitions or [-1] * count, records.topics or [None] * count
        headers: Sequence[Headers | None] = records.headers or [None] * count
        for key, value, part, topic, header in zip(keys, records.values, partitions, topics, headers, strict=True):
            while True:
                try:
                    producer.produce(topic or self._topic, value, key, part, headers=header)
                    break
                except BufferError:  # the client sends what it has; then there is room
                    producer.poll(0.1)
        producer.poll(0)

    def _refuse_too_large(self, rows: Iterable[pa.RecordBatch]) -> None:
        count = getattr(rows, "num_rows", 0)
        if self._records_per_second and count / self._records_per_second > _SHARE * self._timeout_s:
            raise SinkError(
                f"An epoch of {count:,} records would take about {count / self._records_per_second:,.0f} s to send to "
                f"Kafka, and {_TIMEOUT_MS} is {self._timeout_s:g} s.",
                action=_RAISE,
            )

    def _refuse_too_slow(self, began: float) -> None:
        if time.monotonic() - began > _SHARE * self._timeout_s:
            raise SinkError(
                f"An epoch takes longer to send to Kafka than {_TIMEOUT_MS} allows, {self._timeout_s:g} s.",
                action=_RAISE,
            )


_OF_PRODUCERS = frozenset(
    {
        _TIMEOUT_MS,
        "linger.ms",
        "batch.size",
        "batch.num.messages",
        "compression.type",
        "compression.codec",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
    }
)


_silent = logging.Logger("kafka")
"""Takes the client's log lines: what matters comes as an error, or through `error_cb`."""
_silent.addHandler(logging.NullHandler())


def _commit(producer: Producer, until: float) -> None:
    """Commits; tries again while Kafka says that this helps."""
    while True:
        try:
            producer.commit_transaction(max(1.0, until - time.monotonic()))
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise


__all__ = ["KafkaConnection"]
