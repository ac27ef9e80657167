"""What the code of a registered job declares, for whoever asks whether it fits. No Spark."""

from typing import TYPE_CHECKING

from lakestate.registry import build_dry, registered_jobs

if TYPE_CHECKING:
    from state_engine.epoch.request import OperatorShape
    from state_engine.log.records import Manifest
    from state_engine.savepoint.fitness import OperatorsOf


def operators_of_code(job: str, root: str, max_parallelism: int | None = None) -> "OperatorsOf":
    """Asks a registered job for its operators, without Spark; none where nobody but Spark knows them.

    Args:
        job: Its name.
        root: Of the storage.
        max_parallelism: Key groups that it is to have; those of the source by default.
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
