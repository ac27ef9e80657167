"""What declared operators have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.functions import Function, KeyedBatchProcessFunction
from state_engine.api.keys import Keys
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import AtomicType, DecimalType, StructType, TypeInformation
from state_engine.backends.layout import Layout
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.local import LocalAggregation

DescriptorT = TypeVar("DescriptorT", bound=StateDescriptor)


class Declared(KeyedBatchProcessFunction):
    """A function that an author declares by a verb of a keyed stream.

    Args:
        ttl: How long the state of a key is kept; None for ever.

    Raises:
        JobDefinitionError: It counts in event time, which would pass within a batch, or lets states be read that have
            expired.

    Attributes:
        local: What Spark may do of it in front of the exchange, with the same result; None if that cannot be.
        wants_all: Whether it gets all records of an epoch in one call, however many they are.
        gives_changelog: Whether its rows say what holds no more (`changelog.py`).
        reads_changelog: Whether it takes back what such rows take back.
    """

    verb: str  # what the author called
    local: LocalAggregation | None = None
    wants_all = False
    gives_changelog = False
    reads_changelog = False

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        if ttl is not None and ttl.get_ttl_time_characteristic() == StateTtlConfig.TtlTimeCharacteristic.EventTime:
            raise JobDefinitionError(
                f"{self.verb}() got a time to live in event time.",
                action="Use processing time, of which an epoch has one.",
            )
        if ttl is not None and ttl.get_state_visibility() == StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp:
            raise JobDefinitionError(
                f"{self.verb}() got a time to live that returns what has expired. States that belong together are "
                "cleaned up one by one: of a mean, the sum might be there without the number.",
                action="Leave out return_expired_if_not_cleaned_up().",
            )
        self.ttl = ttl

    @property
    @abstractmethod
    def argument(self) -> str:
        """What was declared, for explanations."""

    def arguments(self, **given: Any) -> str:
        """Returns what was declared as a call spells it, with the time to live behind it; None was not."""
        ttl = None if self.ttl is None else f"{self.ttl.get_ttl().to_milliseconds()} ms"
        return ", ".join(f"{name}={value}" for name, value in {**given, "ttl": ttl}.items() if value is not None)

    def layout_of(self, descriptor: StateDescriptor) -> Layout:
        """Returns how a state will be asked."""
        return Layout.COLUMNS

    def kept(self, descriptor: DescriptorT) -> DescriptorT:
        """Returns the descriptor of a state that is kept as long as was declared."""
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        return descriptor


class FiresTogether(Declared):
    """One whose event-time timers that are due are handed over together, as columns.

    They are when an epoch begins. Where an operator has one ordered stream, those that the epoch's records have made
    due are once more behind the last record.

    Attributes:
        in_turn: Whether those of one time come in the order in which others fire; if not, in any.
    """

    in_turn = True

    @abstractmethod
    def fire(self, keys: Keys, ctx: KeyedBatchProcessFunction.Context) -> Any:
        """Does what `on_timer` does for one timer, for many; returns as `process_batch` does.

        Args:
            keys: Of the timers, in the order in which they fire; their times are those of the timers, and their
                `entries` have the namespaces that the timers were registered with.
            ctx: The clocks, and timers.
        """


def local_of(function: Function) -> LocalAggregation | None:
    """Returns what Spark may do of a function in front of the exchange."""
    return function.local if isinstance(function, Declared) else None


def wants_all(function: Function) -> bool:
    """Returns whether a function wants all records of an epoch in one call."""
    return isinstance(function, Declared) and function.wants_all


def types_of(names: Sequence[str], columns: StructType) -> tuple[TypeInformation, ...]:
    """Returns the types of some columns."""
    return tuple(columns.types[columns.names.index(name)] for name in names)


def ordered_column(verb: str, by: Any, columns: StructType) -> int:
    """Returns the position of a column whose values have an order.

    Raises:
        JobDefinitionError: There is no such column, or they have none.
    """
    if not isinstance(by, str):
        raise JobDefinitionError(f"{verb}() got by={by!r}.", action="Give a column's name.")
    if by not in columns.names:
        raise JobDefinitionError(
            f"{verb}() got by={by!r}; the stream has {', '.join(columns.names)}.",
            action="Check the spelling; names are case-sensitive here.",
        )
    position = columns.names.index(by)
    if not isinstance(columns.types[position], (AtomicType, DecimalType)):
        raise JobDefinitionError(
            f"{verb}() got by={by!r}, which is {columns.types[position]}.",
            action="Give a column whose values have an order.",
        )
    return position


def renaming(name: str) -> str:
    """Returns what to do about a column whose name the rows need for another one."""
    return f"Rename it in front: select('{name} as its_{name.lower()}', ...)."


def stored_rows(columns: StructType) -> StructType:
    """Returns the type of whole records in a state: never objects of the author's class, which nobody would see."""
    return StructType(columns.names, columns.types, carrier=tuple)


__all__ = [
    "Declared",
    "FiresTogether",
    "local_of",
    "ordered_column",
    "renaming",
    "stored_rows",
    "types_of",
    "wants_all",
]
