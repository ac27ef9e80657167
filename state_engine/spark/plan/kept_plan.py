"""Runs the physical plan of an earlier epoch over the micro-batch of another one.

Spark makes a physical plan from an analysed one by its optimiser, its planner and its rules for execution, and
describes it to its listeners. In an epoch of a thousand records that is a fifth of the time of its job, and the result
is the same each time. So it is kept, with an empty place for the micro-batch (docs/adr/0041-kept-plans.md).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from state_engine.spark.graph.plans import are_rows, below, kind_of

_STATELESS = frozenset(
    {
        "CoalesceExec",
        "FilterExec",
        "GenerateExec",
        "HashAggregateExec",
        "InputAdapter",
        "MapInArrowExec",
        "ObjectHashAggregateExec",
        "ProjectExec",
        "RDDScanExec",
        "RangeExec",
        "ShuffleExchangeExec",
        "SortAggregateExec",
        "SortExec",
        "UnionExec",
        "WholeStageCodegenExec",
    }
)
"""Nodes whose copy begins anew. Others may hold what they have read (a broadcast, a cached table), or refer to a node
in another part of the plan (a reused exchange), which would be that of the first epoch for good."""
_EXECUTION = "spark.sql.execution.id"


class _Place(NamedTuple):
    """A leaf of the plan that is the micro-batch; `described` are its fields after columns and rows."""

    leaf: Any
    columns: Any
    described: tuple[Any, ...]

    @classmethod
    def of(cls, leaf: Any) -> "_Place":
        described = leaf.name(), leaf.outputPartitioning(), leaf.outputOrdering(), leaf.stream()
        return cls(leaf, leaf.output(), described)

    def with_rows(self, rdd: Any) -> "_Place":
        """Returns the leaf with other rows of the same columns."""
        return self._replace(leaf=self.leaf.copy(self.columns, rdd, *self.described))


class KeptPlan:
    """A physical plan with empty places for the micro-batch.

    Args:
        plan: The plan of a DataFrame that was built from the batch.
        places: Its leaves that are the batch: several if several operators read the sources.
        columns: The batch's columns.
        declared: Partitioning and order of the batch for which the plan was made; None if the plan fits any.
        session: Any session of the context.
    """

    def __init__(
        self, plan: Any, places: Sequence[Any], columns: Any, declared: tuple[Any, Any] | None, session: SparkSession
    ) -> None:
        jvm: Any = session.sparkContext._jvm
        self._columns, self._declared = columns, declared
        self._schema = plan.schema()
        self._new_map = jvm.java.util.HashMap
        self._to_rule = jvm.PythonUtils.toScalaMap  # in Scala a map is a partial function, as `transform` takes it
        # What an epoch has shuffled can be freed when the epoch is over: the plan refers to none of its rows.
        no_rows = session.sparkContext._jsc.emptyRDD().rdd()
        found = [_Place.of(place) for place in places]
        self._places = [place.with_rows(no_rows) for place in found]
        self._plan = self._replaced(plan, found, self._places)

    @classmethod
    def of(cls, frame: DataFrame, batch: DataFrame, *, made_for_any: bool = False) -> "KeptPlan | None":
        """Returns the plan of an epoch's DataFrame; None if it may not be used for another epoch.

        It may not in a session whose epochs run in no batch of Spark's. A copy of a node belongs to the active session
        of its thread, and only the thread of the batches surely has the right one.

        Args:
            frame: The epoch's DataFrame.
            batch: The micro-batch from which it was built.
            made_for_any: Whether the plan depends neither on the partitioning nor on the order of the rows.
        """
        leaf = batch._jdf.queryExecution().analyzed()
        if not are_rows(leaf) or batch.sparkSession.sparkContext.getLocalProperty(_EXECUTION) is None:
            return None
        plan = frame._jdf.queryExecution().executedPlan()
        if not plan.subqueriesAll().isEmpty():
            return None  # subqueries may read what changes
        nodes = list(below(plan))
        if any(kind_of(node) not in _STATELESS for node in nodes):
            return None
        places = [node for node in nodes if kind_of(node) == "RDDScanExec"]
        rdd = leaf.rdd().id()
        if not places or any(place.rdd().id() != rdd for place in places):
            return None  # other rows are those of this epoch, as downstream of an operator that several others read
        if not all(_reads_rows(node) for node in nodes if kind_of(node) == "ShuffleExchangeExec"):
            return None  # `transform` copies only what leads to the batch, and an exchange keeps what it has shuffled
        declared = None if made_for_any else (leaf.outputPartitioning(), leaf.outputOrdering())
        return cls(plan, places, leaf.output(), declared, batch.sparkSession)

    def collected(self, batch: DataFrame) -> list[Row] | None:
        """Runs the plan over another batch and returns its rows; None, and nothing has run, as `over`.

        Spark sends many bytes by a socket for that. An answer to a call into the JVM would wait 40 ms for a delayed
        acknowledgement, each time that it does not fit into one packet.
        """
        plan = self.over(batch)
        if plan is None:
            return None
        rows = batch._jdf.sparkSession().internalCreateDataFrame(plan.execute(), self._schema, False)
        return DataFrame(rows, batch.sparkSession).collect()

    def over(self, batch: DataFrame) -> Any:
        """Returns the plan over another batch, in the JVM; None for one that declares other things about its rows."""
        leaf = batch._jdf.queryExecution().analyzed()
        if not are_rows(leaf) or not leaf.output().equals(self._columns):
            return None
        if self._declared is not None and not self._fits(leaf, *self._declared):
            return None
        rdd = leaf.rdd()
        return self._replaced(self._plan, self._places, [place.with_rows(rdd) for place in self._places])

    @staticmethod
    def _fits(batch: Any, partitioning: Any, order: Any) -> bool:
        """Returns whether the plan may be used: an unknown partitioning has a number, which no plan depends on."""
        its = batch.outputPartitioning()
        alike = its.equals(partitioning) or kind_of(its) == kind_of(partitioning) == "UnknownPartitioning"
        return bool(alike and batch.outputOrdering().equals(order))

    def _replaced(self, plan: Any, places: Sequence[_Place], others: Sequence[_Place]) -> Any:
        """Returns a plan with other leaves; nodes that lead to none of them are shared."""
        rule = self._new_map()
        for place, other in zip(places, others, strict=True):
            rule.put(place.leaf, other.leaf)
        return plan.transform(self._to_rule(rule))


def _reads_rows(node: Any) -> bool:
    return any(kind_of(one) == "RDDScanExec" for one in below(node))


__all__ = ["KeptPlan"]
