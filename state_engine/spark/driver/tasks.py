"""The `Tasks` port on Spark: one attempt at an epoch is one Spark job."""

import logging
import re
from collections.abc import Sequence

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from state_engine.causes import LONGEST_VALUE, chained, message_of, records_shown, report_of
from state_engine.epoch.ports import EpochPlan
from state_engine.errors import EpochError, LakestateError, SessionError, StopRequestedError
from state_engine.log.barriers import Barrier
from state_engine.spark.plan.planner import EpochPlanner
from state_engine.spark.session.executors import check_workers_start
from state_engine.spark.wire.failures import RECORDS_PROPERTY, SparkFailure, failure_of
from state_engine.spark.wire.rows import PLAN_PROPERTY, decode_barrier
from state_engine.spark.worker.running_jobs import RUNNING, RUNNING_PROPERTY
from state_engine.spark.worker.task import CRASH_PROPERTY
from state_engine.text import shorten

_log = logging.getLogger(__name__)
_CUT_OFF = re.compile(
    r"^: java\.lang\.InterruptedException|SPARK_JOB_CANCELLED\b.*(was stopped|part of cancelled job group)",
    re.MULTILINE,
)
"""What Spark reports for a job that `query.stop()` cut off: its thread was interrupted, or the job was cancelled."""


class SparkTasks:
    """Runs one batch as often as the driver asks.

    Args:
        planner: The job's operators.
        batch: The micro-batch.
        crash: The crash point at which tasks kill the driver, for tests and the demo.
        show_records: Whether messages of failures may hold keys and records.

    Attributes:
        attempts: How many attempts were made, over all epochs.
    """

    def __init__(
        self, planner: EpochPlanner, batch: DataFrame, crash: str | None = None, *, show_records: bool = True
    ) -> None:
        self._show_records = show_records
        self._planner = planner
        self._batch = batch
        self._crash = crash
        self.attempts = 0

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        """Runs E2 to E5 of an epoch.

        Raises:
            StopRequestedError: The query was stopped while the epoch ran.
            EpochError: Spark gave up; running the epoch again may help.
            SessionError: An executor cannot run our workers.
            LakestateError: A task raised it by name.
        """
        self.attempts += 1
        session = self._batch.sparkSession
        context = session.sparkContext
        session.conf.set("spark.sql.adaptive.enabled", "false")  # it would split the epoch into one job per shuffle
        context.setLocalProperty(PLAN_PROPERTY, msgspec.json.encode(plan).decode())
        context.setLocalProperty(CRASH_PROPERTY, self._crash or "")
        context.setLocalProperty(RUNNING_PROPERTY, RUNNING.encode(plan))
        context.setLocalProperty(RECORDS_PROPERTY, "true" if self._show_records else "false")
        try:
            barriers = [decode_barrier(one) for one in self._planner.run(self._batch, plan)]
        except (PySparkException, Py4JJavaError, Py4JError) as error:
            if _CUT_OFF.search(message_of(error)):  # running it again would seal an epoch after the stop
                raise StopRequestedError(
                    f"The query of job {plan.job!r} was stopped in the middle of epoch {plan.epoch}.",
                    action="Nothing; the next start goes on from before that epoch.",
                ) from error
            try:
                check_workers_start(session, message_of(error))
            except SessionError as told:
                raise told from chained(error)
            with records_shown(self._show_records):
                raise _given_up(plan, failure_of(error)) from chained(error)
        self._planner.learn(plan, barriers)
        return barriers


def log_retry(plan: EpochPlan, error: LakestateError) -> None:
    """Logs that an epoch runs again.

    Args:
        plan: That of the next attempt.
        error: Why the last one did not end well.
    """
    why = report_of(error)
    _log.warning("Epoch %d of job %r runs again, for attempt %d: %s", plan.epoch, plan.job, plan.retry + 1, why)


def _given_up(plan: EpochPlan, told: SparkFailure) -> LakestateError:
    where = f"epoch {plan.epoch} of job {plan.job!r}"
    uids = shorten(", ".join(repr(operator.uid) for operator in plan.operators), LONGEST_VALUE)
    return told.as_error(
        f"A task of {where} failed" if told.error else f"Spark gave up on {where}, with the operators {uids}",
        otherwise=EpochError,
        action="Look at the executors' logs; the epoch was not sealed and is run again.",
    )


__all__ = ["SparkTasks", "log_retry"]
