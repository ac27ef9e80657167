"""Adds partitions for savepoints that a job, the command line, REST or another run took.

A run of the partition records the savepoint with the same metadata as a run that takes one, and checks it: a tick reads
no state. The event log says which savepoints are partitions. The cursor only avoids reading the log while no savepoint
is added or removed.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import dagster as dg

from lakestate.assets.names import dagster_name, partitions_name, run_tags
from lakestate.assets.savepoint_metadata import recorded_savepoints
from lakestate.assets.translation import StreamKeys
from lakestate.operate.unfinished_runs import unfinished_runs
from lakestate.policies import SavepointPolicy
from lakestate.resources import StateStoreResource
from lakestate.resources.state_store import is_ours
from state_engine.log.savepoints import Savepoint

SAVEPOINT_TAG = "lakestate/recorded_savepoint"
AT_ONCE = 5
"""Maximum number of runs that one tick requests."""


class Known(NamedTuple):
    """What Dagster knows of a job's savepoints: the existing partition keys, and the key given to each savepoint."""

    partitions: frozenset[str]
    by_savepoint: dict[str, str]

    @property
    def savepoints(self) -> set[str]:
        """Ids of the savepoints that are partitions."""
        return {savepoint for savepoint, partition in self.by_savepoint.items() if partition in self.partitions}

    def partition_for(self, savepoint: Savepoint) -> str:
        """Returns the partition key of a savepoint.

        A savepoint that had a key keeps it. One that Dagster requested gets its label, as the run that took it would
        have done if it had not died. Any other one gets its id, since a label given elsewhere may be used twice.
        """
        former = self.by_savepoint.get(savepoint.savepoint_id)
        if former is not None:
            return former
        is_free = savepoint.label not in self.by_savepoint.values()
        return savepoint.label if savepoint.label and is_free and is_ours(savepoint) else savepoint.savepoint_id


def build_engine_savepoint_sensor(
    job: str, policy: SavepointPolicy, *, keys: StreamKeys | None = None
) -> dg.SensorDefinition:
    """Returns the sensor that adds partitions for savepoints which no run of `<job>/savepoint` took.

    It runs from the beginning only if the policy asks for it, since each run reads a whole savepoint; in the UI it can
    be switched on. A run is requested once per savepoint. If it fails because the savepoint is damaged, the partition
    exists, and can be materialised again.

    Args:
        job: Name of the job.
        policy: How often the sensor looks, and the maximum number of savepoints in Dagster.
        keys: Asset keys of the stream, if they are translated.
    """
    key = (keys or StreamKeys(job)).savepoint

    @dg.sensor(
        name=f"{dagster_name(job)}_engine_savepoints",
        minimum_interval_seconds=max(1, round(policy.look_every.total_seconds())),
        default_status=(
            dg.DefaultSensorStatus.RUNNING if policy.record_taken_elsewhere else dg.DefaultSensorStatus.STOPPED
        ),
        asset_selection=dg.AssetSelection.assets(key),
        description=(
            f"Adds a partition of `{job}/savepoint` for each savepoint that was taken outside of Dagster, and "
            "launches a run that validates and records it. It never takes or removes a savepoint."
        ),
    )
    def record_savepoints(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        view = state_store.open_job(job)
        stored = view.savepoint_ids()
        cursor = digest_of(stored)
        if context.cursor == cursor:
            return dg.SkipReason(f"No savepoint was added or removed; there are {len(stored):,}.")
        under_way = partitions_of_runs(context.instance, key)  # before the log: a run writes its record before it ends
        known = known_savepoints(context.instance, job, key)
        unknown = [one for name in sorted(stored - known.savepoints) if (one := view.savepoint(name)) is not None]
        deleted = [known.by_savepoint[one.savepoint_id] for one in unknown if one.savepoint_id in known.by_savepoint]
        if deleted:  # a user deleted the partition key, but the savepoint still exists
            context.instance.add_dynamic_partitions(partitions_name(job), deleted)
        had_run = asked_for(context.instance, [one.savepoint_id for one in unknown])
        new = [one for one in unknown if one.savepoint_id not in had_run and one.savepoint_id not in known.by_savepoint]
        open_ = [one for one in new if known.partition_for(one) not in under_way]
        room = max(0, policy.max_partitions - len(known.partitions) - len(deleted))
        requests = [_request(context.instance, job, known, one) for one in open_[: min(AT_ONCE, room)]]
        if requests:
            return dg.SensorResult(run_requests=requests)  # the cursor is not set, so the next tick looks again
        objection = policy.too_many(len(known.partitions), by_policy=False) if open_ else None
        message = "Each savepoint is a partition, or a run for it was requested."
        if objection is not None:
            message = f"{len(open_):,} savepoints are not partitions. {objection}"
        return dg.SensorResult(skip_reason=message, cursor=cursor if not new else None)

    return record_savepoints


def digest_of(savepoints: Iterable[str]) -> str:
    """Returns the digest of a set of savepoint ids, for the cursor."""
    return hashlib.sha256("\n".join(sorted(savepoints)).encode()).hexdigest()[:32]


def known_savepoints(instance: dg.DagsterInstance, job: str, key: dg.AssetKey) -> Known:
    """Returns what Dagster knows of a job's savepoints."""
    partitions = frozenset(instance.get_dynamic_partitions(partitions_name(job)))
    by_savepoint: dict[str, str] = {}
    for one in recorded_savepoints(instance, job, key=key):
        by_savepoint.setdefault(one.savepoint_id, one.partition)
    return Known(partitions, by_savepoint)


def asked_for(instance: dg.DagsterInstance, savepoints: Sequence[str]) -> set[str]:
    """Returns those of some savepoints for which a run was requested, no matter how it ended."""
    if not savepoints:
        return set()
    runs = instance.get_runs(dg.RunsFilter(tags={SAVEPOINT_TAG: list(savepoints)}))
    return {run.tags[SAVEPOINT_TAG] for run in runs}


def partitions_of_runs(instance: dg.DagsterInstance, key: dg.AssetKey) -> set[str]:
    """Returns the partitions of savepoints that runs are going to record themselves."""
    runs = unfinished_runs(instance, key)
    return {run.tags["dagster/partition"] for run in runs if "dagster/partition" in run.tags}


def _request(instance: dg.DagsterInstance, job: str, known: Known, savepoint: Savepoint) -> dg.RunRequest:
    partition = known.partition_for(savepoint)
    instance.add_dynamic_partitions(partitions_name(job), [partition])
    tags = {**run_tags(job), SAVEPOINT_TAG: savepoint.savepoint_id}
    return dg.RunRequest(run_key=savepoint.savepoint_id, partition_key=partition, tags=tags)


__all__ = ["AT_ONCE", "Known", "build_engine_savepoint_sensor", "digest_of", "known_savepoints", "partitions_of_runs"]
