"""Checks of the functions and objects that an author gives to windows."""

import typing
from typing import Any

from state_engine.api.functions import AggregateFunction
from state_engine.api.type_hints import type_information
from state_engine.api.types import TypeInformation
from state_engine.errors import JobDefinitionError, UnsupportedTypeError


def checked(given: Any, wanted: type, what: str) -> Any:
    """Returns what an author gave; raises JobDefinitionError if it is not an object of the class."""
    if not isinstance(given, wanted):
        raise JobDefinitionError(f"{what} got {given!r}.", action=f"Give an object of a {wanted.__name__}.")
    return given


def accumulator_type_of(function: AggregateFunction, declared: Any) -> TypeInformation:
    """Returns the type of a function's accumulators: as declared, or from the type hint of `create_accumulator`.

    Raises:
        JobDefinitionError: The type is not declared, and the hint does not give it.
    """
    if declared is not None:
        return type_information(declared)
    try:
        hint = typing.get_type_hints(function.create_accumulator).get("return")
        return type_information(hint)
    except (UnsupportedTypeError, NameError, TypeError):
        raise JobDefinitionError(
            f"The type of {type(function).__name__}'s accumulator is not known.",
            action="Give accumulator_type, such as Types.TUPLE([Types.LONG(), Types.DOUBLE()]), or declare what "
            "create_accumulator returns: def create_accumulator(self) -> tuple[int, float].",
        ) from None


__all__ = ["accumulator_type_of", "checked"]
