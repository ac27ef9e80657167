"""Records with a computed key: the key's columns lie behind the author's, and no function sees them."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from state_engine.api.functions import Function
from state_engine.api.types import Carrier, StructType
from state_engine.errors import JobDefinitionError
from state_engine.serialization.rows import as_tuple, row_maker


class KeySelector(Function):
    """Says what the key of an element is, by PyFlink's name."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key of an element; the same for the same element."""


class Leading(Carrier):
    """A record is made of the first fields alone.

    Args:
        visible: These fields, and how the record holds them.
    """

    def __init__(self, visible: StructType) -> None:
        self._visible = visible

    def maker(self) -> Callable[..., Any]:
        make, width = row_maker(self._visible), len(self._visible.names)
        return lambda *values: make(*values[:width])

    def values(self, record: Any) -> tuple[Any, ...]:
        raise JobDefinitionError(
            "A record with a computed key was to be emitted.", action="Emit rows of the operator's own output type."
        )


class KeyOf:
    """Gives the values of the key columns of a record.

    Args:
        selector: The author's `KeySelector`, or a function.
        given: The fields of its result as its type names them, in the order of the key columns.
    """

    def __init__(self, selector: Any, given: StructType) -> None:
        self._call = selector.get_key if isinstance(selector, KeySelector) else selector
        self._given = given

    def __call__(self, record: Any) -> tuple[Any, ...]:
        return as_tuple(self._call(record), self._given)


__all__ = ["KeyOf", "KeySelector", "Leading"]
