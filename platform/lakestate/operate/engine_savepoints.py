"""Makes partitions of savepoints that a job, the command line, REST or another run took.

A run of the partition records the savepoint, in the same words as one that takes it, and checks it: a tick reads no
state. The event log says which savepoints are partitions. The cursor only spares reading it while none comes or goes.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import dagster as dg

from lakestate.assets.names import dagster_name, partitions_name, run_tags, savepoint_key
from lakestate.assets.savepoint_metadata import recorded_savepoints
from lakestate.operate.unfinished_runs import unfinished_runs
from lakestate.policies import SavepointPolicy
from lakestate.resources import StateStoreResource
from lakestate.resources.state_store import is_ours
from state_engine.log.savepoints import Savepoint

SAVEPOINT_TAG = "lakestate/recorded_savepoint"
AT_ONCE = 5
"""So many runs are asked for in one tick."""


class Known(NamedTuple):
    """What Dagster knows of a job's savepoints: the keys that there are, and the key that each savepoint was given."""

    partitions: frozenset[str]
    by_savepoint: dict[str, str]

    @property
    def savepoints(self) -> set[str]:
        """Ids of those that are partitions."""
        return {savepoint for savepoint, partition in self.by_savepoint.items() if partition in self.partitions}

    def partition_for(self, savepoint: Savepoint) -> str:
        """Returns the key of a savepoint.

        It is the one that it had. Of those that Dagster asked for it is the label, which its run would have used if it
        had not died; else the id: a label that somebody gave elsewhere may be there twice.
        """
        had = self.by_savepoint.get(savepoint.savepoint_id)
        if had is not None:
            return had
        free = savepoint.label not in self.by_savepoint.values()
        return savepoint.label if savepoint.label and free and is_ours(savepoint) else savepoint.savepoint_id


def build_engine_savepoint_sensor(job: str, policy: SavepointPolicy) -> dg.SensorDefinition:
    """Returns the sensor that makes partitions of savepoints which no run of `<job>/savepoint` took.

    A run is asked for once per savepoint. If it fails, since the savepoint is damaged, the partition is there, and may
    be materialised again.
    """

    @dg.sensor(
        name=f"{dagster_name(job)}_engine_savepoints",
        minimum_interval_seconds=max(1, round(policy.look_every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        asset_selection=dg.AssetSelection.assets(savepoint_key(job)),
        description=f"Makes partitions of savepoints of the stream `{job}` that were taken elsewhere.",
    )
    def record_savepoints(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        view = state_store.open_job(job)
        there = view.savepoint_ids()
        cursor = digest_of(there)
        if context.cursor == cursor:
            return dg.SkipReason(f"No savepoint has come or gone; there are {len(there):,}.")
        under_way = partitions_of_runs(context.instance, job)  # before the log: what a run records it records first
        known = known_savepoints(context.instance, job)
        unknown = [one for name in sorted(there - known.savepoints) if (one := view.savepoint(name)) is not None]
        back = [known.by_savepoint[one.savepoint_id] for one in unknown if one.savepoint_id in known.by_savepoint]
        if back:  # somebody deleted the key, and the savepoint is there
            context.instance.add_dynamic_partitions(partitions_name(job), back)
        asked = asked_for(context.instance, [one.savepoint_id for one in unknown])
        new = [one for one in unknown if one.savepoint_id not in asked and one.savepoint_id not in known.by_savepoint]
        open_ = [one for one in new if known.partition_for(one) not in under_way]
        room = max(0, policy.max_partitions - len(known.partitions) - len(back))
        requests = [_request(context.instance, job, known, one) for one in open_[: min(AT_ONCE, room)]]
        if requests:
            return dg.SensorResult(run_requests=requests)  # the cursor waits: the next tick looks again
        objection = policy.too_many(len(known.partitions), by_policy=False) if open_ else None
        told = "All savepoints are partitions, or a run was asked for."
        if objection is not None:
            told = f"{len(open_):,} savepoints are no partitions. {objection}"
        return dg.SensorResult(skip_reason=told, cursor=cursor if not new else None)

    return record_savepoints


def digest_of(savepoints: Iterable[str]) -> str:
    """Returns what stands for a set of savepoints in the cursor."""
    return hashlib.sha256("\n".join(sorted(savepoints)).encode()).hexdigest()[:32]


def known_savepoints(instance: dg.DagsterInstance, job: str) -> Known:
    """Returns what Dagster knows of a job's savepoints."""
    partitions = frozenset(instance.get_dynamic_partitions(partitions_name(job)))
    by_savepoint: dict[str, str] = {}
    for one in recorded_savepoints(instance, job):
        by_savepoint.setdefault(one.savepoint_id, one.partition)
    return Known(partitions, by_savepoint)


def asked_for(instance: dg.DagsterInstance, savepoints: Sequence[str]) -> set[str]:
    """Returns those of some savepoints for which a run was asked, however it ended."""
    if not savepoints:
        return set()
    runs = instance.get_runs(dg.RunsFilter(tags={SAVEPOINT_TAG: list(savepoints)}))
    return {run.tags[SAVEPOINT_TAG] for run in runs}


def partitions_of_runs(instance: dg.DagsterInstance, job: str) -> set[str]:
    """Returns the partitions that runs are going to record themselves."""
    ours = unfinished_runs(instance, savepoint_key(job))
    return {run.tags["dagster/partition"] for run in ours if "dagster/partition" in run.tags}


def _request(instance: dg.DagsterInstance, job: str, known: Known, savepoint: Savepoint) -> dg.RunRequest:
    partition = known.partition_for(savepoint)
    instance.add_dynamic_partitions(partitions_name(job), [partition])
    tags = {**run_tags(job), SAVEPOINT_TAG: savepoint.savepoint_id}
    return dg.RunRequest(run_key=savepoint.savepoint_id, partition_key=partition, tags=tags)


__all__ = ["AT_ONCE", "Known", "build_engine_savepoint_sensor", "digest_of", "known_savepoints", "partitions_of_runs"]
