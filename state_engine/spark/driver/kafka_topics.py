"""Asks Kafka's brokers about the topics of a job's sources, through the client that Spark's source uses itself."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from state_engine.epoch.kafka_positions import TopicState, check_positions, is_read, topics_named
from state_engine.errors import SourceUnavailableError
from state_engine.log.source_records import SourceFingerprint, SourcePosition

_PREFIX = "kafka."
_TIMEOUT_MS = 15_000
_OWN = ("isolation.level", "exclude.internal.topics")
"""Options that begin like a client's, and that are the source's own."""


def topics_of(spark: SparkSession, options: Mapping[str, str], names: Sequence[str]) -> dict[str, TopicState | None]:
    """Returns the topics as the brokers have them; None for one that does not exist.

    Args:
        spark: A session with Kafka's jars.
        options: The source's options, names in lower case; its client has those that begin with `kafka.`.
        names: The topics; those that the option `subscribePattern` finds are added.

    Raises:
        SourceUnavailableError: No broker has answered, or one refuses.
    """
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("request.timeout.ms", str(_TIMEOUT_MS // 2))
    settings.put("default.api.timeout.ms", str(_TIMEOUT_MS))
    for name, value in options.items():
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _OWN:
            settings.put(name.removeprefix(_PREFIX), value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            if (pattern := options.get("subscribepattern")) is not None:
                known = [str(name) for name in admin.listTopics().names().get()]
                names = [*dict.fromkeys([*names, *(name for name in known if re.fullmatch(pattern, name))])]
            return {name: _topic(jvm, admin, name) for name in names}
        finally:
            admin.close()
    except Py4JJavaError as error:
        servers = options.get("kafka.bootstrap.servers", "")
        raise SourceUnavailableError(
            f"The Kafka brokers {servers} did not answer about {', '.join(names) or 'topics'}: {_said(error)}.",
            action="Check the servers and the options of the source that begin with kafka. Nothing was written.",
        ) from None


def ask_topics(
    spark: SparkSession,
    number: int,
    options: Mapping[str, str],
    known: tuple[SourcePosition, SourceFingerprint] | None,
    *,
    changed: bool = False,
) -> dict[str, TopicState | None]:
    """Checks that the topics of a source still have what its position needs.

    Args:
        spark: The session that is going to read them.
        number: Number of the source.
        options: Its options, names in lower case.
        known: Its position, and the source as it was recorded with it; None if it has none.
        changed: Whether the start allows that the source has changed.

    Returns:
        The topics as the brokers have them; None for one that does not exist.

    Raises:
        SourcePositionLostError: Records that are needed are gone.
        SourceUnavailableError: The brokers do not answer.
    """
    position, recorded = known if known is not None else (None, None)
    found = topics_of(spark, options, topics_named(options, position))
    if position is not None and recorded is not None:
        loss_allowed = options.get("failondataloss", "true").lower() == "false"
        reads = partial(is_read, options)
        check_positions(number, position, recorded, found, loss_allowed=loss_allowed, changed=changed, reads=reads)
    return found


def _topic(jvm: Any, admin: Any, name: str) -> TopicState | None:
    names = jvm.java.util.ArrayList()
    names.add(name)
    try:
        described = admin.describeTopics(names).topicNameValues().get(name).get()
    except Py4JJavaError as error:
        if "UnknownTopicOrPartitionException" in _said(error):
            return None
        raise
    numbers = [described.partitions().get(place).partition() for place in range(described.partitions().size())]
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    return TopicState(
        topic_id=str(described.topicId().toString()),
        earliest=_offsets(jvm, admin, name, numbers, spec.earliest()),
        latest=_offsets(jvm, admin, name, numbers, spec.latest()),
    )


def _offsets(jvm: Any, admin: Any, name: str, numbers: Sequence[int], spec: Any) -> dict[int, int]:
    partitions = {number: jvm.org.apache.kafka.common.TopicPartition(name, number) for number in numbers}
    asked = jvm.java.util.HashMap()
    for partition in partitions.values():
        asked.put(partition, spec)
    found = admin.listOffsets(asked).all().get()
    return {number: int(found.get(partition).offset()) for number, partition in partitions.items()}


def _said(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())


__all__ = ["ask_topics", "topics_of"]
