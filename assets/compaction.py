"""`<job>/compaction`: a run folds the state of a stream into one layer, and deletes files that no manifest names."""

from typing import Any

import dagster as dg
from pydantic import Field

from lakestate.assets.failures import named_failures
from lakestate.assets.metadata import Metadata, lineage_link
from lakestate.assets.names import KINDS, compaction_key, dagster_name, stream_pool
from lakestate.assets.retention import ROWS
from lakestate.assets.run_limits import limit_runtime
from lakestate.errors import JobNotRunningError
from lakestate.folding import fold_state
from lakestate.resources import RestClientResource, StateStoreResource
from lakestate.running_job import RunningJob
from lakestate.takeover import CONFIRMED
from state_engine.checkpoint.compaction import CompactionPlan, plan_compaction
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.table import CheckpointRow
from state_engine.clock import SystemClock
from state_engine.savepoint import Retained

_COLUMNS = ("state", "layers", "files", "bytes", "log_rows", "rows")
_SCHEMA = dg.TableSchema(columns=[dg.TableColumn(name, "int" if name != "state" else "string") for name in _COLUMNS])


class CompactionConfig(dg.Config):
    """Options of a compaction run."""

    dry_run: bool = Field(default=False, description="Report what would be folded and removed, and change nothing.")
    stopped: bool = Field(
        default=False,
        description="Confirm that the job does not run, although its newest epoch is a minute old or less, or its root "
        "is a bucket, where that cannot be seen.",
    )


def build_compaction_asset(job: str, *, grace_ms: int | None = None) -> dg.AssetsDefinition:
    """Returns `<job>/compaction`.

    Args:
        job: Name of the job.
        grace_ms: How long files that nothing names are kept at least; by default the grace time of `RetentionPolicy`.
    """
    strays = RetentionPolicy(checkpoints=None, strays=True)
    if grace_ms is not None:
        strays = RetentionPolicy(checkpoints=None, strays=True, grace_ms=grace_ms)

    @dg.asset(
        key=compaction_key(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        metadata=lineage_link(job),
        description=(
            f"How the state of the stream `{job}` was folded. **Materialize** folds it into one layer, as a "
            "checkpoint, and deletes files that no manifest names. A running stream folds its state itself, and goes "
            "on meanwhile. It never deletes an epoch or a checkpoint. `dry_run` in the Launchpad changes nothing."
        ),
    )
    def compact(
        context: dg.AssetExecutionContext,
        config: CompactionConfig,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
    ) -> dg.MaterializeResult[Any]:
        limit_runtime(context)
        with named_failures():
            plan = plan_compaction(state_store.root, job)
            checkpoint = None
            if plan.needed and not config.dry_run:
                running = _running(rest_client, job)
                context.log.info(f"{job} folds its state." if running else f"This run folds the state of {job} itself.")
                now_ms = SystemClock().now_ms()
                checkpoint = fold_state(
                    state_store.root, plan, now_ms, running=running, stopped=config.stopped, by=CONFIRMED
                )
            done = state_store.retain(job, strays, dry_run=config.dry_run)
        return dg.MaterializeResult(metadata=compaction_metadata(plan, checkpoint, done, uri=state_store.uri(job)))

    return compact


def compaction_metadata(
    plan: CompactionPlan, checkpoint: CheckpointRow | None, done: Retained, *, uri: str
) -> Metadata:
    """Returns what a run records; the keys are always the same.

    `bytes` is the size of the state before the run, in layers and in later changes; `state_bytes` its size after it.
    """
    report, null = done.report, dg.MetadataValue.null()
    before = plan.bytes + sum(state.bytes for state in plan.states)
    rows = [(f"{s.uid}/{s.state}", s.layers, s.files, s.bytes, s.log_rows, s.rows) for s in plan.states]
    rows.sort(key=lambda row: -row[3])
    return {
        "dry_run": dg.MetadataValue.bool(report is None),
        "needed": dg.MetadataValue.bool(plan.needed),
        "generation": dg.MetadataValue.int(plan.generation),
        "epoch": dg.MetadataValue.int(plan.epoch),
        "epochs_behind": dg.MetadataValue.int(plan.epochs),
        "layers": dg.MetadataValue.int(max((state.layers for state in plan.states), default=0)),
        "bytes": dg.MetadataValue.int(before),
        "checkpoint_id": dg.MetadataValue.int(checkpoint.checkpoint_id or 0) if checkpoint is not None else null,
        "state_bytes": dg.MetadataValue.int(checkpoint.state_bytes) if checkpoint is not None else null,
        "stray_files": dg.MetadataValue.int(len(done.plan.removals)),
        "stray_bytes": dg.MetadataValue.int(done.plan.bytes),
        "removed_files": dg.MetadataValue.int(len(report.removed) if report is not None else 0),
        "removed_bytes": dg.MetadataValue.int(report.bytes if report is not None else 0),
        "waiting_files": dg.MetadataValue.int(report.waiting if report is not None else 0),
        "states": dg.MetadataValue.table(
            records=[dg.TableRecord(dict(zip(_COLUMNS, row, strict=True))) for row in rows[:ROWS]], schema=_SCHEMA
        ),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


def _running(rest_client: RestClientResource, job: str) -> RunningJob | None:
    try:
        return rest_client.job(job)
    except JobNotRunningError:
        return None


__all__ = ["CompactionConfig", "build_compaction_asset", "compaction_metadata"]
