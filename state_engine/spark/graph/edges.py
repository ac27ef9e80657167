"""Steps that an author puts on the way from a source or an operator to the next one, and which ways may meet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from state_engine.errors import UnsupportedTopologyError
from state_engine.runtime.shared_columns import OWN
from state_engine.spark.graph.computed import with_computed
from state_engine.spark.graph.dry import DryFrame
from state_engine.spark.graph.nodes import ComputeStep, Edge, SelectStep, SourceNode, Step, TimeStep, WhereStep
from state_engine.spark.graph.timing import with_event_time
from state_engine.spark.graph.upstream import check_upstream
from state_engine.spark.wire.names import quote_always


def with_step(edge: Edge, step: Step) -> Edge:
    """Returns an edge with one more step: after a source it is part of the DataFrame, otherwise the planner applies it.

    Args:
        edge: The edge so far.
        step: The next step.

    Raises:
        UnsupportedTopologyError: The step is not possible there.
        UnsupportedUpstreamError: Before the first operator, the step brings state or randomness.
    """
    origin = edge.origin
    strategy = step.strategy if isinstance(step, TimeStep) else edge.strategy
    if isinstance(origin, SourceNode):
        changed: Any = _transformed(origin.df, step, origin.name)
        if not isinstance(changed, DryFrame):
            check_upstream(changed)
        return replace(edge, origin=replace(origin, df=changed), strategy=strategy)
    return replace(edge, steps=(*edge.steps, step), strategy=strategy)


def _transformed(df: DataFrame, step: Step, source: str) -> DataFrame:
    stream: Any = df
    if isinstance(stream, DryFrame) and not isinstance(step, ComputeStep):
        return stream.after(step.expressions if isinstance(step, SelectStep) else ("*",))  # type: ignore[return-value]
    match step:
        case SelectStep():
            return _selected(df, step)
        case WhereStep(condition):
            return df.where(condition)
        case ComputeStep(compute, records, computed):
            return with_computed(df, records, compute, computed, source=source)
        case TimeStep(records, strategy, columns):
            return with_event_time(df, records, strategy, columns, source=source)
    raise _misplaced()


def _misplaced() -> UnsupportedTopologyError:
    return UnsupportedTopologyError(
        "This transformation is possible only between two operators.",
        action="Transform the DataFrame before from_stream(), or the rows inside the function; "
        "map(..., uid=...) is an operator itself.",
    )


def _selected(df: DataFrame, step: SelectStep) -> DataFrame:
    """Returns the result of the expressions with our columns added, also if an expression is `*`."""
    ours = [name for name in df.columns if name.startswith(OWN)]
    kept = [f"{name} as {name}_kept" for name in ours]
    changed = df.selectExpr(*step.expressions, *kept)
    if not ours:
        return changed
    names = [name for name in changed.columns if not name.startswith(OWN)]
    return changed.selectExpr(*map(quote_always, names), *(f"{name}_kept as {name}" for name in ours))


def check_distinct(edges: Sequence[Edge]) -> None:
    """Raises UnsupportedTopologyError if two streams that come together begin at one source."""
    numbers: set[int] = set()
    for origin in (edge.origin for edge in edges):
        if not isinstance(origin, SourceNode):
            continue
        if origin.number in numbers:
            raise UnsupportedTopologyError(
                f"The source {origin.name!r} comes together with itself; an epoch would read it twice.",
                action="Put an operator after it, map(lambda row: row, ..., uid=...): its output may come together "
                "with itself. Or read the source a second time, with a spark.readStream of its own.",
            )
        numbers.add(origin.number)


__all__ = ["check_distinct", "with_step"]
