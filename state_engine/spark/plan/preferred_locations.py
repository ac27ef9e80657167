"""Where the subtasks of an epoch prefer to run on a cluster: on the executor whose workers hold their state.

Spark asks the RDD that a stage ends with, and then those that it stands on, for the places that each partition prefers,
and waits for one of them for `spark.locality.wait`; behind a shuffle none is named. So what an operator gives is
united, partition by partition, with an RDD that has no rows and names an executor for each subtask. Nothing is read,
sorted or exchanged for it, and an executor that is busy or gone keeps no task from running elsewhere.
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
        host: Where it runs.
        slots: How many tasks it runs at a time.
    """

    host: str
    slots: int


class Executors:
    """The executors of a cluster, asked for anew when others come or go.

    Args:
        context: The Spark context, as the JVM has it.
        job: Name of a job: those with few subtasks shall not all begin with the same executor.
    """

    def __init__(self, context: Any, job: str) -> None:
        self._context = context
        self._job = job
        self._ids: str | None = None
        self._found: Mapping[str, Executor] = {}

    def look(self) -> Mapping[str, Executor]:
        """Returns the executors by id, in an order of the job's own.

        Spark's books follow its scheduler by a moment: who is not in there yet will be next time.
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
    """What names the executors of an operator's subtasks.

    Attributes:
        executors: The executor of each subtask.
        rdd: An RDD of as many partitions without rows, which prefer them.
        among: The executors that these were chosen from.
    """

    executors: Sequence[str]
    rdd: Any
    among: Mapping[str, Executor]


class PreferredLocations:
    """Chooses an executor for each subtask of a job, and stays with it while it lives and has no more than its share.

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
        """Returns what an operator gives, with each subtask preferring its executor; nothing is run yet.

        Args:
            stream: What its tasks give, one partition per subtask.
            uid: The operator.
            parallelism: Its own.
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
        known = self._anchors.get(uid)
        if known is not None and known.among == executors and len(known.executors) == parallelism:
            return known
        before = () if known is None else known.executors
        others = Counter(e for name, one in self._anchors.items() if name != uid for e in one.executors)
        chosen = assign(parallelism, {name: one.slots for name, one in executors.items()}, before, others)
        anchor = self._anchors[uid] = Anchor(
            chosen, self._empty([(executors[name].host, name) for name in chosen]), executors
        )
        return anchor

    def _empty(self, places: Sequence[tuple[str, str]]) -> Any:
        """Returns an RDD of partitions without rows that prefer these executors, given by host and id.

        A union passes on the hosts alone of what its parents prefer. Spark writes an executor as
        `executor_<host>_<id>`, and what is in the cache of a file system as `hdfs_cache_<host>`: of both in one, a
        union passes on as the host what names the executor.
        """
        names = {n: self._sequence([f"hdfs_cache_executor_{host}_{name}"]) for n, (host, name) in enumerate(places)}
        rdd = self._jvm.org.apache.spark.rdd.ParallelCollectionRDD
        nothing, preferred = self._sequence([]), self._jvm.PythonUtils.toScalaMap(names)
        return rdd(self._context, nothing, len(places), preferred, self._any)

    @property
    def _any(self) -> Any:
        return self._jvm.scala.reflect.ClassTag.Any()

    def _sequence(self, found: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(found)


def preferred_locations(session: SparkSession, job: str) -> PreferredLocations | None:
    """Returns the preferred locations of a job; None where tasks run in the driver's own process."""
    context: Any = session.sparkContext._jsc
    return None if context.sc().isLocal() else PreferredLocations(session, job)


__all__ = ["Executor", "Executors", "PreferredLocations", "preferred_locations"]
