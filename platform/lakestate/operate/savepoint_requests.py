"""Shared code of the sensor and the schedule that request savepoints: the facts they decide by, and the run request.

Only one run at a time is requested, and less and less often while runs fail; the partition of a failed run is reused.
"""

from itertools import islice, takewhile
from typing import NamedTuple, get_args

import dagster as dg

from lakestate.assets.names import JOB_TAG, partitions_name, run_tags, savepoint_key
from lakestate.assets.savepoint import SavepointConfig
from lakestate.assets.savepoint_metadata import newest_savepoint
from lakestate.operate.unfinished_runs import UNFINISHED
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Decision, Look, Trigger, trigger_of_policy
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.table import CheckpointRow
from state_engine.inspect import JobView

TRIGGER_TAG = "lakestate/savepoint_trigger"
RETRY_MS = 60_000
LONGEST_RETRY_MS = 3_600_000
_ATTEMPTS = 8
_ROWS = 1_000
_COUNTED = frozenset(reason.status for reason in FailureReason if reason.counts)


class Attempts(NamedTuple):
    """The newest runs that policies requested.

    `under_way` is the id of a run that has not ended. `failed` is the number of newest runs that failed in a row. The
    last of these ended at `ended_at_ms`, and was to take the savepoint of `partition`.
    """

    under_way: str | None = None
    failed: int = 0
    ended_at_ms: int = 0
    partition: str | None = None

    def objection(self, now_ms: int) -> str | None:
        """Returns why no run is requested now; null if one may be."""
        if self.under_way is not None:
            return f"Run {self.under_way} is taking a savepoint, or is going to."
        wait_ms = min(LONGEST_RETRY_MS, RETRY_MS << (self.failed - 1)) if self.failed else 0
        remaining_ms = self.ended_at_ms + wait_ms - now_ms
        if remaining_ms <= 0:
            return None
        return f"The last {self.failed} runs for a savepoint failed; the next one is in {remaining_ms / 1000:,.0f} s."


def attempts_of(instance: dg.DagsterInstance, job: str) -> Attempts:
    """Returns how the newest runs that policies requested have ended, or that one is under way."""
    tags = {JOB_TAG: job, TRIGGER_TAG: get_args(Trigger)}
    records = instance.get_run_records(dg.RunsFilter(tags=tags), limit=_ATTEMPTS)
    unfinished = next((one for one in records if one.dagster_run.status in UNFINISHED), None)
    failed = list(takewhile(lambda one: one.dagster_run.status == dg.DagsterRunStatus.FAILURE, records))
    newest = failed[0] if failed else None
    return Attempts(
        under_way=unfinished.dagster_run.run_id if unfinished is not None else None,
        failed=len(failed),
        ended_at_ms=round((newest.end_time or 0.0) * 1000) if newest is not None else 0,
        partition=newest.dagster_run.tags.get("dagster/partition") if newest is not None else None,
    )


def look_at(
    instance: dg.DagsterInstance,
    view: JobView,
    now_ms: int,
    *,
    code_version: str | None = None,
    seen_version: str | None = None,
    key: dg.AssetKey | None = None,
) -> Look:
    """Returns the facts that a savepoint policy decides by.

    Args:
        instance: Of Dagster.
        view: Of the job.
        now_ms: The current time.
        code_version: Of the code that would be started now; None if the policy does not need it.
        seen_version: The version that was seen last, used if no savepoint has one.
        key: Key of the savepoints of the job; by default `<job>/savepoint`.
    """
    failed, completed = _failed_and_completed(view)
    newest = newest_savepoint(instance, view.job, key=key)
    saved_version = newest.code_version if newest is not None else None
    return Look(
        now_ms=now_ms,
        checkpoint_id=completed.checkpoint_id or 0 if completed is not None else 0,
        state_bytes=completed.state_bytes if completed is not None else 0,
        failed_at_ms=tuple(row.completed_at for row in failed),
        code_version=code_version,
        known_version=saved_version or seen_version,
        partitions=len(instance.get_dynamic_partitions(partitions_name(view.job))),
        newest=newest,
    )


def request_savepoint(
    instance: dg.DagsterInstance,
    job: str,
    policy: SavepointPolicy,
    decision: Decision,
    *,
    partition: str,
    code_version: str | None = None,
    run_key: str | None = None,
) -> dg.RunRequest:
    """Adds a partition, unless it exists, and returns the request of the run that takes its savepoint.

    Args:
        instance: Of Dagster.
        job: Name of the job.
        policy: What kind of savepoint, and where to store it.
        decision: Which trigger wants it, and why.
        partition: Its key, and the savepoint's label.
        code_version: Of the code that would be started now.
        run_key: As of `dg.RunRequest`.
    """
    assert decision.trigger is not None
    instance.add_dynamic_partitions(partitions_name(job), [partition])
    config = SavepointConfig(
        kind=policy.kind,
        directory=policy.directory,
        note=decision.reason,
        trigger=trigger_of_policy(decision.trigger),
        code_version=code_version,
    )
    op = savepoint_key(job).to_python_identifier()  # a translated key does not rename the op
    return dg.RunRequest(
        run_key=run_key,
        partition_key=partition,
        run_config=dg.RunConfig(ops={op: config}),
        tags={**run_tags(job), TRIGGER_TAG: decision.trigger},
    )


def _failed_and_completed(view: JobView) -> tuple[list[CheckpointRow], CheckpointRow | None]:
    """Returns the checkpoints that failed since the newest completed one, newest first, and the completed one."""
    failed: list[CheckpointRow] = []
    for row in islice(view.checkpoints_backwards(), _ROWS):
        if row.status == "completed":
            return failed, row
        if row.status in _COUNTED:
            failed.append(row)
    return failed, None


__all__ = ["Attempts", "attempts_of", "look_at", "request_savepoint"]
