"""`mapInArrow`, as an expression that can be kept, and without pandas.

`DataFrame.mapInArrow` refuses to begin where pandas is not installed, because PySpark makes its expression with
`pandas_udf`. Neither Spark nor its worker uses pandas for it, so the expression is made one step below.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas import functions as vectorized
from pyspark.util import PythonEvalType

from state_engine.spark.wire.names import quote_always


class ArrowMap:
    """`mapInArrow` of one function, kept in the JVM.

    Args:
        session: Any session of the context.
        function: The function that runs in the workers; it must not change.
        ddl: Columns of its output.
        columns: Columns of its input.
    """

    def __init__(self, session: SparkSession, function: Callable[..., Any], ddl: str, columns: Sequence[str]) -> None:
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        udf = vectorized.vectorized_udf(function, ddl, kind)  # type: ignore[attr-defined]
        self._column = udf(*(F.col(quote_always(c)) for c in columns))._jc

    def apply(self, stream: DataFrame) -> DataFrame:
        """Returns the output of the function over a stream."""
        return DataFrame(stream._jdf.mapInArrow(self._column, False, None), stream.sparkSession)


def map_in_arrow(stream: DataFrame, function: Callable[..., Any], ddl: str) -> DataFrame:
    """Returns the output of a function over the Arrow batches of a stream's partitions.

    Args:
        stream: Its input.
        function: The function that runs in the workers: from an iterator of record batches to one.
        ddl: Columns of its output.
    """
    return ArrowMap(stream.sparkSession, function, ddl, stream.columns).apply(stream)


__all__ = ["ArrowMap", "map_in_arrow"]
