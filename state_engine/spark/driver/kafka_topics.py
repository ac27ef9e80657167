"""Asks Kafka's brokers about the topics of a job's sources, through the client that Spark's source uses itself."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from state_engine.epoch.kafka_positions import TopicState, check_positions, is_read, topics_named, with_ids
from state_engine.epoch.source_options import KAFKA, format_of
from state_engine.errors import SourceUnavailableError
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourceFingerprint

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
    options: Sequence[Mapping[str, str]],
    sources: Sequence[SourceFingerprint],
    target: Manifest | None,
    allowed: Collection[int] = (),
) -> tuple[SourceFingerprint, ...]:
    """Checks that the topics still have what a position needs.

    Args:
        spark: The session that is going to read them.
        options: All options of each source.
        sources: The sources as the job declares them.
        target: The epoch that the job goes on from; its positions count for sources that are as many as then.
        allowed: Numbers of the sources that may have changed.

    Returns:
        The sources, those of Kafka with the ids of their topics.

    Raises:
        SourcePositionLostError: Records that are needed are gone.
        SourceUnavailableError: The brokers do not answer.
    """
    known = target if target is not None and len(target.sources) == len(sources) else None
    asked = []
    for number, source in enumerate(sources):
        if format_of(source.kind) is not KAFKA:
            asked.append(source)
            continue
        position = known.sources[number] if known is not None else None
        found = topics_of(spark, options[number], topics_named(options[number], position))
        if known is not None and position is not None and format_of(known.fingerprints[number].kind) is KAFKA:
            loss_allowed = options[number].get("failondataloss", "true").lower() == "false"
            reads = partial(is_read, options[number])
            recorded = known.fingerprints[number]
            changed = number in allowed
            check_positions(number, position, recorded, found, loss_allowed=loss_allowed, changed=changed, reads=reads)
        asked.append(with_ids(source, found))
    return tuple(asked)


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
