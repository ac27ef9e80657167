"""From a micro-batch to the acks of its epoch: one Spark job (E2).

```
 batch ∪ control rows ─> repartitionById ─> sort ─> operator 1 ─> steps ─> repartitionById ─> sort ─> operator 2 ─> acks
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
from state_engine.spark.task import TaskFunction
from state_engine.spark.wire import CONTROL, CONTROL_DDL, IS_MARK


@dataclass(frozen=True)
class PlannedOperator:
    """An operator with what its tasks are sent."""

    node: OperatorNode
    function: TaskFunction


class EpochPlanner:
    """Builds the DataFrame whose rows are the barriers of an epoch's last operator."""

    def __init__(self, operators: Sequence[PlannedOperator]) -> None:
        self._operators = tuple(operators)
        self._prepared: dict[tuple[int, str, int], Prepared] = {}

    def acks(self, batch: DataFrame, plan: EpochPlan) -> DataFrame:
        """Returns one row per subtask of the last operator, with one binary column.

        Args:
            batch: The micro-batch, or an empty frame of its schema for an idle epoch.
            plan: The epoch.
        """
        plans = {p.uid: p for p in plan.operators}
        stream = batch
        for index, planned in enumerate(self._operators):
            prepared = self._prepare(batch, planned, plans[planned.node.uid], first=index == 0)
            stream = prepared.route(_apply_steps(stream, planned.node.steps))
        return stream

    def _prepare(self, batch: DataFrame, planned: PlannedOperator, own: OperatorPlan, *, first: bool) -> Prepared:
        """A query's batches share one session; idle epochs have one of their own."""
        session = batch.sparkSession
        key = (session._jsparkSession.hashCode(), own.uid, own.parallelism)
        if key not in self._prepared:
            self._prepared[key] = Prepared(session, planned.node, planned.function, own, first=first)
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
