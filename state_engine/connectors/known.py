"""How manifests record a sink in another system, and the sink that such a record stands for."""

from state_engine.api.sinks import TransactionalSink
from state_engine.connectors.kafka.sink import KafkaSink
from state_engine.connectors.postgresql.sink import PostgresSink
from state_engine.log.records import SinkTable


def recorded_as(uid: str, sink: TransactionalSink) -> SinkTable:
    """Returns the record of a sink. An author's own kind is `custom`: no sink can be made from its record."""
    if isinstance(sink, PostgresSink):
        return SinkTable(uid=uid, kind="postgresql", table=sink.address, options=sink.options)
    if isinstance(sink, KafkaSink):
        return SinkTable(uid=uid, kind="kafka", table=sink.address, options=sink.options)
    return SinkTable(uid=uid, kind="custom", table=sink.address)


def opened(sink: SinkTable) -> TransactionalSink | None:
    """Returns the sink of a record; None if only the job's code has it.

    Raises:
        MissingExtraError: Its extra is not installed.
    """
    if sink.kind == "postgresql":
        return PostgresSink.recorded(sink.options)
    return KafkaSink.recorded(sink.options) if sink.kind == "kafka" else None


__all__ = ["opened", "recorded_as"]
