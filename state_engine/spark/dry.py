"""A stand-in for a Spark session that reads nothing: enough to build a job whose sources declare their schema."""

from typing import Any, NoReturn

from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.spark.schemas import struct_of


class NeedsSparkError(JobDefinitionError):
    """Only Spark can say what a job does to its streams."""


class DrySession:
    """Gives streams that know their columns and nothing else."""

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
        kind: Of the source.
    """

    def __init__(self, columns_type: StructType, kind: str) -> None:
        self.columns_type = columns_type
        self.kind = kind
        self.sparkSession = DrySession()

    def __getattr__(self, name: str) -> NoReturn:
        raise _needs_spark(f"DataFrame.{name}")


def _needs_spark(what: str) -> NeedsSparkError:
    return NeedsSparkError(
        f"The job uses {what}; without Spark nobody knows the columns that it gives.",
        action="Explain it with --spark, which starts a local session.",
    )


__all__ = ["DryFrame", "DrySession", "NeedsSparkError"]
