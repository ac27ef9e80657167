"""The `Tasks` port on Spark: one epoch is one Spark job."""

import re
from collections.abc import Sequence

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from state_engine.epoch.ports import EpochPlan
from state_engine.errors import EpochError, StopRequestedError
from state_engine.log.records import Barrier
from state_engine.spark.plan import EpochPlanner
from state_engine.spark.running_jobs import RUNNING, RUNNING_PROPERTY
from state_engine.spark.task import CRASH_PROPERTY
from state_engine.spark.wire import PLAN_PROPERTY, decode_barrier

_CUT_OFF = re.compile(
    r"^: java\.lang\.InterruptedException|SPARK_JOB_CANCELLED\b.*(was stopped|part of cancelled job group)",
    re.MULTILINE,
)
"""What Spark says of a job that `query.stop()` cut off: its thread was interrupted, or the job was cancelled."""


class SparkTasks:
    """Runs one batch as often as the driver asks.

    Args:
        planner: The job's operators.
        batch: The micro-batch.
        crash: Where tasks shall end the driver, for tests and the demo.
    """

    def __init__(self, planner: EpochPlanner, batch: DataFrame, crash: str | None = None) -> None:
        self._planner = planner
        self._batch = batch
        self._crash = crash

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        """E2 to E5.

        Raises:
            StopRequestedError: The query was stopped while the epoch ran.
            EpochError: Spark gave up; running the epoch again may help.
        """
        session = self._batch.sparkSession
        context = session.sparkContext
        session.conf.set("spark.sql.adaptive.enabled", "false")  # it would split the epoch into one job per shuffle
        context.setLocalProperty(PLAN_PROPERTY, msgspec.json.encode(plan).decode())
        context.setLocalProperty(CRASH_PROPERTY, self._crash or "")
        context.setLocalProperty(RUNNING_PROPERTY, RUNNING.encode(plan))
        try:
            rows = self._planner.acks(self._batch, plan).collect()
        except (PySparkException, Py4JJavaError, Py4JError) as error:
            if _CUT_OFF.search(str(error)):  # to run it again would seal an epoch behind the stop
                raise StopRequestedError(
                    f"The query of job {plan.job!r} was stopped in the middle of epoch {plan.epoch}.",
                    action="Nothing; the next start goes on in front of that epoch.",
                ) from error
            raise EpochError(
                f"Spark gave up on epoch {plan.epoch} of job {plan.job!r}: {_first_lines(error)}",
                action="Look at the executors' logs; the epoch was not sealed and is run again.",
            ) from error
        barriers = [decode_barrier(bytes(row[0])) for row in rows]
        self._planner.learn(plan, barriers)
        return barriers


def _first_lines(error: Exception) -> str:
    return "\n".join(str(error).splitlines()[:12])


__all__ = ["SparkTasks"]
