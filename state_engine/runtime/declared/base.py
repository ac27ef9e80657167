"""Base classes of declared operators, and helpers that they share."""

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
    """A function that an author declares by a method of a keyed stream.

    Args:
        ttl: How long the state of a key is kept; None for ever.

    Raises:
        JobDefinitionError: The time to live is in event time, which would pass within a batch, or allows reads of
            expired state.

    Attributes:
        local: The part that Spark can aggregate before the exchange with the same result; None if there is none.
        wants_all: Whether it gets all records of an epoch in one call, even if they are many.
        gives_changelog: Whether its rows are a changelog, which retracts earlier rows (`changelog.py`).
        reads_changelog: Whether it retracts what the rows of a changelog retract.
    """

    verb: str  # the method that the author called
    local: LocalAggregation | None = None
    wants_all = False
    gives_changelog = False
    reads_changelog = False

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        if ttl is not None and ttl.get_ttl_time_characteristic() == StateTtlConfig.TtlTimeCharacteristic.EventTime:
            raise JobDefinitionError(
                f"{self.verb}() got a time to live in event time.",
                action="Use processing time, which is one per epoch.",
            )
        if ttl is not None and ttl.get_state_visibility() == StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp:
            raise JobDefinitionError(
                f"{self.verb}() got a time to live that returns what has expired. States that belong together are "
                "cleaned up one by one: the sum of a mean might still exist when its count does not.",
                action="Remove return_expired_if_not_cleaned_up().",
            )
        self.ttl = ttl

    @property
    @abstractmethod
    def argument(self) -> str:
        """What was declared, for explanations."""

    def arguments(self, **given: Any) -> str:
        """Returns the arguments as in a call, with the time to live at the end; None arguments are left out."""
        ttl = None if self.ttl is None else f"{self.ttl.get_ttl().to_milliseconds()} ms"
        return ", ".join(f"{name}={value}" for name, value in {**given, "ttl": ttl}.items() if value is not None)

    def layout_of(self, descriptor: StateDescriptor) -> Layout:
        """Returns how a state will be accessed."""
        return Layout.COLUMNS

    def kept(self, descriptor: DescriptorT) -> DescriptorT:
        """Adds the declared time to live to a state descriptor, and returns the descriptor."""
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        return descriptor


class FiresTogether(Declared):
    """A declared function that gets all due event-time timers together, as columns.

    It gets them when an epoch begins. If the operator's input is one ordered stream, it also gets, after the last
    record, the timers that the epoch's records have made due.

    Attributes:
        in_turn: Whether timers of one time come in the usual order of firing; if not, they come in any order.
    """

    in_turn = True

    @abstractmethod
    def fire(self, keys: Keys, ctx: KeyedBatchProcessFunction.Context) -> Any:
        """Does for many timers what `on_timer` does for one; returns what `process_batch` returns.

        Args:
            keys: Keys of the timers, in the order in which they fire. `keys.times` are the times of the timers, and
                `keys.entries` have the namespaces that the timers were registered with.
            ctx: The clocks, and the timer service.
        """


def local_of(function: Function) -> LocalAggregation | None:
    """Returns the part of a function that Spark can aggregate before the exchange; None if there is none."""
    return function.local if isinstance(function, Declared) else None


def wants_all(function: Function) -> bool:
    """Returns whether a function gets all records of an epoch in one call."""
    return isinstance(function, Declared) and function.wants_all


def types_of(names: Sequence[str], columns: StructType) -> tuple[TypeInformation, ...]:
    """Returns the types of some columns."""
    return tuple(columns.types[columns.names.index(name)] for name in names)


def ordered_column(verb: str, by: Any, columns: StructType) -> int:
    """Returns the position of a column whose values have an order.

    Raises:
        JobDefinitionError: There is no such column, or its values have no order.
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
    """Returns the advice for a column that has the name of a column that the rows get."""
    return f"Rename it first: select('{name} as its_{name.lower()}', ...)."


def stored_rows(columns: StructType) -> StructType:
    """Returns the type of whole records in a state: tuples, since no code would see objects of the author's class."""
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
