"""Which settings of a session make a job slower than it has to be, for sessions that Lakestate did not make."""

import logging
from types import MappingProxyType

from pyspark.sql import SparkSession

from state_engine.spark.session.local import CLUSTER_DEFAULTS

_log = logging.getLogger(__name__)

COSTS = MappingProxyType(
    {
        "spark.python.worker.reuse": "each task starts a Python worker, which loads its state anew",
        "spark.python.daemon.module": "a subtask may come to a worker without its state, which loads it anew",
        "spark.python.unix.domain.socket.enabled": "as with another daemon; and a short epoch waits 40 ms for TCP",
        "spark.python.worker.faulthandler.enabled": "the error of a Python worker that dies does not say why",
        "spark.sql.execution.arrow.maxBytesPerBatch": "Spark adds up the sizes of all columns after each record",
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "after the loss of an executor a whole epoch runs again",
    }
)
"""What it costs if a session has not the value that `CLUSTER_DEFAULTS` has."""

_SPARKS = MappingProxyType(
    {"spark.python.worker.reuse": "true", "spark.sql.shuffle.orderIndependentChecksum.enabled": "true"}
)
"""What Spark takes where nothing is set."""


def costly(session: SparkSession) -> dict[str, str]:
    """Returns the settings of a session that cost something, each with what it costs."""
    return {key: costs for key, costs in COSTS.items() if _differs(_value(session, key), CLUSTER_DEFAULTS[key])}


def _value(session: SparkSession, key: str) -> str | None:
    return session.conf.get(key, _SPARKS.get(key))  # without Spark's own default, which `conf.get` does not know


def _differs(value: str | None, wanted: str) -> bool:
    if wanted.isdigit():  # a limit: a higher one is as good, and one with a unit was chosen on purpose
        return value is None or (value.isdigit() and int(value) < int(wanted))
    return value != wanted


def warn_of_costs(session: SparkSession, job: str) -> None:
    """Logs them in one line, with what to write."""
    if found := costly(session):
        listed = "; ".join(f"{key}={CLUSTER_DEFAULTS[key]} (without it {costs})" for key, costs in found.items())
        _log.warning(
            "The Spark session of job %r lacks settings: %s. Add them when the session is made, or make it by "
            "local_session() or cluster_session().",
            job,
            listed,
        )


__all__ = ["COSTS", "costly", "warn_of_costs"]
