"""Plans the one Spark job of an epoch, from its micro-batch to its acks (E2).

```
 batch ∪ control rows ─> repartitionById ─> sort ─> operator 1 ─> steps ─┐
                                    further records of the batch, if any ┴> repartitionById ─> sort ─> operator 2 ─> …
```

Each operator has exactly one consumer in Spark, the exchange to the next one; the tasks stage outputs for sinks. If
several operators read one, its consumer is an additional exchange, which all of them read (`fan_out.py`). So nothing
runs twice, and one action runs everything: it collects the barriers of all operators that no other reads. Operators
that need no exchange between them are one task (a chain), so each `operator` above may be several.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.log.barriers import Barrier
from state_engine.spark.graph.nodes import OperatorNode
from state_engine.spark.graph.settings import AggPhaseStrategy
from state_engine.spark.graph.sources import Sources
from state_engine.spark.plan.kept_plan import KeptPlan
from state_engine.spark.plan.local_aggregation import Phases, local_aggregation
from state_engine.spark.plan.preferred_locations import PreferredLocations
from state_engine.spark.plan.prepared import Prepared
from state_engine.spark.plan.shielding import StepsBetween
from state_engine.spark.plan.template import PlanTemplate
from state_engine.spark.worker.task import TaskFunction


@dataclass(frozen=True)
class PlannedChain:
    """A chain of operators, with the function that its tasks are sent."""

    nodes: tuple[OperatorNode, ...]
    function: TaskFunction

    @property
    def head(self) -> OperatorNode:
        """The operator that the exchange feeds."""
        return self.nodes[0]

    @property
    def tail(self) -> OperatorNode:
        """The operator that gives the outputs of the chain."""
        return self.nodes[-1]


class EpochPlanner:
    """Plans the job of an epoch, whose rows are the barriers of its last operators, and runs it.

    Args:
        chains: All operators, task by task, upstream first.
        sources: The sources of the batches' records.
        strategy: Whether Spark aggregates records first, where that is possible.
        locations: Where subtasks prefer to run; None leaves that to Spark.
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
        self._kept: dict[tuple[object, ...], KeptPlan | None] = {}
        self._calls_python: dict[tuple[object, ...], bool] = {}
        self._phases = Phases(strategy)
        self._local = [one for one in self._chains if local_aggregation(one.head) is not None]
        self._locations = locations

    def run(self, batch: DataFrame, plan: EpochPlan) -> list[bytes]:
        """Runs the job; returns one encoded barrier per subtask of each operator that no other reads.

        Args:
            batch: The micro-batch, or an empty DataFrame of its schema for an idle epoch.
            plan: The epoch.
        """
        partials = self._partials(batch, plan)
        if self._locations is not None or len(partials) > 1:
            # Parts of the plan are RDDs, which differ in each epoch.
            return [bytes(row[0]) for row in self._built(batch, plan, partials).collect()]
        [rows] = partials.values() if partials else [batch]
        key = self._session_of(batch), *partials, *(p.parallelism for p in plan.operators)
        kept = self._kept.get(key)
        collected = kept.collected(rows) if kept is not None else None
        if collected is None:
            frame = self._frame(batch, rows, plan, partials, key)
            collected = frame.collect()
            if key not in self._kept:
                self._kept[key] = KeptPlan.of(frame, rows)
        return [bytes(row[0]) for row in collected]

    def _frame(
        self,
        batch: DataFrame,
        rows: DataFrame,
        plan: EpochPlan,
        partials: Mapping[str, DataFrame],
        key: tuple[object, ...],
    ) -> DataFrame:
        """Returns the DataFrame of an epoch: that of the one before with other rows, if there is one."""
        template = self._templates.get(key)
        filled = template.filled(rows) if template is not None else None
        if filled is not None:
            return filled
        frame = self._built(batch, plan, partials)
        if key not in self._templates:
            self._templates[key] = PlanTemplate.of(frame, rows)
        return frame

    def _partials(self, batch: DataFrame, plan: EpochPlan) -> dict[str, DataFrame]:
        """Returns the records that Spark aggregates first, by operator."""
        plans = {p.uid: p for p in plan.operators}
        two_phase = [(one, own) for one in self._local if self._phases.two(own := plans[one.head.uid])]
        partials = {own.uid: self._prepare(batch, one, own).partials(batch) for one, own in two_phase}
        return {uid: rows for uid, rows in partials.items() if rows is not None}

    def _built(self, batch: DataFrame, plan: EpochPlan, partials: Mapping[str, DataFrame]) -> DataFrame:
        plans = {p.uid: p for p in plan.operators}
        outputs: dict[tuple[str, str], DataFrame] = {}
        ends: list[DataFrame] = []
        for planned in self._chains:
            node = planned.head
            prepared = self._prepare(batch, planned, plans[node.uid])
            arriving = [
                StepsBetween(one, plans[one.uid].parallelism, self._session_of(batch), self._calls_python).apply(
                    outputs[one.uid, node.edges[n].output], node.edges[n].steps
                )
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
        """Learns from what an epoch has done, for the plan of the next one."""
        self._phases.learn(plan.operators, [ack for barrier in barriers for ack in barrier.acks])

    def _prepare(self, batch: DataFrame, planned: PlannedChain, own: OperatorPlan) -> Prepared:
        """Returns what is prepared for a chain: a query's batches share one session, idle epochs have another one."""
        session = batch.sparkSession
        key = (self._session_of(batch), own.uid, own.parallelism)
        if key not in self._prepared:
            self._prepared[key] = Prepared(session, planned.head, planned.tail, planned.function, own, self._sources)
        return self._prepared[key]

    @staticmethod
    def _session_of(batch: DataFrame) -> int:
        number: int = batch.sparkSession._jsparkSession.hashCode()
        return number


__all__ = ["EpochPlanner", "PlannedChain"]
