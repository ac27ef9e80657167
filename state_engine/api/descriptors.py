"""State descriptors, under PyFlink's names: the name of a state, its types, and how it aggregates."""

from collections.abc import Callable
from typing import Any, Self

from state_engine.api.evolution import Migration, StateChanges, fields_of
from state_engine.api.functions import AggregateFunction, ReduceFunction
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.type_hints import type_information
from state_engine.api.types import TypeInformation
from state_engine.errors import JobDefinitionError

_NAME_LIMIT = 128


def check_name(name: object, what: str) -> str:
    """Returns `name` if it is valid as the name of a folder and a table.

    Raises:
        JobDefinitionError: It is empty, too long, does not begin with a letter or digit, or has characters other than
            ASCII letters, digits, `_`, `-`, `.`.
    """
    plain = isinstance(name, str) and 0 < len(name) <= _NAME_LIMIT and name[0].isalnum() and name.isascii()
    if not plain or not all(c.isalnum() or c in "_-." for c in str(name)):
        raise JobDefinitionError(
            f"{name!r} cannot name {what}.",
            action=f"Use 1 to {_NAME_LIMIT} ASCII letters, digits, '_', '-' or '.', a letter or digit first.",
        )
    return str(name)


class StateDescriptor:
    """Name and type of one state. One name has one type within an operator.

    Attributes:
        name: The name.
        type_info: Type of a value, an element, the value of a map, or the accumulator.
        ttl_config: Its time to live; None if values never expire.
        changes: What the author declared about its earlier types.

    Raises:
        UnsupportedTypeError: The type cannot be stored as typed columns.
        JobDefinitionError: The name cannot name a table.
    """

    def __init__(self, name: str, type_info: Any) -> None:
        self.name = check_name(name, "a state")
        self.type_info: TypeInformation = type_information(type_info)
        self.ttl_config: StateTtlConfig | None = None
        self.changes = StateChanges()

    @property
    def expires_in_event_time(self) -> bool:
        """Whether it has a time to live in event time."""
        ttl, times = self.ttl_config, StateTtlConfig.TtlTimeCharacteristic
        return ttl is not None and ttl.get_ttl_time_characteristic() == times.EventTime

    def with_alias(self, field: str, *old_names: str) -> Self:
        """Declares former names of a field, so that a restore finds its values.

        Args:
            field: Path of the field in the current type: `price`, `address.zip`, `lines.element.price`.
            old_names: Names that the field had in the same struct, without a path.

        Raises:
            JobDefinitionError: The type has no such field, or no old name was given.
        """
        self._check_field(field)
        if not old_names or not all(old_names):
            raise JobDefinitionError(
                f"State {self.name!r} got {old_names!r} as former names of field {field!r}.",
                action='Give at least one name: with_alias("price", "cost").',
            )
        self.changes.aliases[field] = (*self.changes.aliases.get(field, ()), *old_names)
        return self

    def with_default(self, field: str, value: Any) -> Self:
        """Declares the value of a field in values that were written before the field existed; without it, null.

        A default in a dataclass does the same. The default value of a value state is something else.

        Args:
            field: Path of the field, as in `with_alias`.
            value: A value of the field's type; checked when the job is built.

        Raises:
            JobDefinitionError: The type has no such field.
        """
        self._check_field(field)
        self.changes.defaults[field] = value
        return self

    def migrate_from(self, old_type: Any, function: Callable[[Any], Any]) -> Self:
        """Converts values of an earlier type by a function, where no rule can convert them or none should.

        The function runs once per value in the workers, in the first epoch after the start. That epoch rewrites the
        whole state, so once it is sealed you may remove the function from the code.

        Args:
            old_type: The type exactly as it was declared; a dataclass if the function wants its instances.
            function: From an old value (an element of a list, a value of a map, an accumulator) to a new one. Not
                called for nulls.

        Raises:
            UnsupportedTypeError: A state cannot have this type.
            JobDefinitionError: This type already has a function, or it is the current type.
        """
        old = type_information(old_type)
        others = [self.type_info, *(migration.old_type for migration in self.changes.migrations)]
        if old.ddl() in [other.ddl() for other in others]:
            raise JobDefinitionError(
                f"State {self.name!r} of {self.type_info} got {function!r} to migrate from {old}.",
                action="Give one function for each earlier type.",
            )
        self.changes.migrations.append(Migration(old, function))
        return self

    def _check_field(self, field: str) -> None:
        paths = [f.path for f in fields_of(self.type_info)]
        if field not in paths:
            raise JobDefinitionError(
                f"State {self.name!r} has no field {field!r}.",
                action=f"Name one of {', '.join(paths)}." if paths else f"{self.type_info} has no fields.",
            )

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Sets the time after which values expire; with the update type `Disabled` they never expire.

        Raises:
            JobDefinitionError: `ttl_config` is not a `StateTtlConfig`.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise JobDefinitionError(
                f"State {self.name!r} got {ttl_config!r} as its time to live.",
                action="Give what StateTtlConfig.new_builder(Time.hours(1)).build() returns.",
            )
        self.ttl_config = ttl_config if ttl_config.is_enabled() else None

    def get_name(self) -> str:
        """Returns the name."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`.

    Args:
        name: Name of the state.
        value_type_info: Type of the value.
        default_value: What `value()` returns for a key without a value, as in Flink's Java API (PyFlink has none).
            It is not stored.
    """

    def __init__(self, name: str, value_type_info: Any, default_value: Any = None) -> None:
        super().__init__(name, value_type_info)
        self.default_value = default_value

    def get_default_value(self) -> Any:
        """Returns the default value."""
        return self.default_value


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState` by its element type."""

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState` by user key and value."""

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)
        self.key_type_info: TypeInformation = type_information(key_type_info)


class ReducingStateDescriptor(StateDescriptor):
    """Describes a `ReducingState`; `reduce_function` is a `ReduceFunction` or a function of two values."""

    def __init__(self, name: str, reduce_function: ReduceFunction | Callable[[Any, Any], Any], type_info: Any) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise JobDefinitionError(
                f"State {name!r} got {reduce_function!r} to reduce with.",
                action="Give a ReduceFunction or a function of two values.",
            )
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction | Callable[[Any, Any], Any]:
        """Returns the reduce function."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an `AggregatingState`; `state_type_info` is the type of the accumulator."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise JobDefinitionError(
                f"State {name!r} got {agg_function!r} to aggregate with.", action="Give an AggregateFunction."
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Returns the aggregate function."""
        return self._agg_function


__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
    "check_name",
]
