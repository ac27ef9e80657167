"""Expressions of an epoch's plan on the JVM's side, made once for a query.

Building a plan by Spark's Python API costs a call into the JVM per column and epoch; the same expressions can be
given to each epoch's DataFrame (16 calls into the JVM an epoch instead of 76, with one operator).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from state_engine.api.types import StructType
from state_engine.epoch.ports import OperatorPlan
from state_engine.spark.graph import OperatorNode
from state_engine.spark.names import quote_always
from state_engine.spark.schemas import ddl_of
from state_engine.spark.wire import CONTROL, GROUP, KIND, MARK, RECORD, WIRE_DDL


class ArrowMap:
    """`mapInArrow` of one function, kept as the JVM has it.

    Args:
        session: Any session of the context.
        function: What runs in the workers; it must not change.
        ddl: Columns of its output.
        columns: Columns of its input.
    """

    def __init__(self, session: SparkSession, function: Callable[..., Any], ddl: str, columns: Sequence[str]) -> None:
        udf = pandas_udf(function, returnType=ddl, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
        self._column = udf(*(F.col(quote_always(c)) for c in columns))._jc

    def apply(self, stream: DataFrame) -> DataFrame:
        """Returns the output of the function over a stream."""
        return DataFrame(stream._jdf.mapInArrow(self._column, False, None), stream.sparkSession)


class Prepared:
    """One operator at one parallelism: how its input is routed, and the function over it."""

    def __init__(
        self, session: SparkSession, node: OperatorNode, function: Callable[..., Any], own: OperatorPlan, *, first: bool
    ) -> None:
        self._session = session
        self._node = node
        self._own = own
        self._first = first
        columns = [*node.input.names, KIND, GROUP, CONTROL]
        output = f"{CONTROL} binary" if node.downstream is None else f"{ddl_of(node.output)}, {WIRE_DDL}"
        self._map = ArrowMap(session, function, output, columns)

    def route(self, stream: DataFrame) -> DataFrame:
        """Adds our columns (to a source's records, with a control row per subtask), exchanges and sorts."""
        jdf = stream._jdf.selectExpr(self._select)
        if self._first:
            jdf = jdf.union(self._control_rows._jdf)
        jdf = jdf.repartitionById(self._own.parallelism, self._subtask)
        if self._node.order_by:
            jdf = jdf.sortWithinPartitions(self._order)
        return self._map.apply(DataFrame(jdf, stream.sparkSession))

    @cached_property
    def _select(self) -> Any:
        group = group_expression(self._node, self._own.max_parallelism)
        wire = [KIND, f"coalesce({GROUP}, {group}) as {GROUP}", CONTROL]
        if self._first:
            wire = [f"cast({RECORD} as tinyint) as {KIND}", f"{group} as {GROUP}", f"cast(null as binary) as {CONTROL}"]
        return self._sequence([*map(quote_always, self._node.input.names), *wire])

    @cached_property
    def _control_rows(self) -> DataFrame:
        """One row per subtask, in its first key group: without them an empty batch runs no subtask at all."""
        p, m = self._own.parallelism, self._own.max_parallelism
        struct: StructType = self._node.input
        nulls = [
            f"cast(null as {t.ddl()}) as {quote_always(n)}" for n, t in zip(struct.names, struct.types, strict=True)
        ]
        return self._session.range(0, p, 1, 1).selectExpr(
            *nulls,
            f"cast({MARK} as tinyint) as {KIND}",
            f"cast((id * {m} + {p - 1}) div {p} as int) as {GROUP}",
            f"cast(null as binary) as {CONTROL}",
        )

    @cached_property
    def _subtask(self) -> Any:
        column: Any = F.expr(f"cast({GROUP} * {self._own.parallelism} div {self._own.max_parallelism} as int)")
        return column._jc

    @cached_property
    def _order(self) -> Any:
        columns: list[Any] = [F.col(KIND), *(F.col(quote_always(name)) for name in self._node.order_by)]
        return self._sequence([c._jc for c in columns])

    def _sequence(self, items: list[Any]) -> Any:
        jvm: Any = self._session.sparkContext._jvm
        return jvm.PythonUtils.toSeq(items)


def group_expression(node: OperatorNode, max_parallelism: int) -> str:
    """Returns the key group of a record, as Spark SQL; without a key, records are spread by all their columns."""
    names = node.key or tuple(
        n for n, t in zip(node.input.names, node.input.types, strict=True) if "map<" not in t.ddl()
    )
    hashed = f"xxhash64({', '.join(map(quote_always, names))})" if names else "0"
    return f"cast(pmod({hashed}, {max_parallelism}) as int)"


__all__ = ["ArrowMap", "Prepared", "group_expression"]
