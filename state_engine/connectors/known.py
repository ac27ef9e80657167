"""How manifests record a sink in another system, and the sink that such a record stands for."""

from state_engine.api.sinks import TransactionalSink
from state_engine.connectors.kafka.sink import KafkaSink
from state_engine.connectors.postgresql.sink import PostgresSink
from state_engine.errors import SinkError
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


def check_address(system: TransactionalSink, sink: SinkTable) -> None:
    """Checks that a sink of a record connects to the system that the record names, and not to what PGHOST says today.

    Raises:
        SinkError: It connects elsewhere.
    """
    if system.address != sink.table:
        raise SinkError(
            f"Sink {sink.uid!r} wrote to {sink.table}, and with the environment of this process it would connect to "
            f"{system.address}.",
            action="Set the same PGHOST, PGPORT, PGDATABASE or PGSERVICE as the job had, or write them into the sink's "
            "URI.",
        )


__all__ = ["check_address", "opened", "recorded_as"]
