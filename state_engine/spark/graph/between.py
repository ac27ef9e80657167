"""Checks what is put between two operators: only expressions that make one record of one record are allowed.

Barriers travel among the records, with nulls in the author's columns. An expression that looks at several records, or
makes several of one, would lose the barriers; it is refused when the job is built.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.spark.graph.plans import found_in, items, kind_of, nodes, random_expression

_PLAIN = {"Project", "Filter"}
_CONDITIONS = {"UNSUPPORTED_GENERATOR": "Generate", "MISSING_GROUP_BY": "Aggregate", "MISSING_AGGREGATION": "Aggregate"}
"""Spark's own error conditions for such expressions where it does not allow them, with their kinds."""
_NOT_PLAIN = {
    "Generate": "a generator, which makes several records of one, or none",
    "Aggregate": "an aggregate, which makes one record of several",
    "Window": "a window function, which looks at several records",
}


def selected(frame: DataFrame, *expressions: str) -> DataFrame:
    """Returns an empty DataFrame with the columns that `select` gives.

    Args:
        frame: An empty DataFrame of the stream's columns.
        expressions: The expressions, in Spark SQL.

    Raises:
        JobDefinitionError: Spark rejects the expressions.
        UnsupportedTopologyError: They are not deterministic, or not record by record.
    """
    return _checked(frame, f"select({', '.join(expressions)})", lambda: frame.selectExpr(*expressions))


def check_condition(frame: DataFrame, condition: str) -> None:
    """Refuses a condition that `where` cannot have; raises as `selected` does."""
    what = f"where({condition})"
    # As a column first: in a condition Spark refuses all of these with the same error, which does not name their kind.
    _checked(frame, what, lambda: frame.selectExpr(f"({condition})"))
    _checked(frame, what, lambda: frame.where(condition))


def taken(frame: DataFrame, what: str, make: Callable[[], DataFrame]) -> DataFrame:
    """Returns the DataFrame that Spark makes of another one.

    Args:
        frame: An empty DataFrame of the stream's columns.
        what: What the author wrote.
        make: Calls Spark.

    Raises:
        JobDefinitionError: Spark rejects it.
    """
    try:
        with _without_log_lines():
            return make()
    except AnalysisException as error:
        raise JobDefinitionError(
            f"Spark does not take {what}: {_reason(error)}",
            action=f"Fix the expression; the stream has the columns {', '.join(frame.columns)}.",
        ) from error


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """Keeps PySpark from writing an error, with all frames of Java, to the log as well: it is raised."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _reason(error: AnalysisException) -> str:
    """Returns the first line with text: the text of a syntax error begins with an empty line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _checked(frame: DataFrame, what: str, make: Callable[[], DataFrame]) -> DataFrame:
    try:
        changed = taken(frame, what, make)
    except JobDefinitionError as error:
        condition = error.__cause__.getCondition() if isinstance(error.__cause__, AnalysisException) else None
        kind = _CONDITIONS.get((condition or "").partition(".")[0])
        if kind is not None:
            raise _not_plain(what, kind) from error
        raise
    for node in nodes(changed):
        if kind_of(node) not in _PLAIN and items(node.children()):
            raise _not_plain(what, kind_of(node))
    if (variable := found_in(changed, lambda one: kind_of(one) == "VariableReference")) is not None:
        raise JobDefinitionError(
            f"{what} reads the session variable {variable}, which Spark does not give to a stream's batches.",
            action="Put its value into the expression when the job is built.",
        )
    if (random := random_expression(changed)) is not None:
        raise UnsupportedTopologyError(
            f"{random} gives another value when an epoch runs again.", action="Compute it in the function."
        )
    return changed


def _not_plain(what: str, kind: str) -> UnsupportedTopologyError:
    return UnsupportedTopologyError(
        f"{what} between operators has {_NOT_PLAIN.get(kind, kind)}.",
        action="Do it in the function of the operator before it, or of the next one.",
    )


__all__ = ["check_condition", "selected", "taken"]
