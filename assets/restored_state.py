"""`<job>/restored_state`: a backfill over ranges of a savepoint's key groups restores them."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from lakestate.assets.failures import named_failures, refused
from lakestate.assets.metadata import Metadata, lineage_link
from lakestate.assets.names import KINDS, dagster_name, restored_state_key, savepoint_key, stream_pool
from lakestate.assets.ranges import RANGES, Chosen, chosen_of, joined_names, restore_partitions
from lakestate.assets.restore_metadata import empty_metadata, part_metadata, whole_metadata
from lakestate.assets.restoring import Restoring
from lakestate.assets.run_limits import limit_runtime
from lakestate.resources import JobControlResource, RestClientResource, StateStoreResource


class RestoreConfig(dg.Config):
    """Options of a restore."""

    rewind: bool = Field(
        False,
        description="Restore the whole job, with sources and Delta sinks, in a new generation. Needs all ranges. A "
        "running job is stopped and started again.",
    )
    dry_run: bool = Field(False, description="Report what would happen, and write nothing.")
    operators: list[str] | None = Field(
        None, description="Only these operators, by uid. Default: all with keyed state. Not with rewind."
    )
    allow_non_restored_state: bool = Field(
        False, description="With rewind: skip state of operators that the job no longer has."
    )
    keep_output: bool = Field(
        False, description="With rewind: keep the rows that sinks have. Needed for sinks that cannot take them back."
    )
    parallelism: int | None = Field(None, ge=1, description="With rewind: subtasks of every operator from now on.")
    stopped: bool = Field(
        False, description="Confirm that no process runs the job, where that cannot be seen: its root is a bucket."
    )
    skip_validation: bool = Field(False, description="Skip the validation of the whole savepoint before the restore.")

    def check(self, chosen: Chosen) -> None:
        """Refuses options that contradict each other or the selection.

        Raises:
            Failure: They do.
        """
        only_whole = {
            "allow_non_restored_state": self.allow_non_restored_state,
            "keep_output": self.keep_output,
            "parallelism": self.parallelism,
        }
        given = [name for name, value in only_whole.items() if value]
        if self.rewind and not chosen.is_whole:
            raise refused(
                f"`rewind` restores the whole job, but only {len(chosen.ranges)} of {RANGES} ranges of key groups were "
                "chosen. Nothing was restored.",
                action="Choose all ranges of the savepoint, or leave out `rewind` to restore only these.",
            )
        if self.rewind and self.operators is not None:
            raise refused("`rewind` is for all operators.", action="Leave out `operators`, or `rewind`.")
        if given and not self.rewind:
            raise refused(f"`{given[0]}` needs `rewind`: it is for the whole job.", action=f"Leave out `{given[0]}`.")
        if self.operators == []:
            raise refused("`operators` is an empty list.", action="Name operators, or leave it out for all.")


def build_restored_state_asset(job: str, *, savepoints: dg.AssetKey | None = None) -> dg.AssetsDefinition:
    """Returns `<job>/restored_state`: savepoints × ranges of key groups, restored by a backfill in a single run.

    Args:
        job: Name of the job.
        savepoints: Key of its savepoints in the event log; by default `<job>/savepoint`.
    """

    @dg.asset(
        key=restored_state_key(job),
        deps=[savepoint_key(job)],
        partitions_def=restore_partitions(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        metadata=lineage_link(job),
        output_required=False,  # a dry run restores nothing, and writes an observation instead
        description=(
            f"What went back to a savepoint in the stream `{job}`: one savepoint × sixteenths of its key groups. "
            "**Materialize** replaces the states and timers of the chosen key groups together, while the stream runs "
            "or is stopped. All other keys keep their state, input is not read again, and sinks keep their rows. "
            "With all ranges and `rewind` in the Launchpad the whole job goes back, sources and Delta sinks "
            "included. Nothing is written before the savepoint was validated; `dry_run` writes nothing at all."
        ),
    )
    def restored_state(
        context: dg.AssetExecutionContext,
        config: RestoreConfig,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
        job_control: JobControlResource,
    ) -> Iterator[dg.MaterializeResult[Any]]:
        chosen = chosen_of(context, job)
        limit_runtime(context)
        config.check(chosen)
        with named_failures():
            restoring = Restoring(job, state_store, rest_client, job_control, context.log, stopped=config.stopped)
            savepoint_id = restoring.find(context.instance, chosen.savepoint, key=savepoints)
            metadata = _restore(context, config, restoring, savepoint_id, chosen, state_store.uri(job))
        if config.dry_run:
            context.log_event(dg.AssetObservation(context.asset_key, "A dry run.", metadata=metadata))
        else:
            yield dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(savepoint_id))

    return restored_state.with_attributes(backfill_policy=dg.BackfillPolicy.single_run())


def _restore(
    context: dg.AssetExecutionContext,
    config: RestoreConfig,
    restoring: Restoring,
    savepoint_id: str,
    chosen: Chosen,
    uri: str,
) -> Metadata:
    groups, number = restoring.key_groups(savepoint_id, chosen)
    if not config.skip_validation:
        restoring.validate(savepoint_id)
    if not groups:
        context.log.info(f"The chosen ranges have none of the {number} key groups of savepoint {savepoint_id}.")
        return empty_metadata(savepoint_id, number, uri=uri)
    context.log.info(f"Savepoint {savepoint_id}: key groups {joined_names(groups)} of {number}.")
    running = restoring.is_running
    if not config.rewind:
        part = restoring.restore_part(savepoint_id, groups, config.operators, dry_run=config.dry_run)
        for line in part.lines():
            context.log.info(line)
        return part_metadata(part, groups, running=running, uri=uri)
    options: dict[str, Any] = {
        "allow_non_restored_state": config.allow_non_restored_state,
        "keep_output": config.keep_output,
        "parallelism": config.parallelism,
    }
    whole = restoring.plan_whole(savepoint_id, **options)
    if not config.dry_run:
        whole = (
            restoring.restore_running(savepoint_id, whole, **options)
            if running
            else restoring.restore_stopped(savepoint_id, **options)
        )
    for line in whole.lines():
        context.log.info(line)
    return whole_metadata(whole, groups, keep_output=config.keep_output, running=running, uri=uri)


__all__ = ["RestoreConfig", "build_restored_state_asset"]
