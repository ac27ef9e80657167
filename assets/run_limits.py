"""How long a run may hold the pool of a stream, whoever launched it."""

import dagster as dg

from lakestate.assets.names import MAX_RUNTIME_S

MAX_RUNTIME = "dagster/max_runtime"


def limit_runtime(context: dg.AssetExecutionContext) -> None:
    """Has run monitoring end this run some day, unless it was launched with a limit: its host may die with the pool."""
    if MAX_RUNTIME not in context.run.tags:
        context.instance.add_run_tags(context.run.run_id, {MAX_RUNTIME: str(MAX_RUNTIME_S)})


__all__ = ["MAX_RUNTIME", "limit_runtime"]
