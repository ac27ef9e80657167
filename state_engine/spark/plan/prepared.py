"""Keeps the expressions of an epoch's plan in the JVM, where they are made once for a query.

Building a plan with Spark's Python API costs one call into the JVM per column and epoch. The expressions kept here
can be given to each epoch's DataFrame: with one operator, that is 16 calls into the JVM an epoch instead of 76.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.api.types import StructType
from state_engine.epoch.ports import OperatorPlan
from state_engine.key_groups import range_of
from state_engine.runtime.two_inputs import INPUT
from state_engine.spark.graph.nodes import OperatorNode
from state_engine.spark.graph.sources import Sources
from state_engine.spark.plan.fan_out import FanOut
from state_engine.spark.plan.local_aggregation import InPlace, LocalPhase, local_aggregation
from state_engine.spark.plan.merging import from_batch, from_upstream, order_of, restriction, timing_names
from state_engine.spark.wire.arrow_map import ArrowMap
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import CONTROL, GROUP, GROUP_OF_MARK, IS_MARK, control_row


class Prepared:
    """One chain of operators at one parallelism: how its input is routed, and the function over it.

    Args:
        session: Any session of the context.
        node: The first operator.
        tail: The last one, which may be the same.
        function: The function that runs in the workers.
        own: The plan of the first operator, with the parallelism of all of them.
        sources: The sources of the batches' records.
    """

    def __init__(
        self,
        session: SparkSession,
        node: OperatorNode,
        tail: OperatorNode,
        function: Callable[..., Any],
        own: OperatorPlan,
        sources: Sources,
    ) -> None:
        self._session = session
        self._node = node
        self._own = own
        self._sources = sources
        self._group = f"coalesce({GROUP_OF_MARK}, {group_expression(node, own.max_parallelism)})"
        self._ours = [*timing_names(node), CONTROL]
        local = local_aggregation(node)
        self._local = LocalPhase(session, node, local) if local is not None else None
        self._in_place = InPlace(session, self._partials_of) if local is not None else None
        handover = tail.handover
        self._fan_out = FanOut(session, handover, own.parallelism) if handover.shared else None
        self._outputs = handover.outputs
        self._make_map = partial(ArrowMap, session, function, handover.ddl)
        self._map = self._make_map([*node.input.names, *([GROUP] if node.carries_group else []), *self._ours])

    def partials(self, batch: DataFrame) -> DataFrame | None:
        """Returns the partials that Spark makes of a micro-batch, as a leaf of rows; None if it may not make any."""
        return self._in_place.apply(batch) if self._in_place is not None else None

    def route(self, batch: DataFrame, outputs: Sequence[DataFrame], partials: DataFrame | None = None) -> DataFrame:
        """Exchanges and sorts the records and marks, and runs the operator over them.

        If no barriers come from upstream, one control row per subtask goes with the records.

        Args:
            batch: The records of the sources.
            outputs: What the upstream operators hand on, in the order of the node's edges.
            partials: Partials to use in place of the records.
        """
        if partials is not None:
            return self._route_partials(partials)
        frames = [] if not self._node.sources else [self._restricted(batch._jdf).selectExpr(self._records)]
        frames += [self._made_of(n, output._jdf) for n, output in enumerate(outputs)]
        if not outputs:
            frames.append(self._control_rows)
        jdf = reduce(lambda one, other: one.union(other), frames)
        if self._node.carries_group:
            jdf = jdf.selectExpr(self._with_group)
        jdf = jdf.repartitionById(self._own.parallelism, self._subtask)
        if self._order is not None:
            jdf = jdf.sortWithinPartitions(self._order)
        return self._map.apply(DataFrame(jdf, batch.sparkSession))

    def _partials_of(self, batch: Any) -> Any:
        assert self._local is not None
        return self._local.apply(self._restricted(batch).selectExpr(self._records))

    def _route_partials(self, partials: DataFrame) -> DataFrame:
        """Routes partials, without a sort: their order does not matter, and no operator is upstream."""
        jdf = partials._jdf.union(self._control_rows_of_partials).repartitionById(self._own.parallelism, self._subtask)
        return self._map_of_partials.apply(DataFrame(jdf, partials.sparkSession))

    def outputs(self, stream: DataFrame) -> dict[str, DataFrame]:
        """Returns the result of `route` output by output; empty if no operator reads one."""
        if self._fan_out is not None:
            return self._fan_out.outputs(stream)
        return dict.fromkeys(self._outputs, stream)

    def _restricted(self, jdf: Any) -> Any:
        condition = restriction(self._node, self._sources)
        return jdf if condition is None else jdf.filter(condition)

    def _made_of(self, edge: int, jdf: Any) -> Any:
        made = self._from_upstream[edge]
        return jdf if made is None else jdf.selectExpr(made)

    @cached_property
    def _records(self) -> Any:
        return self._sequence([*from_batch(self._node, self._sources), f"cast(null as binary) as {CONTROL}"])

    @cached_property
    def _from_upstream(self) -> list[Any]:
        made = [from_upstream(self._node, n) for _, n in self._node.upstream]
        return [None if one is None else self._sequence([*one, CONTROL]) for one in made]

    @cached_property
    def _with_group(self) -> Any:
        spread = everywhere(self._node, self._own, self._group) if self._node.broadcast_inputs else self._group
        return self._sequence([*self._input, f"{spread} as {GROUP}", *self._ours])

    @property
    def _input(self) -> list[str]:
        return [quote_always(name) for name in self._node.input.names]

    @cached_property
    def _map_of_partials(self) -> ArrowMap:
        assert self._local is not None
        return self._make_map([*self._local.columns.names, *self._ours])

    @cached_property
    def _control_rows(self) -> Any:
        return self._control_rows_beside(self._node.input)

    @cached_property
    def _control_rows_of_partials(self) -> Any:
        assert self._local is not None
        return self._control_rows_beside(self._local.columns)

    def _control_rows_beside(self, struct: StructType) -> Any:
        """Returns one row per subtask, in its first key group: without them an empty batch runs no subtask at all."""
        p, m = self._own.parallelism, self._own.max_parallelism
        nulls = [
            f"cast(null as {t.ddl()}) as {quote_always(n)}" for n, t in zip(struct.names, struct.types, strict=True)
        ]
        rows = self._session.range(0, p, 1, 1).selectExpr(
            *nulls,
            *(f"null as {name}" for name in self._ours[:-1]),
            f"{control_row(f'(id * {m} + {p - 1}) div {p}')} as {CONTROL}",
        )
        return rows._jdf

    @cached_property
    def _subtask(self) -> Any:
        group = GROUP if self._node.carries_group else self._group
        p, m = self._own.parallelism, self._own.max_parallelism
        column: Any = F.expr(f"cast({group} * {p}L div {m}L as int)")
        return column._jc

    @cached_property
    def _order(self) -> Any:
        # An operator that can be aggregated group by group does not depend on an order. But if it hands on event times,
        # the rows of a key shall have ascending ones, also if the operator gets the key in several parts.
        order_free = self._local is not None and not self._node.emits_event_time
        columns: list[Any] = [] if order_free else [F.expr(one) for one in order_of(self._node)]
        return self._sequence([c._jc for c in columns]) if columns else None

    def _sequence(self, items: list[Any]) -> Any:
        jvm: Any = self._session.sparkContext._jvm
        return jvm.PythonUtils.toSeq(items)


def group_expression(node: OperatorNode, max_parallelism: int) -> str:
    """Returns the key group of a record, as Spark SQL; without a key, records are spread by all their columns.

    Here and above, all numbers are 64-bit from the beginning. A cast that Spark has to add itself costs as much of an
    epoch's analysis as the expression.
    """
    names = node.key or tuple(
        n for n, t in zip(node.input.names, node.input.types, strict=True) if "map<" not in t.ddl()
    )
    hashed = f"xxhash64({', '.join(map(quote_always, names))})" if names else "0L"
    return f"pmod({hashed}, {max_parallelism}L)"


def everywhere(node: OperatorNode, own: OperatorPlan, group: str) -> str:
    """Returns a record's key groups as Spark SQL, one row for each: a broadcast record gets one of every subtask.

    Args:
        node: An operator with a broadcast input.
        own: The operator's plan, with its parallelism.
        group: Key group of a mark, or of any other record.
    """
    firsts = [f"{range_of(n, own.parallelism, own.max_parallelism).first}L" for n in range(own.parallelism)]
    broadcast = f"{INPUT} in ({', '.join(map(str, node.broadcast_inputs))})" if node.two_inputs else "true"
    return f"explode(if({IS_MARK} or not ({broadcast}), array({group}), array({', '.join(firsts)})))"


__all__ = ["Prepared", "everywhere", "group_expression"]
