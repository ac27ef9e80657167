"""Side outputs, under PyFlink's name."""

from typing import Any

from state_engine.api.descriptors import check_name
from state_engine.api.type_hints import type_information
from state_engine.api.types import StructType, columns_of_type
from state_engine.errors import UnsupportedTypeError


class OutputTag:
    """Identifies a side output. Two tags with the same id are equal.

    Args:
        tag_id: Letters, digits, `_`, `-`, `.`.
        type_info: The columns of its rows: DDL (`a int, b string`), `Types.ROW_NAMED`, or a dataclass. Any other type,
            such as `Types.STRING()`, is for bare values; a table stores them in one column `f0`. A function that only
            emits to the side output may omit it.
    """

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        self.tag_id = check_name(tag_id, "a side output")
        self.type_info: StructType | None = None if type_info is None else columns_of_type(type_information(type_info))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


def columns_type(hint: Any, what: str) -> StructType:
    """Returns the struct type of a table's rows.

    Raises:
        UnsupportedTypeError: The type has no named columns.
    """
    parsed = type_information(hint)
    if not isinstance(parsed, StructType):
        raise UnsupportedTypeError(
            f"The rows of {what} were declared as {parsed}, which has no columns.",
            action="Declare columns: 'a int, b string', Types.ROW_NAMED([...], [...]) or a dataclass.",
        )
    return parsed


__all__ = ["OutputTag", "columns_type"]
