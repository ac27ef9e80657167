"""Columns that an author passes to a state or gets from it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.types import TypeInformation
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.types import to_arrow


class Column:
    """Converts values of one type between Python and the columns that an author passes or gets.

    Attributes:
        name: Of the state.
        type: As Arrow has it.
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        self.name = name
        self.type: Any = to_arrow(type_info)
        self._declared = type_info.ddl()
        self._read = reader(type_info)
        self.write = writer(type_info)

    def fitted(self, values: Any, count: int) -> Any:
        """Returns a column as an array of the type.

        Raises:
            TypeError: It is of another type, or a value does not fit.
            ValueError: It has another length.
        """
        array = self._array(values)
        if len(array) != count:
            raise ValueError(f"state {self.name!r} got {len(array)} values for {count} keys")
        if array.type == self.type:
            return array
        try:
            if _may_become(array.type, self.type):
                return _cast(array, self.type)
        except pa.ArrowInvalid as error:
            raise TypeError(f"state {self.name!r} is {self._declared}: {error}") from None
        raise TypeError(f"state {self.name!r} is {self._declared}, and got a column of {array.type}")

    def _array(self, values: Any) -> Any:
        array = as_array(values)
        if array is not None:
            return array
        try:
            return self.write(list(values))  # as strict as the row methods
        except ValueTypeError as error:
            raise TypeError(f"state {self.name!r}: {error}") from None

    def read(self, array: Any) -> list[Any]:
        """Returns the Python values of such an array."""
        return self._read(array)


def as_array(values: Any) -> Any:
    """Returns a column as an array; None for Python values."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if hasattr(values, "__array__") and not isinstance(values, pa.Array):  # from NumPy or pandas: NaN is a number there
        values = np.asarray(values)
        return pa.array(values) if values.dtype != object else None
    return values if isinstance(values, pa.Array) else None


def _may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether a column may be cast, if all its values fit, as the row methods accept an int for a double."""
    kinds = pa.types
    if kinds.is_null(given):
        return True
    if kinds.is_dictionary(given):
        return _may_become(given.value_type, wanted) or given.value_type == wanted
    if kinds.is_integer(wanted):
        return kinds.is_integer(given)
    if kinds.is_floating(wanted):
        return kinds.is_integer(given) or kinds.is_floating(given)
    if kinds.is_timestamp(wanted):
        return kinds.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
    if kinds.is_string(wanted):
        return kinds.is_large_string(given) or kinds.is_string_view(given)
    return kinds.is_binary(wanted) and (kinds.is_large_binary(given) or kinds.is_binary_view(given))


def _cast(array: Any, wanted: pa.DataType) -> Any:
    """Casts a column; a double that is too large for a float is refused, not made infinite."""
    result = array.cast(wanted)
    if pa.types.is_floating(wanted) and pc.sum(pc.is_inf(result)).as_py() != pc.sum(pc.is_inf(array)).as_py():
        raise pa.ArrowInvalid("a number is out of range")
    return result


def filled(values: Any, default: Any) -> Any:
    """Returns values, with a default (an array of one value) instead of nulls."""
    if not values.null_count:
        return values
    rows = np.where(np.asarray(values.is_null()), len(values), np.arange(len(values)))
    return pa.concat_arrays([values, default]).take(pa.array(rows))


__all__ = ["Column", "as_array", "filled"]
