"""Reads Kafka by another client than the sink's settings: everything that was committed."""

import uuid
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition


def read_topic(servers: str, topic: str, *, isolation: str = "read_committed", **settings: Any) -> list[Any]:
    """Returns the messages of all partitions, partition by partition."""
    consumer = Consumer(
        {
            **settings,
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=30).topics[topic]
        if known.error is not None:
            return []
        open_partitions = set(known.partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in open_partitions])
        messages = []
        while open_partitions:
            message = consumer.poll(30)
            assert message is not None, "no broker has answered"
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise AssertionError(message.error())
        return sorted(messages, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


__all__ = ["read_topic"]
