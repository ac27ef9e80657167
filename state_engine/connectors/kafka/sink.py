"""`KafkaSink`: what an author gives to `sink_to`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from state_engine.api.sinks import SinkConnection, SinkName, TransactionalSink
from state_engine.connectors.kafka.record_columns import RecordColumns
from state_engine.connectors.kafka.settings import checked
from state_engine.errors import JobDefinitionError
from state_engine.extras import check_extra

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaSink(TransactionalSink):
    """A topic of Kafka, exactly once for readers with `read_committed` (docs/guides/kafka-sink.md).

    The records of an epoch, and a marker that says which epoch it was, are sent in one transaction.

    Args:
        bootstrap_servers: `host:port`, several with commas.
        topic: Name of the topic; it is made with the broker's defaults if it is missing.
        key: Column that is the record's key. Texts and bytes are sent as they are, other values as JSON.
        value: Column that is the record's value, likewise. By default a JSON object of all columns that are not named
            here.
        headers: Column with the record's headers: a map from texts to texts or bytes.
        partition: Column with the number of the partition. By default the key decides, as for Kafka's Java clients.
        topic_column: Column with the topic of each record; `topic` then takes those where it is null.
        prefix: Beginning of the names of the topic with the sink's markers (`lakestate-marker.<job>.<uid>.<digest>`)
            and of its transactional id (`lakestate/<job>/<uid>`), for the broker's access rules.
        options: Further settings of librdkafka, such as `compression.type`. Secrets come from the environment of the
            driver's process: `LAKESTATE_KAFKA_SASL_PASSWORD` is `sasl.password`.

    Raises:
        JobDefinitionError: A setting is a secret or the sink's own, or a column is named twice.
        MissingExtraError: The extra `kafka` is not installed.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        topic_column: str | None = None,
        prefix: str = "lakestate",
        options: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        check_extra("kafka", "confluent_kafka")
        if not bootstrap_servers or not topic:
            raise JobDefinitionError("A KafkaSink has no server or no topic.", action="Give it both.")
        self._servers = bootstrap_servers
        self._topic = topic
        self._columns = RecordColumns(key, value, headers, partition, topic_column)
        if len(set(self._columns.named)) < len(self._columns.named) and (headers or partition or topic_column):
            raise JobDefinitionError(
                "A KafkaSink names a column twice.", action="Key and value may be one column; the others may not."
            )
        self._prefix = prefix
        self._settings = checked(options or {})

    @property
    def address(self) -> str:
        """Servers and topic."""
        return f"{self._servers}/{self._topic}"

    @property
    def options(self) -> dict[str, str]:
        """What manifests record, so that a stopped job can be restored without its code."""
        known = {"servers": self._servers, "topic": self._topic, "prefix": self._prefix}
        columns = json.dumps(self._columns._asdict())
        return known | {"columns": columns, "settings": json.dumps(self._settings)}

    @classmethod
    def recorded(cls, options: Mapping[str, str]) -> KafkaSink:
        """Returns the sink that a manifest records."""
        columns = json.loads(options["columns"])
        columns["topic_column"] = columns.pop("topic")
        columns["prefix"], columns["options"] = options["prefix"], json.loads(options["settings"])
        return cls(options["servers"], options["topic"], **columns)

    def connect(self, name: SinkName, columns: pa.Schema | None) -> SinkConnection:
        from state_engine.connectors.kafka.connection import KafkaConnection

        return KafkaConnection(self._servers, self._topic, self._columns, self._settings, self._prefix, name, columns)


__all__ = ["KafkaSink"]
