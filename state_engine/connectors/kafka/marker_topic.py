"""The topic that keeps the markers of one sink: compacted, with one partition, written by this sink alone.

A sink shares it with no other one: an open transaction of another writer in the partition would hide the newest marker
from a reader with `read_committed`.
"""

import hashlib
import re
import uuid
from contextlib import suppress
from typing import Any

from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.connectors.kafka.errors import KafkaSinkError
from state_engine.errors import SinkError
from state_engine.extras import from_extra

with from_extra("kafka"):
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import ConfigResource

KEY = b"marker"
SECONDS = 30.0
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_FIRST_LOOK = 8
"""How many of the partition's last offsets are read first: a marker, and the end of its transaction, take two."""


def topic_of(prefix: str, name: SinkName) -> str:
    """Returns the topic with the markers of a sink: with a digest, since names of jobs and sinks may have dots, too."""
    digest = hashlib.sha256("/".join(name).encode()).hexdigest()[:8]
    readable = _ILLEGAL.sub("-", f"{name.job}.{name.uid}")[:160]
    return f"{prefix}-marker.{readable}.{digest}"


def transactional_id(prefix: str, name: SinkName) -> str:
    """Returns the id by which Kafka fences older drivers of a sink."""
    return f"{prefix}/{name.job}/{name.uid}"


def encoded(marker: SinkMarker) -> bytes:
    """Returns the value of a marker's record: three numbers with spaces between them."""
    return " ".join(map(str, marker)).encode()


def decoded(value: bytes) -> SinkMarker:
    """Returns the marker of a record's value; raises KafkaSinkError if it is none."""
    try:
        log, generation, epoch = map(int, value.split())
    except ValueError as error:
        raise KafkaSinkError(
            "the topic of the sink's markers has a record that is no marker: another program has written to it. Remove "
            "its right to do so and the record, and start once with adopt_sinks=True"
        ) from error
    return SinkMarker(log, generation, epoch)


def check_topic(admin: AdminClient, topic: str) -> None:
    """Checks a topic with markers, which may have been made by hand.

    Raises:
        SinkError: It has several partitions, or loses markers after a time.
    """
    partitions = len(admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    policy = "compact"
    with suppress(KafkaException):  # the user may not read the settings
        policy = admin.describe_configs([resource])[resource].result(SECONDS)["cleanup.policy"].value
    if partitions != 1 or policy != "compact":
        raise SinkError(
            f"Kafka's topic {topic}, which has the markers of a sink, has {partitions} partitions and "
            f"cleanup.policy={policy}.",
            action="It needs one partition and cleanup.policy=compact: otherwise markers get lost. If the job has not "
            "written yet, delete the topic, and it is made so.",
        )


def read_marker(settings: dict[str, Any], topic: str, group: str) -> SinkMarker | None:
    """Returns the newest marker that was committed; None if the topic has none.

    Reads the last offsets, and more and more of them until a marker is among them.

    Args:
        settings: Of the client.
        topic: The topic.
        group: Beginning of the consumer group's name.
    """
    consumer = Consumer(
        {
            **settings,
            "group.id": f"{group}-{uuid.uuid4().hex}",  # the client wants one, and it has no offsets
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": "10",  # at the end of the partition a broker waits this long for more
        }
    )
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
        looked = _FIRST_LOOK
        while True:
            begin = max(low, high - looked)
            found = _last(consumer, topic, begin)
            if found is not None or begin == low:
                return decoded(found) if found is not None else None
            looked *= 8
    finally:
        consumer.close()


def _last(consumer: Consumer, topic: str, begin: int) -> bytes | None:
    """Returns the value of the last committed record from an offset on."""
    consumer.assign([TopicPartition(topic, 0, begin)])
    last: bytes | None = None
    while True:
        message: Message | None = consumer.poll(SECONDS)
        if message is None:
            raise KafkaSinkError(f"no broker has answered for {SECONDS:.0f} s")
        error = message.error()
        if error is None:
            last = message.value() if message.key() == KEY else last
        elif error.code() == KafkaError._PARTITION_EOF:
            return last
        else:
            raise KafkaException(error)


__all__ = ["KEY", "SECONDS", "check_topic", "encoded", "read_marker", "topic_of", "transactional_id"]
