"""What Kafka says of a failure."""

from collections.abc import Iterator
from contextlib import contextmanager

from state_engine.connectors.kafka.settings import PREFIX
from state_engine.extras import from_extra

with from_extra("kafka"):
    from confluent_kafka import KafkaError, KafkaException

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)


class KafkaSinkError(Exception):
    """Kafka has refused something, or cannot be reached."""


class FencedByKafkaError(KafkaSinkError):
    """Another driver of the job has begun to write to this sink."""


@contextmanager
def plainly(heard: list[str]) -> Iterator[None]:
    """Turns an error of the client into a `KafkaSinkError`.

    Args:
        heard: What the client has reported on its own, such as why it cannot connect; the last of it is added.

    Raises:
        FencedByKafkaError: Another driver uses the transactional id.
        KafkaSinkError: Anything else.
    """
    heard.clear()
    try:
        yield
    except KafkaException as error:
        about = error.args[0]
        said = about.str() or about.name()
        if about.code() in FENCED:
            raise FencedByKafkaError(said) from error
        because = f" ({heard[-1]})" if heard else ""
        if "SASL" in because or "AUTH" in about.name():
            because += f". Secrets come from the environment: {PREFIX}SASL_PASSWORD"
        raise KafkaSinkError(f"{about.name()}: {said}{because}") from error


__all__ = ["FencedByKafkaError", "KafkaSinkError", "plainly"]
