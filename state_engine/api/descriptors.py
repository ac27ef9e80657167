"""State descriptors, by PyFlink's names: a state's name, its types, and how it aggregates."""

from collections.abc import Callable
from typing import Any

from state_engine.api.functions import AggregateFunction, ReduceFunction
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.type_hints import type_information
from state_engine.api.types import TypeInformation
from state_engine.errors import JobDefinitionError

_NAME_LIMIT = 128


def check_name(name: object, what: str) -> str:
    """Returns `name` when it may name a folder and a table.

    Raises:
        JobDefinitionError: It is empty, too long, or has characters other than letters, digits, `_`, `-`, `.`.
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
        type_info: Of a value, an element, the value of a map, or the accumulator.
        ttl_config: Its time to live, None while values live for ever.

    Raises:
        UnsupportedTypeError: The type cannot be stored as typed columns.
        JobDefinitionError: The name cannot name a table.
    """

    def __init__(self, name: str, type_info: Any) -> None:
        self.name = check_name(name, "a state")
        self.type_info: TypeInformation = type_information(type_info)
        self.ttl_config: StateTtlConfig | None = None

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets values expire; settings whose update type is `Disabled` let them live on.

        Raises:
            JobDefinitionError: `ttl_config` is no `StateTtlConfig`.
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
