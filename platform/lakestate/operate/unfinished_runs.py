"""Finds the runs of an asset that wait or are under way, no matter who requested them."""

import dagster as dg

UNFINISHED = frozenset(
    {
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    }
)


def unfinished_runs(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[dg.DagsterRun]:
    """Returns the runs of an asset that have not ended, newest first."""
    runs = instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
    return [run for run in runs if run.asset_selection is None or key in run.asset_selection]


__all__ = ["UNFINISHED", "unfinished_runs"]
