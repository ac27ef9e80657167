"""Looking into Spark's logical plans, which only the JVM has."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def items(sequence: Any) -> list[Any]:
    """Returns the items of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


def nodes(df: DataFrame) -> Iterator[Any]:
    """Yields the nodes of the analysed plan, from the last step back to the sources."""
    return _below(df._jdf.queryExecution().analyzed())


def _below(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _below(child)


def kind_of(node: Any) -> str:
    """Returns the name of a node's class: `Project`, `Aggregate`, …."""
    name: str = node.getClass().getSimpleName()
    return name


def random_expression(df: DataFrame) -> str | None:
    """Returns an expression that gives another value when it is evaluated again, None if there is none."""
    for node in nodes(df):
        for expression in items(node.expressions()):
            if not expression.deterministic():
                found: str = expression.toString()
                return found
    return None


__all__ = ["items", "kind_of", "nodes", "random_expression"]
