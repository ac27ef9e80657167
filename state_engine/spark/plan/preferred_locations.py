"""Lets the subtasks of an epoch prefer, on a cluster, the executor with the workers that hold their state.

Spark asks the last RDD of a stage, and then the RDDs that it depends on, which locations each partition prefers. It
waits for one of them for `spark.locality.wait`. After a shuffle no location is named. So an operator's output is
united, partition by partition, with an RDD that has no rows and names an executor for each subtask. Nothing is read,
sorted or exchanged for it. An executor that is busy or gone does not keep a task from running elsewhere.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from state_engine.spark.graph.plans import items
from state_engine.spark.plan.sticky_assignment import assign

_PORT = re.compile(r":\d+$")


class Executor(NamedTuple):
    """An executor of the cluster.

    Attributes:
        host: The host that it runs on.
        slots: How many tasks it runs at a time.
    """

    host: str
    slots: int


class Executors:
    """The executors of a cluster, listed anew when executors come or go.

    Args:
        context: The JVM's Spark context.
        job: Name of the job, which decides the order: jobs with few subtasks shall not all begin with one executor.
    """

    def __init__(self, context: Any, job: str) -> None:
        self._context = context
        self._job = job
        self._ids: str | None = None
        self._found: Mapping[str, Executor] = {}

    def look(self) -> Mapping[str, Executor]:
        """Returns the executors by id, in an order of the job's own.

        Spark's status store lags its scheduler by a moment: an executor that it lacks now will be listed next time.
        """
        ids: str = self._context.getExecutorIds().mkString(",")
        if ids != self._ids:
            listed = {one.id(): one for one in items(self._context.statusStore().executorList(True))}
            alive = [name for name in ids.split(",") if name in listed]
            self._ids = ids if len(alive) == len(ids.split(",")) else None
            alive.sort(key=lambda name: sha256(f"{self._job}/{name}".encode()).digest())
            self._found = {
                name: Executor(_PORT.sub("", listed[name].hostPort()), max(listed[name].maxTasks(), 1))
                for name in alive
            }
        return self._found


class Anchor(NamedTuple):
    """The executors that an operator's subtasks prefer, and the RDD that names them to Spark.

    Attributes:
        executors: The executor of each subtask.
        rdd: An RDD with one partition per subtask, without rows; each prefers the subtask's executor.
        among: The executors from which these were chosen.
    """

    executors: Sequence[str]
    rdd: Any
    among: Mapping[str, Executor]


class PreferredLocations:
    """Chooses an executor for each subtask of a job, and keeps it while it lives and has no more than its share.

    Args:
        session: Any session of the cluster.
        job: Name of the job.
    """

    def __init__(self, session: SparkSession, job: str) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm
        self._context = context._jsc.sc()
        self._executors = Executors(self._context, job)
        self._anchors: dict[str, Anchor] = {}

    def prefer(self, stream: DataFrame, uid: str, parallelism: int) -> DataFrame:
        """Returns an operator's output, in which each subtask prefers its executor; nothing is run yet.

        Args:
            stream: The output of the operator's tasks, one partition per subtask.
            uid: The operator.
            parallelism: The operator's parallelism.
        """
        executors = self._executors.look()
        if not executors:
            return stream
        anchor = self._anchor(uid, parallelism, executors)
        jdf: Any = stream._jdf
        both = self._sequence([anchor.rdd, jdf.queryExecution().toRdd()])
        rdd = self._jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD
        united = rdd(self._context, both, parallelism, self._any)
        frame = stream.sparkSession._jsparkSession.internalCreateDataFrame(united, jdf.schema(), False)
        return DataFrame(frame, stream.sparkSession)

    def _anchor(self, uid: str, parallelism: int, executors: Mapping[str, Executor]) -> Anchor:
        previous = self._anchors.get(uid)
        if previous is not None and previous.among == executors and len(previous.executors) == parallelism:
            return previous
        before = () if previous is None else previous.executors
        others = Counter(e for name, one in self._anchors.items() if name != uid for e in one.executors)
        chosen = assign(parallelism, {name: one.slots for name, one in executors.items()}, before, others)
        anchor = self._anchors[uid] = Anchor(
            chosen, self._empty([(executors[name].host, name) for name in chosen]), executors
        )
        return anchor

    def _empty(self, places: Sequence[tuple[str, str]]) -> Any:
        """Returns an RDD of partitions without rows that prefer these executors, given by host and id.

        A union passes on only the hosts that its parents prefer. Spark writes an executor as `executor_<host>_<id>`,
        and data in the cache of a file system as `hdfs_cache_<host>`. If a text has both prefixes, the union takes
        `executor_<host>_<id>` for the host, and passes it on.
        """
        names = {n: self._sequence([f"hdfs_cache_executor_{host}_{name}"]) for n, (host, name) in enumerate(places)}
        rdd = self._jvm.org.apache.spark.rdd.ParallelCollectionRDD
        no_rows, preferred = self._sequence([]), self._jvm.PythonUtils.toScalaMap(names)
        return rdd(self._context, no_rows, len(places), preferred, self._any)

    @property
    def _any(self) -> Any:
        return self._jvm.scala.reflect.ClassTag.Any()

    def _sequence(self, found: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(found)


def preferred_locations(session: SparkSession, job: str) -> PreferredLocations | None:
    """Returns the preferred locations of a job; None if tasks run in the driver's own process."""
    context: Any = session.sparkContext._jsc
    return None if context.sc().isLocal() else PreferredLocations(session, job)


__all__ = ["Executor", "Executors", "PreferredLocations", "preferred_locations"]
