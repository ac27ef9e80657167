"""Inspects Spark's logical plans, which only the JVM has."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def items(sequence: Any) -> list[Any]:
    """Returns the items of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


def nodes(df: DataFrame) -> Iterator[Any]:
    """Yields the nodes of the analysed plan, from the last step back to the sources."""
    return below(df._jdf.queryExecution().analyzed())


def below(plan: Any) -> Iterator[Any]:
    """Yields a node of a plan, of any kind, and all nodes below it."""
    yield plan
    for child in items(plan.children()):
        yield from below(child)


def kind_of(node: Any) -> str:
    """Returns the name of a node's class: `Project`, `Aggregate`, …."""
    name: str = node.getClass().getSimpleName()
    return name


def are_rows(node: Any) -> bool:
    """Returns whether a node is a leaf of rows that already exist, as a micro-batch in Spark."""
    return kind_of(node) == "LogicalRDD"


def rows_of_partitions(jdf: Any, numbers: Iterable[int] | None, session: SparkSession) -> DataFrame:
    """Returns the rows of some partitions of a DataFrame's physical plan; the others are not read; nothing is run yet.

    A plan that is built on the result begins at an RDD. So Spark's optimiser cannot push a step of one reader below the
    exchange that several share, and make two of it.

    Args:
        jdf: The DataFrame in the JVM.
        numbers: Numbers of the partitions; None for all.
        session: The DataFrame's session.
    """
    rows, jvm = jdf.queryExecution().toRdd(), session.sparkContext._jvm
    if numbers is not None:
        wanted = jvm.PythonUtils.toSeq(list(numbers)).toSet()  # type: ignore[union-attr]  # in Scala a set is a function
        rows = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, wanted)  # type: ignore[union-attr]
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, jdf.schema(), False), session)


class RowsAtHand:
    """Makes plan nodes for rows that already exist, with other columns or another partitioning.

    Args:
        jvm: Spark's JVM.

    Attributes:
        one_partition: The partitioning that declares all rows to be in one partition.
        unknown: The partitioning that declares nothing.
    """

    def __init__(self, jvm: Any) -> None:
        partitioning = jvm.org.apache.spark.sql.catalyst.plans.physical
        self.one_partition = getattr(getattr(partitioning, "SinglePartition$"), "MODULE$")
        self.unknown = partitioning.UnknownPartitioning(0)
        self._nothing, self._no_order = jvm.scala.Option.empty(), jvm.PythonUtils.toSeq([])

    def described(self, rows: Any, columns: Any, rdd: Any, partitioning: Any, session: Any) -> Any:
        """Returns a node of an RDD's rows.

        Args:
            rows: Any node for which `are_rows` is true.
            columns: Attributes of the rows.
            rdd: The rows.
            partitioning: One of this object's partitionings.
            session: The session in the JVM.
        """
        fields = columns, rdd, partitioning, self._no_order, False, self._nothing
        return rows.copy(*fields, session, self._nothing, self._nothing)


def random_expression(df: DataFrame) -> str | None:
    """Returns an expression that gives another value when it is evaluated again; None if the plan has none."""
    for node in nodes(df):
        for expression in items(node.expressions()):
            if not expression.deterministic():
                text: str = expression.toString()
                return text
    return None


def found_in(df: DataFrame, is_it: Callable[[Any], bool]) -> str | None:
    """Returns the first expression, on any level, for which `is_it` returns True; None if the plan has none."""
    for node in nodes(df):
        for expression in items(node.expressions()):
            for one in below(expression):
                if is_it(one):
                    text: str = one.toString()
                    return text
    return None


__all__ = [
    "RowsAtHand",
    "are_rows",
    "below",
    "found_in",
    "items",
    "kind_of",
    "nodes",
    "random_expression",
    "rows_of_partitions",
]
