"""Records with a computed key: the key columns come after the author's columns, and no function sees them."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from state_engine.api.functions import Function
from state_engine.api.types import Carrier, StructType
from state_engine.errors import JobDefinitionError
from state_engine.serialization.rows import as_tuple, row_maker


class KeySelector(Function):
    """Computes the key of an element: PyFlink's class of the same name."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key of an element; the same for the same element."""


class Leading(Carrier):
    """Makes a record of the first fields only, without the key columns.

    Args:
        visible: These fields, and the carrier of their record.
    """

    def __init__(self, visible: StructType) -> None:
        self._visible = visible

    def maker(self) -> Callable[..., Any]:
        make, width = row_maker(self._visible), len(self._visible.names)
        return lambda *values: make(*values[:width])

    def values(self, record: Any) -> tuple[Any, ...]:
        raise JobDefinitionError(
            "A function emitted a record with a computed key.", action="Emit rows of the operator's own output type."
        )


class KeyOf:
    """Computes the values of a record's key columns.

    Args:
        selector: The author's `KeySelector`, or a function.
        given: The fields of its result by the names in its type, in the order of the key columns.
    """

    def __init__(self, selector: Any, given: StructType) -> None:
        self._call = selector.get_key if isinstance(selector, KeySelector) else selector
        self._given = given

    def __call__(self, record: Any) -> tuple[Any, ...]:
        return as_tuple(self._call(record), self._given)


__all__ = ["KeyOf", "KeySelector", "Leading"]
