"""Applies an author's steps between two operators to records alone, so that they never see marks.

Marks travel among the records, with nulls in the author's columns. No expression of the author's may see them: a Python
function would be called with None, and others raise. Inside Spark a condition is enough, because Spark evaluates it
first. It is not enough for functions in Python, which Spark calls for all rows of a stage before any condition. An
exchange then separates records and marks, and they meet again at the end:

```
 operator ─┬─> records ─> steps ─┬─> next operator
           └─> marks ────────────┘
```
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.graph.computed import computing, extended
from state_engine.spark.graph.nodes import ComputeStep, MapStep, OperatorNode, SelectStep, Step, TimeStep, WhereStep
from state_engine.spark.graph.plans import items, kind_of, rows_of_partitions
from state_engine.spark.graph.timing import assigning
from state_engine.spark.wire.arrow_map import map_in_arrow
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import CONTROL, IS_MARK, OUR_DDL, PARTITION, PLACE
from state_engine.spark.wire.schemas import ddl_of
from state_engine.spark.worker.map_runner import MapRunner


class StepsBetween:
    """Applies the steps of one edge; marks pass untouched, and event times stay.

    Args:
        upstream: The operator before the steps.
        parallelism: Its parallelism.
        session: Number of the session.
        calls_python: Cache, by session and expressions, of whether steps call Python.
    """

    def __init__(
        self, upstream: OperatorNode, parallelism: int, session: int, calls_python: dict[tuple[object, ...], bool]
    ) -> None:
        self._uid = upstream.uid
        self._parallelism = parallelism
        self._calls_python = calls_python
        self._session = session
        self._ours = [EVENT_TIME, CONTROL] if upstream.emits_event_time else [CONTROL]
        self._marks: DataFrame | None = None

    def apply(self, stream: DataFrame, steps: Sequence[Step]) -> DataFrame:
        """Returns the output of the operator after the steps."""
        for step in steps:
            stream = self._apply(stream, step)
        return stream if self._marks is None else stream.union(_emptied(self._marks, stream))

    def _apply(self, stream: DataFrame, step: Step) -> DataFrame:
        match step:
            case SelectStep(expressions):
                return self._selected(stream, *expressions, *self._ours)
            case WhereStep(condition):
                return self._kept(stream, condition)
            case MapStep(function, records, output):
                return self._mapped(stream, function, records, output)
            case ComputeStep(compute, records, computed):
                return self._mapped(stream, computing(compute, records), records, extended(records, computed))
            case TimeStep(records, strategy, columns):
                if strategy.assigner is not None:
                    self._ours = [CONTROL]
                    with_time = StructType((*records.names, EVENT_TIME), (*records.types, Types.LONG()))
                    stream = self._mapped(stream, assigning(strategy.assigner, records), records, with_time)
                    columns = (*columns, EVENT_TIME)
                self._ours = [EVENT_TIME, *([PARTITION] if strategy.partition is not None else []), CONTROL]
                return self._selected(stream, *map(quote_always, records.names), *columns, CONTROL)

    def _selected(self, stream: DataFrame, *expressions: str) -> DataFrame:
        stream = self._records(stream, *expressions)
        made = stream.selectExpr(*expressions)
        return made if self._marks is not None else _shielded(stream, made)

    def _kept(self, stream: DataFrame, condition: str) -> DataFrame:
        stream = self._records(stream, f"({condition})")
        return stream.where(condition if self._marks is not None else f"if({IS_MARK}, true, ({condition}))")

    def _records(self, stream: DataFrame, *expressions: str) -> DataFrame:
        """Returns the stream for a step; from the first step that calls Python on, it has no marks."""
        if self._marks is not None:
            return stream
        key = (self._session, expressions)
        if key not in self._calls_python:
            self._calls_python[key] = _calls_python(stream, stream.selectExpr(*expressions))
        return self._split(stream) if self._calls_python[key] else stream

    def _mapped(
        self, stream: DataFrame, function: Callable[[Any], Any], input_: StructType, output: StructType
    ) -> DataFrame:
        kept = ", ".join(OUR_DDL[name] for name in self._ours)
        runner = MapRunner(function, input_, output, self._ours, self._uid, alone=self._marks is not None)
        return map_in_arrow(stream, runner, f"{ddl_of(output)}, {kept}")

    def _split(self, stream: DataFrame) -> DataFrame:
        """Puts marks aside, and returns the records, each in the partition of the subtask that gave it."""
        count, names = self._parallelism, stream.columns
        place = f"if({IS_MARK}, {count}, pmod(spark_partition_id(), {count})) as {PLACE}"
        placed = stream.selectExpr("*", place)._jdf.repartitionById(count + 1, F.col(PLACE)._jc)
        records, self._marks = (
            rows_of_partitions(placed, numbers, stream.sparkSession).select(*map(quote_always, names))
            for numbers in (range(count), [count])
        )
        return records


def _emptied(marks: DataFrame, like: DataFrame) -> DataFrame:
    """Returns marks with the columns of another DataFrame, all null except the control column."""
    nulls = [F.lit(None).cast(f.dataType).alias(f.name) for f in like.schema.fields if f.name != CONTROL]
    return marks.select(*nulls, CONTROL)


def _between(stream: DataFrame, made: DataFrame) -> list[Any]:
    """Returns the nodes of a plan above another one, from the last step back."""
    base, node = _analyzed(stream), _analyzed(made)
    above = []
    while not node.fastEquals(base):
        above.append(node)
        [node] = items(node.children())
    return above


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _calls_python(stream: DataFrame, made: DataFrame) -> bool:
    jvm: Any = stream.sparkSession.sparkContext._jvm
    python = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    nodes = _between(stream, made)
    return any(expression.containsPattern(python) for node in nodes for expression in items(node.expressions()))


def _shielded(stream: DataFrame, made: DataFrame) -> DataFrame:
    """Returns a projection that evaluates nothing for marks.

    Args:
        stream: Records and marks.
        made: What `selectExpr` makes of them, `CONTROL` last.
    """
    jvm: Any = stream.sparkSession.sparkContext._jvm
    catalyst, to_seq = jvm.org.apache.spark.sql.catalyst, jvm.PythonUtils.toSeq
    plan = _analyzed(stream)
    control = next(one for one in items(plan.output()) if one.name() == CONTROL)
    is_mark, changed = catalyst.expressions.IsNotNull(control), False
    for node in reversed(_between(stream, made)):  # several, if an expression uses the alias of another one
        listed = []
        for one in items(node.projectList()):
            child = one.child() if kind_of(one) == "Alias" else None
            if child is not None and kind_of(child) != "AttributeReference":
                null = catalyst.expressions.Literal(None, child.dataType())
                one = one.withNewChildren(to_seq([catalyst.expressions.If(is_mark, null, child)]))
                changed = True
            listed.append(one)
        plan = catalyst.plans.logical.Project(to_seq(listed), plan)
    if not changed:
        return made
    session = stream._jdf.sparkSession()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), stream.sparkSession)


__all__ = ["StepsBetween"]
