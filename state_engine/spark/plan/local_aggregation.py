"""Aggregates in two phases: Spark makes partials of an epoch's records, the operator merges them into its states.

If a key has many records in an epoch, few rows are exchanged and handed to Python. If it has few, the first phase only
costs one more exchange. So the strategy `AUTO` looks at the previous epoch. The names of the strategies are those of
Flink SQL's `table.optimizer.agg-phase-strategy`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.epoch.ports import OperatorPlan
from state_engine.log.records import Ack
from state_engine.runtime.declared.base import local_of
from state_engine.runtime.declared.local import RECORDS, LocalAggregation, Pane
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.graph.nodes import OperatorNode
from state_engine.spark.graph.plans import RowsAtHand, are_rows
from state_engine.spark.graph.settings import AggPhaseStrategy
from state_engine.spark.plan.kept_plan import KeptPlan
from state_engine.spark.plan.template import PlanTemplate
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import CONTROL

ENOUGH_RECORDS = 20_000
"""An epoch with fewer records is over before another exchange could pay off."""
ENOUGH_PER_GROUP = 3
"""Least average number of records that a reading task has of a group, if there is one reading task per subtask."""


def local_aggregation(node: OperatorNode) -> LocalAggregation | None:
    """Returns what Spark may do of an operator before its exchange; None if it gets more than plain records."""
    alone = node.sources and not node.upstream and not node.tells_partitions
    local = local_of(node.function) if alone else None
    return local if local is not None and local.key == node.key else None  # the key of `window_all` is no column


class Phases:
    """Decides for each epoch which operators have a first phase in Spark.

    Args:
        strategy: The strategy for all operators.
    """

    def __init__(self, strategy: AggPhaseStrategy) -> None:
        self._strategy = strategy
        self._pays: set[str] = set()

    def two(self, own: OperatorPlan) -> bool:
        """Returns whether an operator that may have a first phase shall have it in the next epoch."""
        return self._strategy == "TWO_PHASE" or (self._strategy == "AUTO" and own.uid in self._pays)

    def learn(self, plans: Iterable[OperatorPlan], acks: Iterable[Ack]) -> None:
        """Learns from what an epoch has done: its changed states show into how many groups the records fell.

        An epoch without records, or in which an operator failed, shows nothing about the next one.
        """
        records, changed = Counter[str](), dict[str, Counter[str]]()
        for ack in {(ack.uid, ack.subtask): ack for ack in acks}.values():  # an ack may have come by several ways
            records[ack.uid] += ack.records_in
            rows = changed.setdefault(ack.uid, Counter())
            for section in ack.changes.sections if ack.changes is not None else ():
                rows[section.schema_id] += section.rows
        for own in plans:
            groups = max(changed.get(own.uid, Counter()).values(), default=0)
            enough = max(ENOUGH_RECORDS, ENOUGH_PER_GROUP * own.parallelism * groups)
            if groups and records[own.uid]:
                (self._pays.add if records[own.uid] >= enough else self._pays.discard)(own.uid)


class LocalPhase:
    """The first phase of one operator.

    Args:
        session: Any session of the context.
        node: The operator.
        local: The part of it that Spark does.
    """

    def __init__(self, session: SparkSession, node: OperatorNode, local: LocalAggregation) -> None:
        jvm: Any = session.sparkContext._jvm
        self.columns = local.columns
        key = [quote_always(name) for name in local.key]
        numbers = [f"count(1) as {RECORDS}"]
        for name, partial in local.partials.items():
            column = "" if partial.column is None else quote_always(partial.column)
            numbers.append(f"{partial.function.format(column)} as {name}")
        if node.timed:
            numbers.append(f"{_latest_time(node)} as {EVENT_TIME}")
        panes = [_pane(local.pane)] if local.pane is not None else []
        names = [*map(quote_always, self.columns.names), *([EVENT_TIME] if node.timed else [])]
        self._groups = _sequence(jvm, [*key, *panes])
        self._first, self._others = _column(numbers[0]), _sequence(jvm, numbers[1:])
        self._selected = _sequence(jvm, [*names, f"cast(null as binary) as {CONTROL}"])

    def apply(self, records: Any) -> Any:
        """Returns the partials of records; both are DataFrames of the JVM."""
        return records.groupBy(self._groups).agg(self._first, self._others).select(self._selected)


class InPlace:
    """Makes Spark aggregate a micro-batch where it is read, without an exchange.

    `groupBy` exchanges records so that all records of a group are in one partition. Partials need not be complete,
    because the operator merges what it gets. So the plan of the first phase declares that a batch is one partition.
    Then Spark sees no need for that exchange, and each task aggregates its own records. The result declares nothing of
    the kind, or the exchange by key groups might seem needless too.

    Args:
        session: Any session of the context.
        phase: Returns the partials of a batch; both are DataFrames of the JVM.
    """

    def __init__(self, session: SparkSession, phase: Callable[[Any], Any]) -> None:
        jvm: Any = session.sparkContext._jvm
        self._phase = phase
        self._rows = RowsAtHand(jvm)
        self._dataset = jvm.org.apache.spark.sql.classic.Dataset
        self._template: PlanTemplate | None = None
        self._kept: KeptPlan | None = None
        self._columns: Any = None

    def apply(self, batch: DataFrame) -> DataFrame | None:
        """Returns the partials of a batch, as a leaf of rows.

        Args:
            batch: The batch.

        Returns:
            None for a DataFrame that is not a leaf of rows, as a micro-batch is.
        """
        plan, session = batch._jdf.queryExecution().analyzed(), batch._jdf.sparkSession()
        if not are_rows(plan):
            return None

        def frame(columns: Any, rdd: Any, partitioning: Any) -> DataFrame:
            rows = self._rows.described(plan, columns, rdd, partitioning, session)
            return DataFrame(self._dataset.ofRows(session, rows), batch.sparkSession)

        kept = self._kept.over(batch) if self._kept is not None else None
        if kept is not None:
            return frame(self._columns, kept.execute(), self._rows.unknown)
        gathered = frame(plan.output(), plan.rdd(), self._rows.one_partition)
        partials = self._partials(gathered)
        made = partials._jdf.queryExecution()
        rows = made.toRdd()
        self._columns = made.analyzed().output()
        self._kept = KeptPlan.of(partials, gathered, made_for_any=True)
        return frame(self._columns, rows, self._rows.unknown)

    def _partials(self, batch: DataFrame) -> DataFrame:
        filled = self._template.filled(batch) if self._template is not None else None
        if filled is None:
            filled = DataFrame(self._phase(batch._jdf), batch.sparkSession)
            self._template = PlanTemplate.of(filled, batch)
        return filled


def _latest_time(node: OperatorNode) -> str:
    """Returns the SQL of a group's latest event time.

    A record without event time fails an epoch with a watermark; so must its group, which then gets null.
    """
    strategies = [edge.strategy for edge in node.edges]
    checked = any(strategy is not None and strategy.out_of_orderness is not None for strategy in strategies)
    latest = f"max({EVENT_TIME})"
    return f"if(count({EVENT_TIME}) = count(1), {latest}, null)" if checked else latest


def _pane(pane: Pane) -> str:
    """Returns the SQL of the beginning of a record's pane.

    The operator reports a time that is so early that its pane has no beginning.
    """
    time_in_pane = f"pmod(pmod({EVENT_TIME}, {pane.length}) - {pane.offset % pane.length}, {pane.length})"
    return f"try_subtract({EVENT_TIME}, {time_in_pane})"


def _column(sql: str) -> Any:
    column: Any = F.expr(sql)
    return column._jc


def _sequence(jvm: Any, expressions: Sequence[str]) -> Any:
    return jvm.PythonUtils.toSeq([_column(sql) for sql in expressions])


__all__ = ["InPlace", "LocalPhase", "Phases", "local_aggregation"]
