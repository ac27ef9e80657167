"""Writes the clicks to a topic of Kafka: each part in one transaction, so that it is there as a whole or not at all.

The records say which part they are of. So a writer that was killed goes on where it stopped: no click is written twice,
and none is left out.
"""

from typing import Any

from lakestate.examples.visits.data import Click, read_part
from state_engine.extras import from_extra

with from_extra("kafka"):
    import confluent_kafka
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

PARTITIONS = 3
CLICKS, VISITS = "clicks", "visits"
_PART = "part"
_PATIENCE_S = 30.0
_LAST_RECORDS = 64


class NotWrittenError(Exception):
    """Kafka did not take a part, or made no topics."""


def create_topics(servers: str) -> None:
    """Creates the topics that the job reads and writes, if they are missing.

    Raises:
        NotWrittenError: The brokers do not do it.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    try:
        missing = [name for name in (CLICKS, VISITS) if name not in admin.list_topics(timeout=_PATIENCE_S).topics]
        created = admin.create_topics([NewTopic(name, PARTITIONS) for name in missing]) if missing else {}
        for future in created.values():
            future.result(_PATIENCE_S)
    except confluent_kafka.KafkaException as error:
        raise NotWrittenError(str(error)) from error


class ClicksWriter:
    """Writes part after part; only one writer of a topic at a time, since a new one ends what another has begun.

    Args:
        servers: The brokers.

    Raises:
        NotWrittenError: They do not answer.
    """

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "transactional.id": "lakestate/clicks", "partitioner": "murmur2"}
        self._producer = confluent_kafka.Producer(settings)
        try:
            self._producer.init_transactions(_PATIENCE_S)
            self._newest = newest_part(servers)
        except confluent_kafka.KafkaException as error:
            raise NotWrittenError(str(error)) from error

    def write_next(self) -> int:
        """Writes the next part and returns its number.

        Raises:
            NotWrittenError: It may have been written or not; a new writer finds out where to go on.
        """
        number = self._newest + 1
        try:
            self._producer.begin_transaction()
            for click in read_part(number):
                self._send(click, number)
            self._producer.commit_transaction(_PATIENCE_S)
        except confluent_kafka.KafkaException as error:
            raise NotWrittenError(str(error)) from error
        self._newest = number
        return number

    def _send(self, click: Click, part: int) -> None:
        self._producer.produce(CLICKS, click.value(), click.user, headers={_PART: str(part)})
        self._producer.poll(0)


def newest_part(servers: str) -> int:
    """Returns the number of the last part that was written; 0 if there is none.

    Raises:
        confluent_kafka.KafkaException: The brokers do not answer.
    """
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "lakestate-clicks",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # at the end of a partition a broker waits this long for more
        }
    )
    try:
        return max(_newest_in(reader, partition) for partition in range(PARTITIONS))
    finally:
        reader.close()


def _newest_in(reader: Any, partition: int) -> int:
    """Returns the newest part in a partition: looks back further if the last records were of an aborted transaction."""
    place = confluent_kafka.TopicPartition(CLICKS, partition)
    first, end = reader.get_watermark_offsets(place, _PATIENCE_S)
    back = _LAST_RECORDS
    while True:
        begin = max(first, end - back)
        reader.assign([confluent_kafka.TopicPartition(CLICKS, partition, begin)])
        newest = max(_parts(reader), default=0)
        if newest or begin == first:
            return newest
        back *= 8


def _parts(reader: Any) -> list[int]:
    """Returns the parts of all records up to the end of the partition."""
    parts = []
    while (record := reader.poll(_PATIENCE_S)) is not None:
        if (error := record.error()) is None:
            parts.append(_part_of(record))
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            return parts
        else:
            raise confluent_kafka.KafkaException(error)
    raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._TIMED_OUT))


def _part_of(record: Any) -> int:
    """Returns the part of a record; 0 for one that another program has written."""
    try:
        return int(dict(record.headers() or [])[_PART])
    except (KeyError, ValueError):
        return 0


__all__ = ["CLICKS", "VISITS", "ClicksWriter", "NotWrittenError", "create_topics", "newest_part"]
