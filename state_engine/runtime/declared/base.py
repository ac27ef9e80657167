"""What declared operators have in common."""

from abc import abstractmethod

from state_engine.api.functions import KeyedBatchProcessFunction
from state_engine.api.ttl import StateTtlConfig
from state_engine.errors import JobDefinitionError


class Declared(KeyedBatchProcessFunction):
    """A function that an author declares by a verb of a keyed stream.

    Args:
        ttl: How long the state of a key is kept; None for ever.

    Raises:
        JobDefinitionError: It counts in event time, which would pass within a batch.
    """

    verb: str  # what the author called

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        if ttl is not None and ttl.get_ttl_time_characteristic() == StateTtlConfig.TtlTimeCharacteristic.EventTime:
            raise JobDefinitionError(
                f"{self.verb}() got a time to live in event time.",
                action="Use processing time, of which an epoch has one.",
            )
        self.ttl = ttl

    @property
    @abstractmethod
    def argument(self) -> str:
        """What was declared, for explanations."""


__all__ = ["Declared"]
