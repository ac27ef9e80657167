"""The type that one state stores: converts values between Arrow, Python and the function that puts and gets them."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from state_engine.api.types import TypeInformation
from state_engine.backends.stamps import stamped_type
from state_engine.serialization.convert import ValueTypeError, Writer, reader, writer
from state_engine.serialization.finished import finished_type, is_immutable
from state_engine.serialization.mutability import conformer, conformer_of_all, copier, still_conforming
from state_engine.serialization.types import to_arrow

EntryAt = Callable[[int], Any]


class StateValueError(Exception):
    """A function put a value into a state that its declared type does not admit.

    Attributes:
        entry: The entry key it was put under.
        cause: What is wrong with the value.
    """

    def __init__(self, entry: Any, cause: ValueTypeError) -> None:
        super().__init__(str(cause))
        self.entry = entry
        self.cause = cause


class StoredType:
    """Values, elements of a list, or values of a map.

    Args:
        value: As the author declared it.
        stamped: Whether each value is stored with the time of its last access (`stamps.py`): the state has a time to
            live.

    Attributes:
        stamped: As given.
        info: The type of what is stored, with its stamp.
        arrow: The same as Arrow has it.
        conform: Converts a value from a function to the value that a load would return.
        conform_all: Does so for many values.
        finished: The class of the values that need no `conform`, such as int for integers; None if there is none.
        copy: Copies a value before a function gets it; None if the value cannot change.
        reads_alike: Whether values that went through `conform` are read back from Arrow as they were written, so that
            they need not be read. False if a function could change them after it stored them.
        still_conforms: Returns whether a value that was added to in place needs no `conform`; None if it always needs
            it.
        read: Converts an array to Python values.
    """

    def __init__(self, value: TypeInformation, *, stamped: bool = False) -> None:
        self.stamped = stamped
        self.info = stamped_type(value) if stamped else value
        self.arrow: Any = to_arrow(self.info)
        self.conform = conformer(self.info)
        self.conform_all = conformer_of_all(self.info)
        self.finished = finished_type(self.info)
        self.copy = copier(self.info)
        self.reads_alike = is_immutable(value)
        self.still_conforms = still_conforming(value)
        self.read = reader(self.info)
        self._write = writer(self.info)

    def write(self, values: list[Any], entry_at: EntryAt) -> Any:
        """Returns values as an array.

        Args:
            values: The values; None is null.
            entry_at: Returns the entry of the value at a position, to name the one that does not fit.

        Raises:
            StateValueError: A value is not of the type.
        """
        return written(self._write, values, entry_at)

    def nulls(self, count: int) -> Any:
        """Returns an array of nulls."""
        return pa.nulls(count, self.arrow)


def written(write: Writer, values: list[Any], entry_at: EntryAt) -> Any:
    """Returns values as an array.

    Raises:
        StateValueError: A value is not of the writer's type.
    """
    try:
        return write(values)
    except ValueTypeError as error:
        raise StateValueError(entry_at(error.index), error) from None


__all__ = ["EntryAt", "StateValueError", "StoredType", "written"]
