"""Converts the rows that a function returned to Arrow columns of the declared types."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType, TypeInformation
from state_engine.causes import shown
from state_engine.errors import JobDefinitionError
from state_engine.serialization.convert import ValueTypeError, writer
from state_engine.serialization.rows import write_columns
from state_engine.serialization.types import columns_of, columns_to_arrow

MAIN = "main"


class OutputValueError(Exception):
    """A function returned a row that does not fit the declared type of its output.

    Attributes:
        output: `main` or the tag id.
        row: The row, as text.
    """

    def __init__(self, output: str, row: object, why: str) -> None:
        super().__init__(why)
        self.output = output
        self.row = shown(row)


class OutputWriter:
    """Makes record batches from the rows of one output."""

    def __init__(self, output: str, struct: StructType) -> None:
        self.output = output
        self.schema: pa.Schema = columns_to_arrow(columns_of(struct))
        self._struct = struct
        self._writers = [writer(t) for t in struct.types]

    def write(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Returns the rows as one batch.

        Raises:
            OutputValueError: A row does not fit; the error names field and value.
        """
        try:
            arrays = write_columns(rows, self._struct, self._writers)
        except ValueTypeError as error:
            where = f"field {error.path!r}: " if error.path else ""
            raise OutputValueError(self.output, rows[error.index], where + str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def side_output_columns(tag: OutputTag) -> StructType:
    """Returns the columns of a side output that has a reader.

    Raises:
        JobDefinitionError: It declares no columns, or has the name of the main output.
    """
    if tag.type_info is None:
        raise JobDefinitionError(
            f"The side output {tag.tag_id!r} has no columns.",
            action="Declare them: OutputTag(id, 'a int, b string').",
        )
    if tag.tag_id == MAIN:
        raise JobDefinitionError("A side output cannot be called 'main'.", action="Give the tag another id.")
    return tag.type_info


def is_tagged(row: Any) -> bool:
    """Returns whether a row is a `(tag, row)` pair."""
    return type(row) is tuple and bool(row) and type(row[0]) is OutputTag


def split_by_tag(rows: list[Any]) -> tuple[list[Any], dict[str, list[Any]]]:
    """Separates `(tag, row)` pairs from rows of the main output, in order."""
    main: list[Any] = []
    tagged: dict[str, list[Any]] = {}
    for row in rows:
        if type(row) is tuple and row and type(row[0]) is OutputTag:
            if len(row) != 2:
                raise OutputValueError(row[0].tag_id, row, "a side output is a pair of tag and row")
            tagged.setdefault(row[0].tag_id, []).append(row[1])
        else:
            main.append(row)
    return main, tagged


def checked_late_data(verb: str, tag: object, columns: TypeInformation) -> OutputTag:
    """Returns the tag of an output of late records.

    Raises:
        JobDefinitionError: It is no tag, or declares other columns than those of the stream.
    """
    if not isinstance(tag, OutputTag):
        raise JobDefinitionError(f"{verb}() got {tag!r}.", action="Give an OutputTag.")
    if tag.type_info not in (None, columns):
        raise JobDefinitionError(
            f"{verb}() got {tag!r} with {tag.type_info}; the stream has {columns}.",
            action="Declare the columns of the stream: late records go there unchanged.",
        )
    return tag


__all__ = [
    "MAIN",
    "OutputValueError",
    "OutputWriter",
    "checked_late_data",
    "is_tagged",
    "side_output_columns",
    "split_by_tag",
]
