"""Checks what comes before the first operator: the sources, and the transformations that are not allowed there.

We could not restore Spark's own state (aggregates, window functions, deduplication, stream–stream joins, limits). A
random expression would route a record elsewhere when its epoch runs again. Both are refused when the job is built.
"""

import re
from typing import Any

from pyspark.sql import DataFrame

from state_engine.epoch.source_options import DELTA, FILES, format_of, recorded
from state_engine.epoch.source_paths import is_relative, place
from state_engine.errors import SourcesChangedError, UnsupportedUpstreamError
from state_engine.log.source_records import SourceFingerprint
from state_engine.spark.graph.plans import items, kind_of, nodes, random_expression

_STATEFUL = {
    "Aggregate": "an aggregation",
    "Distinct": "distinct()",
    "Deduplicate": "dropDuplicates()",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark()",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState()",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState()",
    "TransformWithStateInPandas": "transformWithStateInPandas()",
    "GlobalLimit": "limit()",
    "LocalLimit": "limit()",
    "Window": "a window function",
}
_FORGETS = re.compile(r"(?i)^(.*socket.*|rate|.*\.RateStreamProvider|memory)$")


def check_upstream(df: DataFrame) -> None:
    """Refuses what an epoch could not repeat, or a restore could not bring back.

    Raises:
        UnsupportedUpstreamError: The DataFrame is one of Spark Connect, is not streaming, holds Spark state, or is not
            deterministic.
    """
    if any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(df).__mro__):
        raise UnsupportedUpstreamError(
            "from_stream() got a DataFrame of Spark Connect. A job builds the plans of its epochs in the JVM of its "
            "own process, and with Spark Connect there is none.",
            action="Make a classic session: local_session(), or SparkSession.builder.master(...) without remote(...).",
        )
    if not df.isStreaming:
        raise UnsupportedUpstreamError(
            "from_stream() got a DataFrame that is not streaming.", action="Read it with spark.readStream."
        )
    for node in nodes(df):
        name = kind_of(node)
        stateful = _STATEFUL.get(name) if node.isStreaming() else None
        if name == "Join" and all(child.isStreaming() for child in items(node.children())):
            stateful = "a join of two streams"
        if stateful is not None:
            raise UnsupportedUpstreamError(
                f"The stream has {stateful} before the first operator; Spark keeps its state where no savepoint "
                "reaches.",
                action="Do it in an operator: a KeyedProcessFunction with ValueState, ListState or MapState.",
            )
    if (random := random_expression(df)) is not None:
        raise UnsupportedUpstreamError(
            f"The stream uses {random}, which gives another value when an epoch runs again.",
            action="Compute it in the function, or write it into the source.",
        )


def fingerprints(df: DataFrame) -> tuple[SourceFingerprint, ...]:
    """Returns what identifies the sources of a stream, in Spark's order.

    Raises:
        SourcesChangedError: A file source removes what it has read, so that nothing could be read again.
        UnsupportedUpstreamError: One `readStream` is used twice: Spark would keep one position for both.
    """
    identities = []
    leaves = _streaming_leaves(df)
    for number, leaf in enumerate(leaves):
        if any(leaf.equals(other) for other in leaves[:number]):
            raise UnsupportedUpstreamError(
                "A streaming DataFrame comes together with itself; Spark would take both for one source.",
                action="Read it a second time, with a spark.readStream of its own.",
            )
        kind, options = _describe(leaf)
        if options.get("cleansource", "off").lower() != "off":
            raise SourcesChangedError(
                f"The {kind} source has cleanSource={options['cleansource']!r}: a restore could not read them again.",
                action="Remove the option, and let retention of the source follow the oldest savepoint.",
            )
        path = _absolute(df, kind, options.pop("path", ""))
        identities.append(SourceFingerprint(kind=kind, path=path, options=recorded(kind, options)))
    return tuple(identities)


def client_options(df: DataFrame) -> tuple[dict[str, str], ...]:
    """Returns all options of each source, in Spark's order, with secrets; names in lower case."""
    return tuple(_describe(leaf)[1] for leaf in _streaming_leaves(df))


def check_replays(df: DataFrame) -> None:
    """Refuses sources that forget what they have sent.

    Raises:
        SourcesChangedError: One of them cannot replay.
    """
    for source in fingerprints(df):
        if _FORGETS.search(source.kind):
            raise SourcesChangedError(
                f"The {source.kind} source cannot read again what it has read, so nothing could be exactly once.",
                action="Use files, Delta, Kafka or rate-micro-batch, or declare it: from_stream(df, replays=False).",
            )


def _streaming_leaves(df: DataFrame) -> list[Any]:
    return [leaf for leaf in items(df._jdf.queryExecution().analyzed().collectLeaves()) if leaf.isStreaming()]


def _describe(leaf: Any) -> tuple[str, dict[str, str]]:
    if leaf.getClass().getSimpleName() == "StreamingRelation":
        source = leaf.dataSource()
        given = source.userSpecifiedSchema()
        schema = {"schema": str(given.get().catalogString())} if given.isDefined() else {}
        return source.className(), _options(source.options()) | schema
    extra = leaf.extraOptions().asCaseSensitiveMap()
    return leaf.sourceName(), {str(k).lower(): str(extra[k]) for k in extra}


def _absolute(df: DataFrame, kind: str, path: str) -> str:
    """Returns an absolute path: Spark reads a relative one below the JVM's working folder, which may change."""
    if format_of(kind) not in (FILES, DELTA) or not is_relative(path):
        return path
    spark: Any = df.sparkSession
    hadoop = spark._jvm.org.apache.hadoop.fs.Path(path)
    system = hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return place(str(system.makeQualified(hadoop).toString()))


def _options(options: Any) -> dict[str, str]:
    iterator = options.iterator()
    by_name = {}
    while iterator.hasNext():
        pair = iterator.next()
        by_name[str(pair._1()).lower()] = str(pair._2())
    return by_name


__all__ = ["check_replays", "check_upstream", "client_options", "fingerprints"]
