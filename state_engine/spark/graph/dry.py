"""A stand-in for a Spark session that reads nothing: enough to build a job if its sources declare their schemas."""

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.spark.wire.schemas import struct_of


class NeedsSparkError(JobDefinitionError):
    """Only Spark can say what a job does to its streams."""


class DrySession:
    """A session that gives streams which know their columns and nothing else."""

    @property
    def readStream(self) -> "DryReader":
        """A reader, as Spark's."""
        return DryReader()

    def __getattr__(self, name: str) -> NoReturn:
        raise _needs_spark(f"spark.{name}")


class DryReader:
    """`spark.readStream`, as far as columns are concerned."""

    def __init__(self) -> None:
        self._kind = ""
        self._columns: StructType | None = None

    def schema(self, schema: Any) -> "DryReader":
        """Declares the columns, as a DDL string or a `StructType` of Spark."""
        self._columns = parse_columns_ddl(schema) if isinstance(schema, str) else struct_of(schema, "the source")
        return self

    def format(self, source: str) -> "DryReader":
        """Names the kind of source."""
        self._kind = source
        return self

    def option(self, key: str, value: object) -> "DryReader":
        """Ignores an option."""
        return self

    def options(self, **options: object) -> "DryReader":
        """Ignores options."""
        return self

    def load(self, path: str | None = None, format: str | None = None, **options: object) -> "DryFrame":
        """Returns the stream."""
        kind = format or self._kind or "parquet"
        if self._columns is None:
            raise _needs_spark(f"a {kind} source without .schema(...)")
        return DryFrame(self._columns, kind)

    def __getattr__(self, name: str) -> Any:
        if name not in ("csv", "json", "orc", "parquet", "text", "xml"):
            raise _needs_spark(f"readStream.{name}")
        return lambda path=None, **options: self.load(path, format=name)


class DryFrame:
    """A stream of known columns.

    Attributes:
        columns_type: Its columns.
        kind: Kind of the source.
    """

    def __init__(self, columns_type: StructType, kind: str) -> None:
        self.columns_type = columns_type
        self.kind = kind
        self.sparkSession = DrySession()

    def after(self, expressions: Sequence[str]) -> "DryFrame":
        """Returns the stream after a `select`; raises as `selected_columns` does."""
        return DryFrame(selected_columns(self.columns_type, expressions), self.kind)

    def __getattr__(self, name: str) -> NoReturn:
        raise _needs_spark(f"DataFrame.{name}")


_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_COLUMN = re.compile(rf"\s*({_NAME})(?:\s+as\s+({_NAME}))?\s*", re.IGNORECASE)
_CAST = re.compile(rf"\s*\(?cast\(.*\s+as\s+([^()]+|decimal\(\d+,\s*\d+\))\)\)?\s+as\s+({_NAME})\s*", re.IGNORECASE)


def selected_columns(columns: StructType, expressions: Sequence[str]) -> StructType:
    """Returns the columns of a `select`, as far as they are known without Spark: `*`, names, and casts with a name.

    Raises:
        NeedsSparkError: There is another expression; only Spark knows its type.
        JobDefinitionError: A column is missing.
    """
    by_name = {name.lower(): (name, type_) for name, type_ in zip(columns.names, columns.types, strict=True)}
    selected: list[tuple[str, Any]] = []
    for expression in expressions:
        if expression.strip() == "*":
            selected += by_name.values()
        elif cast := _CAST.fullmatch(expression):
            selected.append((_plain(cast.group(2)), parse_columns_ddl(f"x {cast.group(1)}").types[0]))
        elif column := _COLUMN.fullmatch(expression):
            name, given = by_name.get(_plain(column.group(1)).lower(), (None, None))
            if given is None:
                raise JobDefinitionError(
                    f"select() got the column {column.group(1)}; the stream has {', '.join(columns.names)}.",
                    action="Check the spelling.",
                )
            selected.append((_plain(column.group(2)) if column.group(2) else str(name), given))
        else:
            raise _needs_spark(f"select({expression!r})")
    return StructType(tuple(name for name, _ in selected), tuple(type_ for _, type_ in selected))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _needs_spark(what: str) -> NeedsSparkError:
    return NeedsSparkError(
        f"The job uses {what}; without Spark the columns that it gives are not known.",
        action="Explain it with --spark, which starts a local session.",
    )


__all__ = ["DryFrame", "DrySession", "NeedsSparkError", "selected_columns"]
