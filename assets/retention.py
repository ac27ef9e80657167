"""`<job>/retention`: a run applies the policy of a stream, and reports what was deleted and how many bytes."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import dagster as dg
from pydantic import Field

from lakestate.assets.failures import named_failures
from lakestate.assets.metadata import Metadata, lineage_link
from lakestate.assets.names import KINDS, dagster_name, partitions_name, retention_key, stream_pool
from lakestate.assets.run_limits import limit_runtime
from lakestate.assets.savepoint_metadata import recorded_savepoints
from lakestate.policies import StreamRetention
from lakestate.resources import StateStoreResource
from state_engine.checkpoint.retention.decision import Removal
from state_engine.inspect import JobView
from state_engine.savepoint import Retained

ROWS = 20
"""Maximum number of rows of a table in metadata."""
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("what", "string"),
        dg.TableColumn("why", "string"),
        dg.TableColumn("files", "int"),
        dg.TableColumn("bytes", "int"),
    ]
)


class RetentionConfig(dg.Config):
    """Options of a retention run."""

    dry_run: bool = Field(default=False, description="Report what would be deleted, and change nothing.")


class Gone(NamedTuple):
    """A partition with a savepoint that does not exist any more."""

    partition: str
    savepoint_id: str


def build_retention_asset(
    job: str, retention: StreamRetention | None = None, *, savepoints: dg.AssetKey | None = None
) -> dg.AssetsDefinition:
    """Returns `<job>/retention`.

    Args:
        job: Name of the job.
        retention: What is kept. Only savepoints that a policy took are deleted, never those of users.
        savepoints: Key of its savepoints in the event log; by default `<job>/savepoint`.
    """
    wanted = retention or StreamRetention()

    @dg.asset(
        key=retention_key(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        metadata=lineage_link(job),
        description=(
            f"What was deleted of the stream `{job}`. **Materialize** deletes what its policy does not keep: "
            "checkpoints, epochs, and savepoints that a policy took. A first run only condemns files; one after the "
            "grace time deletes them. It never removes a user's savepoint, and never what the newest epoch needs. "
            "`dry_run` in the Launchpad reports what would be deleted."
        ),
    )
    def retain(
        context: dg.AssetExecutionContext, config: RetentionConfig, state_store: StateStoreResource
    ) -> dg.MaterializeResult[Any]:
        limit_runtime(context)
        with named_failures():
            done = state_store.retain(job, wanted.policy, dry_run=config.dry_run)
            gone = gone_partitions(context.instance, state_store.open_job(job), key=savepoints)
        for one in gone if not config.dry_run else ():
            context.instance.delete_dynamic_partition(partitions_name(job), one.partition)
            context.log.info(f"Partition {one.partition} is deleted: savepoint {one.savepoint_id} no longer exists.")
        context.log.info(_told(done))
        return dg.MaterializeResult(metadata=retention_metadata(done, gone, uri=state_store.uri(job)))

    return retain


def gone_partitions(instance: dg.DagsterInstance, view: JobView, *, key: dg.AssetKey | None = None) -> list[Gone]:
    """Returns the partitions with a recorded savepoint that does not exist any more, no matter who removed it.

    For a job without epochs it returns none: its root may have been changed.

    Args:
        instance: Of Dagster.
        view: Of the job.
        key: Key of its savepoints; by default `<job>/savepoint`.
    """
    partitions = set(instance.get_dynamic_partitions(partitions_name(view.job)))
    if not partitions or view.newest() is None:
        return []
    stored = view.savepoint_ids()
    of_partition: dict[str, str] = {}
    for one in recorded_savepoints(instance, view.job, key=key):
        if one.partition in partitions:
            of_partition.setdefault(one.partition, one.savepoint_id)  # the newest event comes first, and counts
    return sorted(Gone(name, savepoint) for name, savepoint in of_partition.items() if savepoint not in stored)


def retention_metadata(done: Retained, gone: Iterable[Gone], *, uri: str) -> Metadata:
    """Returns what a run records; the keys are always the same.

    `files` and `bytes` count all files that the policy does not keep, `removed_files` and `removed_bytes` those that
    this run deleted. The rest waits for its grace time, or is needed after all (`spared_files`).
    """
    plan, report = done.plan, done.report
    removed = set(report.removed) if report is not None else set()
    disposed = [one for one in plan.disposals if one.savepoint_id in done.disposed]
    removed_bytes = (report.bytes if report is not None else 0) + sum(one.bytes for one in disposed)
    leaving = [*plan.savepoints, *(one.savepoint_id for one in plan.disposals)]
    return {
        "dry_run": dg.MetadataValue.bool(report is None),
        "files": dg.MetadataValue.int(len(plan.removals)),
        "bytes": dg.MetadataValue.int(plan.bytes),
        "removed_files": dg.MetadataValue.int(len(removed)),
        "removed_bytes": dg.MetadataValue.int(removed_bytes),
        "waiting_files": dg.MetadataValue.int(report.waiting if report is not None else 0),
        "spared_files": dg.MetadataValue.int(len(report.spared) if report is not None else 0),
        "leaving_savepoints": _names(leaving),
        "disposed_savepoints": _names(done.disposed),
        "savepoints_in_use": _names(done.in_use),
        "deleted_partitions": _names(one.partition for one in gone),
        "kept_checkpoints": dg.MetadataValue.int(len(plan.checkpoints)),
        "oldest_epoch": dg.MetadataValue.text("/".join(map(str, plan.oldest_epoch)) if plan.oldest_epoch else "all"),
        "what_goes": _table(plan.removals),
        "what_went": _table(removal for removal in plan.removals if removal.path in removed),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


def _table(removals: Iterable[Removal]) -> dg.MetadataValue[Any]:
    """Returns removals by kind and reason, those with most bytes first; one row sums up those that do not fit."""
    files, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for removal in removals:
        files[removal.kind, removal.reason] += 1
        sizes[removal.kind, removal.reason] += removal.bytes
    order = sorted(files, key=lambda one: (-sizes[one], one))
    shown, others = (order, []) if len(order) <= ROWS else (order[: ROWS - 1], order[ROWS - 1 :])
    rows = [(*one, files[one], sizes[one]) for one in shown]
    if others:
        rows.append(("others", f"{len(others)} reasons", sum(files[o] for o in others), sum(sizes[o] for o in others)))
    records = [dg.TableRecord({"what": w, "why": y, "files": f, "bytes": b}) for w, y, f, b in rows]
    return dg.MetadataValue.table(records=records, schema=_COLUMNS)


def _names(all_names: Iterable[str]) -> dg.MetadataValue[Any]:
    names = list(all_names)
    shown = names if len(names) <= ROWS else [*names[: ROWS - 1], f"and {len(names) - ROWS + 1} more"]
    return dg.MetadataValue.json(shown)


def _told(done: Retained) -> str:
    report = done.report
    if report is None:
        return f"{len(done.plan.removals):,} files with {done.plan.bytes:,} bytes would be deleted; nothing is changed."
    return (
        f"{len(report.removed):,} files with {report.bytes:,} bytes were deleted, {report.waiting:,} wait for the end "
        f"of the grace time; {len(done.disposed)} savepoints were disposed of."
    )


__all__ = ["ROWS", "Gone", "RetentionConfig", "build_retention_asset", "gone_partitions", "retention_metadata"]
