"""`<job>/savepoint`: savepoints of a stream, one per partition; a run takes, validates and records one."""

from typing import Literal

import dagster as dg
from pydantic import Field

from lakestate.assets.failures import named_failures, refused
from lakestate.assets.metadata import lineage_link
from lakestate.assets.names import (
    KINDS,
    dagster_name,
    partitions_name,
    savepoint_key,
    savepoint_partitions,
    stream_pool,
)
from lakestate.assets.run_limits import limit_runtime
from lakestate.assets.savepoint_checks import check_savepoint, savepoint_checks
from lakestate.assets.savepoint_metadata import newest_savepoint, recorded_savepoints, savepoint_metadata
from lakestate.assets.savepoint_taking import SavepointTaker, state_bytes_of
from lakestate.code_version import code_version_of
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Look
from lakestate.resources import RestClientResource, SparkSessionResource, StateStoreResource
from lakestate.resources.state_store import TRIGGER
from state_engine.checkpoint.retention.policy import made_by_policy
from state_engine.clock import SystemClock
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import SavepointRequest

_NO_PARTITION = "Choose or add a partition when you materialise it; its key is the name."


class SavepointConfig(dg.Config):
    """Which savepoint a run takes. Without effect for a partition that already has a savepoint."""

    kind: Literal["native", "canonical"] = Field(
        default="native",
        description="native: pins the files of the epoch and copies nothing. "
        "canonical: exports the state as Delta tables that can be moved.",
    )
    directory: str | None = Field(
        default=None, description="A path or address; the savepoint gets a folder in it. Default: below the job's root."
    )
    by_spark: bool = Field(
        default=False,
        description="For a canonical savepoint of a job that no process runs: a Spark session of the run folds the "
        "state. Use it for states of ten million rows and more. A running job does this by itself.",
    )
    note: str = Field(default="", description="A free-text note.")
    trigger: str = Field(
        default=TRIGGER,
        description="Who requested it. Retention removes only savepoints of `policy:<name>`, never a user's.",
    )
    next_epoch_s: float = Field(
        default=5.0, ge=0, description="For a running job: how long to wait for the end of the current epoch."
    )
    code_version: str | None = Field(default=None, description="Version of the job's code; sensors set it.")


def build_savepoint_asset(job: str, policy: SavepointPolicy | None = None) -> dg.AssetsDefinition:
    """Returns `<job>/savepoint`.

    The partition key becomes the savepoint's label. One partition is one savepoint for ever: another run of the same
    partition, such as a retry of one that died, validates and records the existing savepoint and takes no second one.

    Args:
        job: Name of the job.
        policy: The minimum time between savepoints, and their maximum number.
    """
    wanted = policy or SavepointPolicy()

    @dg.asset(
        key=savepoint_key(job),
        partitions_def=savepoint_partitions(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        metadata=lineage_link(job),
        check_specs=savepoint_checks(job),
        description=(
            f"Savepoints of the stream `{job}`, one per partition. **Materialize** and **Add a partition** takes one, "
            "validates and records it; the partition's key becomes its label. The stream may be running or stopped, "
            "and is never interrupted. By default nothing is copied. An existing savepoint is validated again, never "
            f"replaced. The same on the command line: `lakestate dagster savepoint {job} --label NAME`."
        ),
    )
    def savepoint(
        context: dg.AssetExecutionContext,
        config: SavepointConfig,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
        spark_session: SparkSessionResource,
    ) -> dg.MaterializeResult:  # type: ignore[type-arg] # Dagster takes no other name where there are checks
        if not context.has_partition_key:
            raise refused("A savepoint needs a name.", action=_NO_PARTITION)
        if "|" in context.partition_key:
            raise refused(
                f"A savepoint cannot be called {context.partition_key!r}: `|` joins savepoint and key groups in the "
                f"partitions of {job}/restored_state, so it could not be restored there.",
                action="Add a partition with another name, and delete this one.",
            )
        limit_runtime(context)
        with named_failures():
            stored = _find(context, job, state_store)
            is_new = stored is None
            if stored is None:
                _look_out(context, job, wanted, config, state_store)
                request = SavepointRequest(
                    kind=config.kind,
                    directory=config.directory,
                    label=context.partition_key,
                    note=config.note,
                    trigger=config.trigger,
                )
                taker = SavepointTaker(
                    job, state_store, rest_client, spark_session if config.by_spark else None, context.log
                )
                stored = taker.take(request, next_epoch_s=config.next_epoch_s)
            else:
                context.log.info(f"Savepoint {stored.savepoint_id} already is this partition; it is validated again.")
            manifests = state_store.validate_savepoint(job, stored)
            version = config.code_version or (code_version_of(job) if wanted.on_new_code_version and is_new else None)
            metadata = savepoint_metadata(
                state_store.open_job(job),
                stored,
                manifests,
                is_new=is_new,
                code_version=version,
                uri=state_store.uri(job),
            )
            checks = check_savepoint(state_store.root, job, stored.savepoint_id, key=context.asset_key)
        context.log.info(f"Savepoint {stored.savepoint_id} at epoch {stored.epoch}, {stored.bytes:,} bytes, was read.")
        return dg.MaterializeResult(
            metadata=metadata, data_version=dg.DataVersion(stored.savepoint_id), check_results=checks
        )

    return savepoint


def _find(context: dg.AssetExecutionContext, job: str, state_store: StateStoreResource) -> Savepoint | None:
    """Returns the savepoint that already exists for this partition; null if it is to be taken."""
    name, view = context.partition_key, state_store.open_job(job)
    recorded = next(recorded_savepoints(context.instance, job, partitions=[name], key=context.asset_key), None)
    if recorded is None:
        return view.savepoint(name) if name in view.savepoint_ids() else state_store.find_savepoint(job, name)
    savepoint = view.savepoint(recorded.savepoint_id)
    if savepoint is None:
        raise refused(
            f"Partition {name!r} was savepoint {recorded.savepoint_id}, which was removed.",
            action="A name is used for one savepoint only: add a partition with another name.",
        )
    return savepoint


def _look_out(
    context: dg.AssetExecutionContext,
    job: str,
    policy: SavepointPolicy,
    config: SavepointConfig,
    state_store: StateStoreResource,
) -> None:
    """Refuses a savepoint beyond the maximum number; warns of one that comes too soon after the newest."""
    others = len(context.instance.get_dynamic_partitions(partitions_name(job))) - 1
    objection = policy.too_many(others, by_policy=made_by_policy(config.trigger))
    if objection is not None:
        raise refused(
            objection,
            action=f"Materialise {job}/retention, which removes savepoints that policies took, or dispose of some.",
        )
    if (soon := policy.too_many(others, by_policy=True)) is not None:
        context.log.warning(f"{soon} The rest is reserved for users; {job}/retention makes room.")
    look = Look(
        now_ms=SystemClock().now_ms(),
        state_bytes=state_bytes_of(state_store, job),
        newest=newest_savepoint(context.instance, job, key=context.asset_key),
    )
    if (objection := policy.too_soon(look)) is not None:
        context.log.warning(f"{objection} It is taken nevertheless, since it was requested.")


__all__ = ["SavepointConfig", "build_savepoint_asset"]
