"""`<job>/rescaled_state`: a run gives the job another parallelism, and distributes its state over other subtasks."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from lakestate.assets.failures import named_failures, refused
from lakestate.assets.metadata import Metadata, lineage_link
from lakestate.assets.names import KINDS, dagster_name, rescaled_state_key, stream_pool
from lakestate.assets.restore_metadata import ROWS
from lakestate.assets.run_limits import limit_runtime
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import trigger_of_policy
from lakestate.resources import RestClientResource, StateStoreResource
from lakestate.takeover import CONFIRMED, ensure_stopped
from state_engine.log.records import Manifest
from state_engine.savepoint import SavepointRequest
from state_engine.storage.job_lock import holding

REASON = "reason"


class RescaleConfig(dg.Config):
    """The new parallelism: give either `parallelism` or `operators`."""

    parallelism: int | None = Field(None, description="Subtasks of every operator.")
    operators: dict[str, int] = Field(default={}, description="Subtasks by operator uid. Only for a running job.")
    savepoint_first: bool | None = Field(
        None, description="Take a savepoint first. By default the policy of the stream decides."
    )
    stopped: bool = Field(
        False, description="Confirm that no process runs the job, where that cannot be seen: its root is a bucket."
    )
    reason: str = Field("", description="The reason, for the record. Sensors set it.")


def build_rescaled_state_asset(job: str, policy: SavepointPolicy | None = None) -> dg.AssetsDefinition:
    """Returns `<job>/rescaled_state`.

    Args:
        job: Name of the job.
        policy: Decides whether a savepoint is taken first.
    """
    before_rescale = (policy or SavepointPolicy()).before_rescale

    @dg.asset(
        key=rescaled_state_key(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        metadata=lineage_link(job),
        description=(
            f"The parallelism of the stream `{job}`, and when it was changed. **Materialize** with `parallelism` in "
            "the Launchpad changes it: of a running stream with its next epoch and without a restart, of a stopped "
            "one with its next start. No state is ever rewritten: its key groups go to another number of subtasks."
        ),
    )
    def rescaled_state(
        context: dg.AssetExecutionContext,
        config: RescaleConfig,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
    ) -> dg.MaterializeResult[Any]:
        limit_runtime(context)
        with named_failures():
            before = _newest(job, state_store)
            wanted = _wanted(job, config, before)
            running = not config.stopped and rest_client.is_running(job)
            if not running and config.operators:
                raise refused(
                    f"Job {job!r} is stopped; single operators can be rescaled only while it runs.",
                    action="Start it first, or give `parallelism`, which its next start uses.",
                )
            if not running:
                ensure_stopped(state_store.root, job, stopped=config.stopped, by=CONFIRMED)
            taken = None
            if config.savepoint_first if config.savepoint_first is not None else before_rescale:
                taken = _take_savepoint(context, job, state_store, rest_client, running=running)
            if running:
                rest_client.rescale(job, dict(config.operators) or config.parallelism or 0)
            else:
                _rescale_stopped(job, state_store, config.parallelism or 0)
            after = _newest(job, state_store)
        for uid, number in wanted.items():
            context.log.info(f"{uid}: {before.operators[uid].parallelism} → {number} subtasks")
        return dg.MaterializeResult(
            metadata=_metadata(before, after, config.reason, taken, running=running, uri=state_store.uri(job)),
            data_version=dg.DataVersion(f"{after.generation}/{after.epoch}"),
        )

    return rescaled_state


def _newest(job: str, state_store: StateStoreResource) -> Manifest:
    head = state_store.open_job(job).newest()
    if head is None or not head.manifest.operators:
        raise refused(f"Job {job!r} has no sealed epoch.", action="Start it; its definition has a parallelism.")
    return head.manifest


def _wanted(job: str, config: RescaleConfig, now: Manifest) -> Mapping[str, int]:
    """Returns the numbers of subtasks that operators are to have, by uid.

    Raises:
        Failure: The config does not fit the job.
    """
    if (config.parallelism is None) == (not config.operators):
        raise refused(
            "Neither `parallelism` nor `operators` was given."
            if config.parallelism is None
            else "Both `parallelism` and `operators` were given.",
            action="Give `parallelism` for all operators, or `operators` with a number for each uid.",
        )
    unknown = sorted(config.operators.keys() - now.operators.keys())
    if unknown:
        raise refused(
            f"Job {job!r} has no operator {unknown[0]!r}.",
            action=f"Its operators are {', '.join(sorted(now.operators))}.",
        )
    wanted = config.operators or dict.fromkeys(now.operators, config.parallelism or 0)
    for uid, number in wanted.items():
        groups = now.operators[uid].max_parallelism
        if not 1 <= number <= groups:
            raise refused(
                f"{number} is not a possible parallelism of operator {uid!r}: its state has {groups} key groups.",
                action=f"Give 1 to {groups}. For more key groups, use `lakestate restore {job} --max-parallelism`.",
            )
    return wanted


def _take_savepoint(
    context: dg.AssetExecutionContext,
    job: str,
    state_store: StateStoreResource,
    rest_client: RestClientResource,
    *,
    running: bool,
) -> str:
    """Takes a savepoint and returns its id; a sensor makes it a partition, as all that the engine takes."""
    request = SavepointRequest(label="before-rescale", trigger=trigger_of_policy("before_rescale"))
    if running:
        taken = rest_client.savepoint(job, request).rsplit("/", 1)[-1]
    else:
        taken = state_store.take_savepoint(job, request).savepoint_id
    context.log.info(f"Savepoint {taken} has the state before the rescale.")
    return taken


def _rescale_stopped(job: str, state_store: StateStoreResource, parallelism: int) -> None:
    """Seals the newest epoch once more with another parallelism; the next start goes on from it, with later input."""
    from state_engine.savepoint.restore import JobRestore
    from state_engine.spark.sinks.recorded import RecordedSinks

    with holding(state_store.root, job, "restore"):
        JobRestore(
            state_store.root, job, "latest", RecordedSinks, parallelism=parallelism, keep_output=True, validate=False
        ).run()


def _metadata(
    before: Manifest, after: Manifest, reason: str, savepoint_id: str | None, *, running: bool, uri: str
) -> Metadata:
    rows = [
        dg.TableRecord(
            {
                "operator": uid,
                "before": before.operators[uid].parallelism if uid in before.operators else 0,
                "after": operator.parallelism,
                "key groups": operator.max_parallelism,
            }
        )
        for uid, operator in sorted(after.operators.items())
    ]
    return {
        "parallelism": dg.MetadataValue.int(max(operator.parallelism for operator in after.operators.values())),
        "parallelism_before": dg.MetadataValue.int(max(one.parallelism for one in before.operators.values())),
        "operators": dg.MetadataValue.table(rows[:ROWS]),
        "landed_in": dg.MetadataValue.text(f"{after.generation}/{after.epoch}"),
        "job_was_running": dg.MetadataValue.bool(running),
        "savepoint_id": dg.MetadataValue.text(savepoint_id) if savepoint_id else dg.MetadataValue.null(),
        REASON: dg.MetadataValue.text(reason),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


__all__ = ["RescaleConfig", "build_rescaled_state_asset"]
