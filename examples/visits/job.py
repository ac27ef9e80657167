"""Visits of a site: a job that reads Kafka, and writes Kafka and Delta tables, each exactly once.

    topic clicks ── by user ──> visits (sessions) ─┬─ topic visits
                                                   ├─ table visits
                                                   └─ by entry ──> entries (an hour each) ── table entries

A visit is over when its user has not clicked for half an hour of event time. `entries` counts the visits that ended in
an hour, by the page with which they began. Clicks come out of order, and the partitions of the topic do not progress at
the same pace, so each has a watermark of its own.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from state_engine.api import Aggregate, Duration, Time, WatermarkStrategy
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from state_engine.spark import DeltaSink, KafkaSink, StreamJob, needs_connectors

LATEST = Duration.of_minutes(1)
"""How long after a later click of its partition a click may still come."""

PAUSE = Time.minutes(30)
HOUR = Time.hours(1)

VALUE = "number bigint, page string, at timestamp"


@needs_connectors("kafka")
def build(spark: SparkSession, root: str, options: Mapping[str, str]) -> StreamJob:
    """Returns the job.

    Args:
        spark: The session that runs it.
        root: Folder of the state, the manifests and the checkpoints.
        options: `servers`, the Kafka brokers; `clicks` and `visits`, the topics that are read and written (by default
            these names); `tables`, the folder of the output tables; `records_per_epoch` (100000);
            `checkpoint_interval_ms` (2000).
    """
    job = StreamJob(
        "visits",
        root=root,
        parallelism=2,
        max_parallelism=48,
        checkpoint_interval_ms=int(options.get("checkpoint_interval_ms", "2000")),
    )
    source = {
        "kafka.bootstrap.servers": options["servers"],
        "subscribe": options.get("clicks", "clicks"),
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": options.get("records_per_epoch", "100000"),
    }
    records = spark.readStream.format("kafka").options(**source).load()
    clicks = records.selectExpr(
        "cast(key AS string) AS user", f"from_json(cast(value AS string), '{VALUE}') AS click", "partition", "offset"
    ).selectExpr("user", "click.page", "click.at", "partition", "offset")
    by_partition = (
        WatermarkStrategy.for_bounded_out_of_orderness(LATEST)
        .with_timestamp_column("at")
        .with_partition_column("partition")
        .with_idleness(Duration.of_minutes(1))
    )
    stream = job.from_stream(clicks, name="clicks").assign_timestamps_and_watermarks(by_partition)
    tables = options["tables"]

    visits = (
        stream.key_by("user", order_by=["partition", "offset"])
        .window(EventTimeSessionWindows.with_gap(PAUSE))
        .aggregate(
            {"clicks": Aggregate.count(), "entry": Aggregate.first("page"), "exit": Aggregate.last("page")},
            uid="visits",
        )
    )
    visits.sink_to(KafkaSink(options["servers"], options.get("visits", "visits"), key="user"), uid="visits-topic")
    visits.sink_to(DeltaSink(f"{tables}/visits"), uid="visits-table")

    entries = (
        visits.key_by("entry")
        .window(TumblingEventTimeWindows.of(HOUR))
        .aggregate({"visits": Aggregate.count(), "clicks": Aggregate.sum("clicks")}, uid="entries")
    )
    entries.sink_to(DeltaSink(f"{tables}/entries"), uid="entries-table")
    return job


__all__ = ["HOUR", "LATEST", "PAUSE", "build"]
