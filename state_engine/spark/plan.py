"""From a micro-batch to the acks of its epoch: one Spark job (E2).

```
 batch ∪ control rows ─> repartitionById ─> sort ─> operator 1 ─> steps ─┐
                                    further records of the batch, if any ┴> repartitionById ─> sort ─> operator 2 ─> …
```

Each operator has exactly one consumer in Spark, the exchange to the next one; outputs for sinks are staged by the
tasks. Where several operators read one, that consumer is an exchange more, which all of them read (`fan_out.py`). So
nothing runs twice, and one action runs it all: what it collects are the barriers of all operators that no other reads.
Operators between which nothing needs an exchange are one task (a chain): what stands for `operator` above may be
several.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from state_engine.api.types import StructType, Types
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.log.records import Barrier
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.computed import computing, extended
from state_engine.spark.graph import ComputeStep, MapStep, OperatorNode, SelectStep, Step, TimeStep, WhereStep
from state_engine.spark.local_aggregation import AggPhaseStrategy, Phases, local_aggregation
from state_engine.spark.map_runner import MapRunner
from state_engine.spark.names import quote_always
from state_engine.spark.plan_template import PlanTemplate
from state_engine.spark.preferred_locations import PreferredLocations
from state_engine.spark.prepared import Prepared
from state_engine.spark.schemas import ddl_of
from state_engine.spark.sources import Sources
from state_engine.spark.task import TaskFunction
from state_engine.spark.timing import assigning
from state_engine.spark.wire import CONTROL, IS_MARK, OUR_DDL, PARTITION


@dataclass(frozen=True)
class PlannedChain:
    """A chain of operators with what its tasks are sent."""

    nodes: tuple[OperatorNode, ...]
    function: TaskFunction

    @property
    def head(self) -> OperatorNode:
        """The operator that the exchange feeds."""
        return self.nodes[0]

    @property
    def tail(self) -> OperatorNode:
        """The operator whose outputs go on."""
        return self.nodes[-1]


class EpochPlanner:
    """Builds the DataFrame whose rows are the barriers of an epoch's last operators.

    Args:
        chains: All operators, task by task, upstream first.
        sources: What the batches are made of.
        strategy: Whether Spark aggregates records first where that may be.
        locations: Where subtasks prefer to run; None for wherever Spark likes.
    """

    def __init__(
        self,
        chains: Sequence[PlannedChain],
        sources: Sources,
        strategy: AggPhaseStrategy = "AUTO",
        locations: PreferredLocations | None = None,
    ) -> None:
        self._chains = tuple(chains)
        self._sources = sources
        self._prepared: dict[tuple[int, str, int], Prepared] = {}
        self._templates: dict[tuple[object, ...], PlanTemplate | None] = {}
        self._phases = Phases(strategy)
        self._local = [one for one in self._chains if local_aggregation(one.head) is not None]
        self._locations = locations

    def acks(self, batch: DataFrame, plan: EpochPlan) -> DataFrame:
        """Returns one row per subtask of each operator that no other reads, with one binary column.

        Args:
            batch: The micro-batch, or an empty frame of its schema for an idle epoch.
            plan: The epoch.
        """
        partials = self._partials(batch, plan)
        if self._locations is not None or len(partials) > 1:
            return self._built(batch, plan, partials)  # parts of the plan are RDDs, other ones in each epoch
        [rows] = partials.values() if partials else [batch]
        key = self._session_of(batch), *partials, *(p.parallelism for p in plan.operators)
        template = self._templates.get(key)
        filled = template.filled(rows) if template is not None else None
        if filled is not None:
            return filled
        frame = self._built(batch, plan, partials)
        if key not in self._templates:
            self._templates[key] = PlanTemplate.of(frame, rows)
        return frame

    def _partials(self, batch: DataFrame, plan: EpochPlan) -> dict[str, DataFrame]:
        """Returns what Spark aggregates first, by operator."""
        plans = {p.uid: p for p in plan.operators}
        two = [(one, own) for one in self._local if self._phases.two(own := plans[one.head.uid])]
        made = {own.uid: self._prepare(batch, one, own).partials(batch) for one, own in two}
        return {uid: rows for uid, rows in made.items() if rows is not None}

    def _built(self, batch: DataFrame, plan: EpochPlan, partials: Mapping[str, DataFrame]) -> DataFrame:
        plans = {p.uid: p for p in plan.operators}
        outputs: dict[tuple[str, str], DataFrame] = {}
        ends: list[DataFrame] = []
        for planned in self._chains:
            node = planned.head
            prepared = self._prepare(batch, planned, plans[node.uid])
            arriving = [
                _apply_steps(outputs[one.uid, node.edges[n].output], node.edges[n].steps, one)
                for one, n in node.upstream
            ]
            stream = prepared.route(batch, arriving, partials.get(node.uid))
            if self._locations is not None:
                stream = self._locations.prefer(stream, node.uid, plans[node.uid].parallelism)
            made = prepared.outputs(stream)
            outputs |= {(planned.tail.uid, output): frame for output, frame in made.items()}
            if not made:
                ends.append(stream)
        return reduce(DataFrame.union, ends)

    def learn(self, plan: EpochPlan, barriers: Iterable[Barrier]) -> None:
        """Takes what an epoch has done, for the plan of the next one."""
        self._phases.learn(plan.operators, [ack for barrier in barriers for ack in barrier.acks])

    def _prepare(self, batch: DataFrame, planned: PlannedChain, own: OperatorPlan) -> Prepared:
        """A query's batches share one session; idle epochs have one of their own."""
        session = batch.sparkSession
        key = (self._session_of(batch), own.uid, own.parallelism)
        if key not in self._prepared:
            self._prepared[key] = Prepared(session, planned.head, planned.tail, planned.function, own, self._sources)
        return self._prepared[key]

    @staticmethod
    def _session_of(batch: DataFrame) -> int:
        number: int = batch.sparkSession._jsparkSession.hashCode()
        return number


def _apply_steps(stream: DataFrame, steps: Sequence[Step], upstream: OperatorNode) -> DataFrame:
    """Applies what the author put between two operators; barriers pass untouched, and event times stay.

    Args:
        stream: The output of an operator.
        steps: The steps, in order.
        upstream: That operator.
    """
    ours, uid = [EVENT_TIME, CONTROL] if upstream.emits_event_time else [CONTROL], upstream.uid
    for step in steps:
        match step:
            case SelectStep(expressions):
                stream = stream.selectExpr(*expressions, *ours)
            case WhereStep(condition):
                stream = stream.where(f"{IS_MARK} or ({condition})")
            case MapStep():
                stream = _mapped(stream, step.function, step.input, step.output, ours, uid)
            case ComputeStep(compute, records, computed):
                stream = _mapped(stream, computing(compute, records), records, extended(records, computed), ours, uid)
            case TimeStep(records, strategy, columns):
                if strategy.assigner is not None:
                    with_time = StructType((*records.names, EVENT_TIME), (*records.types, Types.LONG()))
                    stream = _mapped(stream, assigning(strategy.assigner, records), records, with_time, [CONTROL], uid)
                    columns = (*columns, EVENT_TIME)
                stream = stream.selectExpr(*map(quote_always, records.names), *columns, CONTROL)
                ours = [EVENT_TIME, *([PARTITION] if strategy.partition is not None else []), CONTROL]
    return stream


def _mapped(
    stream: DataFrame,
    function: Callable[[Any], Any],
    input_: StructType,
    output: StructType,
    ours: Sequence[str],
    uid: str,
) -> DataFrame:
    kept = ", ".join(OUR_DDL[name] for name in ours)
    return stream.mapInArrow(MapRunner(function, input_, output, ours, uid), f"{ddl_of(output)}, {kept}")


__all__ = ["EpochPlanner", "PlannedChain"]
