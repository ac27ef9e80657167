"""Limits how long a run may hold the pool of a stream, no matter who launched it."""

import dagster as dg

from lakestate.assets.names import MAX_RUNTIME_S

MAX_RUNTIME = "dagster/max_runtime"


def limit_runtime(context: dg.AssetExecutionContext) -> None:
    """Sets a limit for run monitoring, unless the run was launched with one: its host may die and keep the pool."""
    if MAX_RUNTIME not in context.run.tags:
        context.instance.add_run_tags(context.run.run_id, {MAX_RUNTIME: str(MAX_RUNTIME_S)})


__all__ = ["MAX_RUNTIME", "limit_runtime"]
