"""Adds one exchange after an operator that several others read, so that it runs only once.

Spark would run the operator once for each reader. So its output goes into an exchange that leaves every row with the
subtask that made it, and each reader's part of the plan begins after that exchange. The parts begin at one RDD, and not
at one plan: Spark's optimiser would push a reader's filters and projections below the exchange, and make two of it. So
the operator runs once by construction, and a reader reads the partitions of its own output only.
"""

from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from state_engine.spark.graph.plans import rows_of_partitions
from state_engine.spark.wire.handover import Handover
from state_engine.spark.wire.rows import PLACE


class FanOut:
    """The exchange after one operator at one parallelism.

    Args:
        session: Any session of the context.
        handover: The operator's outputs and their readers.
        parallelism: The operator's parallelism.
    """

    def __init__(self, session: SparkSession, handover: Handover, parallelism: int) -> None:
        self._session = session
        self._handover = handover
        self._parallelism = parallelism

    def outputs(self, stream: DataFrame) -> dict[str, DataFrame]:
        """Returns the records and marks of each output; nothing is run yet.

        Args:
            stream: The output of the operator's tasks.
        """
        count = len(self._handover.outputs)
        jdf = stream._jdf.repartitionById(self._parallelism * count, self._place)
        made = {}
        for n, output in enumerate(self._handover.outputs):
            numbers = range(n * self._parallelism, (n + 1) * self._parallelism) if count > 1 else None
            part = rows_of_partitions(jdf, numbers, stream.sparkSession)
            made[output] = DataFrame(part._jdf.selectExpr(self._selected[output]), stream.sparkSession)
        return made

    @cached_property
    def _place(self) -> Any:
        return F.col(PLACE)._jc

    @cached_property
    def _selected(self) -> dict[str, Any]:
        return {output: self._sequence(self._handover.selected(output)) for output in self._handover.outputs}

    @property
    def _jvm(self) -> Any:
        return self._session.sparkContext._jvm

    def _sequence(self, items: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(items)


__all__ = ["FanOut"]
