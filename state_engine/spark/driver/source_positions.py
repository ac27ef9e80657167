"""Asks the sources of a job, before a start writes anything, whether they still have what their positions need."""

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from state_engine.epoch.delta_positions import position_of
from state_engine.epoch.kafka_positions import with_ids
from state_engine.epoch.source_changes import is_moved
from state_engine.epoch.source_options import DELTA, KAFKA, SourceFormat, format_of
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourceFingerprint, SourcePosition
from state_engine.spark.driver.delta_tables import ask_table
from state_engine.spark.driver.hadoop_files import has_own_access
from state_engine.spark.driver.kafka_topics import ask_topics


def ask_sources(
    spark: SparkSession,
    options: Sequence[Mapping[str, str]],
    sources: Sequence[SourceFingerprint],
    target: Manifest | None,
    allowed: Collection[int] = (),
) -> tuple[SourceFingerprint, ...]:
    """Checks that Kafka's topics and Delta tables still have what positions need; other sources are not asked.

    Args:
        spark: The session that is going to read them.
        options: All options of each source, names in lower case.
        sources: The sources as the job declares them.
        target: The epoch that the job goes on from; its positions count for sources that are as many as then.
        allowed: Numbers of the sources that may have changed.

    Returns:
        The sources, those of Kafka with the ids of their topics.

    Raises:
        SourcePositionLostError: What is needed is gone.
        SourceUnavailableError: A source does not answer.
    """
    asked = []
    for number, source in enumerate(sources):
        kind = format_of(source.kind)
        known = _known(number, kind, len(sources), target)
        if kind is KAFKA:
            found = ask_topics(spark, number, options[number], known, changed=number in allowed)
            source = with_ids(source, found)
        elif kind is DELTA and known is not None and source.path and not has_own_access(options[number]):
            position, recorded = known
            if number in allowed or not is_moved(recorded, source):  # otherwise the start is refused for its path
                ask_table(spark, number, source.path, options[number], position_of(position))
        asked.append(source)
    return tuple(asked)


def _known(
    number: int, kind: SourceFormat, sources: int, target: Manifest | None
) -> tuple[SourcePosition, SourceFingerprint] | None:
    """Returns the position of a source, and the source as it was then; None if there is none of its format."""
    if target is None or len(target.sources) != sources:
        return None
    position, recorded = target.sources[number], target.fingerprints[number]
    return (position, recorded) if format_of(recorded.kind) is kind else None


__all__ = ["ask_sources"]
