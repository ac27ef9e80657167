"""Returns the operators that the code of a registered job declares, to check them against stored state. No Spark."""

from typing import TYPE_CHECKING

from lakestate.registry import build_dry, registered_jobs

if TYPE_CHECKING:
    from state_engine.epoch.request import OperatorShape
    from state_engine.log.records import Manifest
    from state_engine.savepoint.fitness import OperatorsOf


def operators_of_code(job: str, root: str, max_parallelism: int | None = None) -> "OperatorsOf":
    """Returns a function that builds a registered job without Spark and returns its operators.

    That function returns null if the job is not registered, or if only Spark can tell its operators.

    Args:
        job: Its name.
        root: Of the storage.
        max_parallelism: Number of key groups that it is to have; by default that of the source.
    """

    def operators_of(source: "Manifest") -> "tuple[OperatorShape, ...] | None":
        if job not in registered_jobs():
            return None
        from state_engine.spark.driver.startup import as_logged, shapes_of
        from state_engine.spark.graph.dry import NeedsSparkError

        try:
            built = build_dry(job, root)
        except NeedsSparkError:
            return None
        if built.name != job:
            return None
        settings = built.settings
        settings = as_logged(settings, source) if max_parallelism is None else settings.rekeyed(max_parallelism)
        return shapes_of(settings, built.operators)

    return operators_of


__all__ = ["operators_of_code"]
