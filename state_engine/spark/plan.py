"""From a micro-batch to the acks of its epoch: one Spark job (E2).

```
 batch ∪ control rows ─> repartitionById ─> sort ─> operator 1 ─> steps ─> repartitionById ─> sort ─> operator 2 ─> acks
```

Each operator has exactly one consumer in Spark, the exchange to the next one; outputs for sinks are staged by the
tasks. So nothing runs twice, and one action runs it all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.api.types import StructType, quote
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.spark.graph import MapStep, OperatorNode, SelectStep, Step, WhereStep
from state_engine.spark.map_function import MapFunction
from state_engine.spark.schemas import ddl_of
from state_engine.spark.task import TaskFunction
from state_engine.spark.wire import CONTROL, GROUP, KIND, MARK, RECORD, WIRE_DDL


@dataclass(frozen=True)
class PlannedOperator:
    """An operator with what its tasks are sent."""

    node: OperatorNode
    function: TaskFunction


class EpochPlanner:
    """Builds the DataFrame whose rows are the barriers of an epoch's last operator."""

    def __init__(self, operators: Sequence[PlannedOperator]) -> None:
        self._operators = tuple(operators)

    def acks(self, batch: DataFrame, plan: EpochPlan) -> DataFrame:
        """Returns one row per subtask of the last operator, with one binary column.

        Args:
            batch: The micro-batch, or an empty frame of its schema for an idle epoch.
            plan: The epoch.
        """
        plans = {p.uid: p for p in plan.operators}
        stream: DataFrame | None = None
        for planned in self._operators:
            node, own = planned.node, plans[planned.node.uid]
            if stream is None:
                stream = _with_control_rows(batch, node, own)
            else:
                stream = _routed_columns(_apply_steps(stream, node.steps), node, own)
            stream = _exchange(stream, node, own).mapInArrow(planned.function, _output_ddl(node))
        assert stream is not None
        return stream


def _output_ddl(node: OperatorNode) -> str:
    return f"{CONTROL} binary" if node.downstream is None else f"{ddl_of(node.output)}, {WIRE_DDL}"


def _columns(struct: StructType) -> list[str]:
    return [quote_always(name) for name in struct.names]


def quote_always(name: str) -> str:
    """Returns a column name as Spark SQL takes any name."""
    quoted = quote(name)
    return quoted if quoted.startswith("`") else f"`{name}`"


def group_expression(node: OperatorNode, max_parallelism: int) -> str:
    """Returns the key group of a record, as Spark SQL; without a key, records are spread by all their columns."""
    names = node.key or tuple(
        n for n, t in zip(node.input.names, node.input.types, strict=True) if "map<" not in t.ddl()
    )
    hashed = f"xxhash64({', '.join(map(quote_always, names))})" if names else "0"
    return f"cast(pmod({hashed}, {max_parallelism}) as int)"


def _with_control_rows(batch: DataFrame, node: OperatorNode, own: OperatorPlan) -> DataFrame:
    records = batch.selectExpr(
        *_columns(node.input),
        f"cast({RECORD} as tinyint) as {KIND}",
        f"{group_expression(node, own.max_parallelism)} as {GROUP}",
        f"cast(null as binary) as {CONTROL}",
    )
    return records.union(_control_rows(batch.sparkSession, node.input, own))


def _control_rows(session: SparkSession, struct: StructType, own: OperatorPlan) -> DataFrame:
    """One row per subtask, in its first key group: without them an empty batch runs no subtask at all."""
    p, m = own.parallelism, own.max_parallelism
    nulls = [f"cast(null as {t.ddl()}) as {quote_always(n)}" for n, t in zip(struct.names, struct.types, strict=True)]
    return session.range(0, p, 1, 1).selectExpr(
        *nulls,
        f"cast({MARK} as tinyint) as {KIND}",
        f"cast((id * {m} + {p - 1}) div {p} as int) as {GROUP}",
        f"cast(null as binary) as {CONTROL}",
    )


def _apply_steps(stream: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Applies what the author put between two operators; barriers pass untouched."""
    wire = [KIND, GROUP, CONTROL]
    for step in steps:
        match step:
            case SelectStep(expressions):
                stream = stream.selectExpr(*expressions, *wire)
            case WhereStep(condition):
                stream = stream.where(f"{KIND} = {MARK} or ({condition})")
            case MapStep():
                ddl = f"{ddl_of(step.output)}, {WIRE_DDL}"
                stream = stream.mapInArrow(MapFunction(step.function, step.input, step.output), ddl)
    return stream


def _routed_columns(stream: DataFrame, node: OperatorNode, own: OperatorPlan) -> DataFrame:
    return stream.selectExpr(
        *_columns(node.input),
        KIND,
        f"coalesce({GROUP}, {group_expression(node, own.max_parallelism)}) as {GROUP}",
        CONTROL,
    )


def _exchange(stream: DataFrame, node: OperatorNode, own: OperatorPlan) -> DataFrame:
    subtask: Any = F.expr(f"cast({GROUP} * {own.parallelism} div {own.max_parallelism} as int)")
    routed = stream.repartitionById(own.parallelism, subtask)
    if not node.order_by:
        return routed
    return routed.sortWithinPartitions(KIND, *(F.expr(quote_always(name)) for name in node.order_by))


__all__ = ["EpochPlanner", "PlannedOperator", "group_expression", "quote_always"]
