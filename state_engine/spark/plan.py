"""From a micro-batch to the acks of its epoch: one Spark job (E2).

```
 batch ∪ control rows ─> repartitionById ─> sort ─> operator 1 ─> steps ─┐
                                    further records of the batch, if any ┴> repartitionById ─> sort ─> operator 2 ─> …
```

Each operator has exactly one consumer in Spark, the exchange to the next one; outputs for sinks are staged by the
tasks. So nothing runs twice, and one action runs it all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.spark.graph import MapStep, OperatorNode, SelectStep, Step, WhereStep
from state_engine.spark.map_runner import MapRunner
from state_engine.spark.prepared import Prepared
from state_engine.spark.schemas import ddl_of
from state_engine.spark.sources import Sources
from state_engine.spark.task import TaskFunction
from state_engine.spark.wire import CONTROL, CONTROL_DDL, IS_MARK


@dataclass(frozen=True)
class PlannedOperator:
    """An operator with what its tasks are sent."""

    node: OperatorNode
    function: TaskFunction


class EpochPlanner:
    """Builds the DataFrame whose rows are the barriers of an epoch's last operator.

    Args:
        operators: Upstream first.
        sources: What the batches are made of.
    """

    def __init__(self, operators: Sequence[PlannedOperator], sources: Sources) -> None:
        self._operators = tuple(operators)
        self._sources = sources
        self._prepared: dict[tuple[int, str, int], Prepared] = {}

    def acks(self, batch: DataFrame, plan: EpochPlan) -> DataFrame:
        """Returns one row per subtask of the last operator, with one binary column.

        Args:
            batch: The micro-batch, or an empty frame of its schema for an idle epoch.
            plan: The epoch.
        """
        plans = {p.uid: p for p in plan.operators}
        outputs: dict[str, DataFrame] = {}
        for planned in self._operators:
            node = planned.node
            prepared = self._prepare(batch, planned, plans[node.uid])
            arriving = [_apply_steps(outputs[upstream.uid], edge.steps) for upstream, edge in node.upstream]
            outputs[node.uid] = prepared.route(batch, arriving)
        return outputs[self._operators[-1].node.uid]

    def _prepare(self, batch: DataFrame, planned: PlannedOperator, own: OperatorPlan) -> Prepared:
        """A query's batches share one session; idle epochs have one of their own."""
        session = batch.sparkSession
        key = (session._jsparkSession.hashCode(), own.uid, own.parallelism)
        if key not in self._prepared:
            self._prepared[key] = Prepared(session, planned.node, planned.function, own, self._sources)
        return self._prepared[key]


def _apply_steps(stream: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Applies what the author put between two operators; barriers pass untouched."""
    for step in steps:
        match step:
            case SelectStep(expressions):
                stream = stream.selectExpr(*expressions, CONTROL)
            case WhereStep(condition):
                stream = stream.where(f"{IS_MARK} or ({condition})")
            case MapStep():
                ddl = f"{ddl_of(step.output)}, {CONTROL_DDL}"
                stream = stream.mapInArrow(MapRunner(step.function, step.input, step.output), ddl)
    return stream


__all__ = ["EpochPlanner", "PlannedOperator"]
