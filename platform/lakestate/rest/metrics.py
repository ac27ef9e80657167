"""Metrics of the jobs for Prometheus, computed anew at each scrape."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from lakestate.rest.calls import Call, Text
from lakestate.rest.job_port import JobControl, JobView
from state_engine.checkpoint.statistics import CheckpointStatistics

_OF_OPERATOR = ("job", "operator")


class JobCollector(Collector):
    """Collects the metrics of some jobs.

    Args:
        jobs: The jobs to read at each scrape.
    """

    def __init__(self, jobs: Iterable[JobControl]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        jobs = [(job.view(), job.checkpoints()) for job in self._jobs]
        views = [view for view, _ in jobs]
        yield from _of_jobs(views)
        yield from _of_operators(views)
        yield from _of_sources(views)
        yield from _of_checkpoints([(view.name, statistics) for view, statistics in jobs])


def _of_jobs(views: list[JobView]) -> Iterator[Metric]:
    running = GaugeMetricFamily(
        "lakestate_job_running", "1 while the job runs, 0 after its end.", labels=("job", "state")
    )
    generation = GaugeMetricFamily(
        "lakestate_generation", "Generation of the job: the line of epochs that it is on.", labels=("job",)
    )
    epoch = GaugeMetricFamily("lakestate_epoch", "Number of the newest sealed epoch.", labels=("job",))
    epochs = CounterMetricFamily("lakestate_epochs", "Epochs that this process has sealed.", labels=("job",))
    seconds = CounterMetricFamily(
        "lakestate_epoch_seconds", "Time that the epochs of this process took.", labels=("job",)
    )
    records = CounterMetricFamily(
        "lakestate_records", "Records that the epochs of this process read from sources.", labels=("job",)
    )
    retries = CounterMetricFamily(
        "lakestate_epoch_retries",
        "Repeated runs of epochs that were sealed, for example after a worker died.",
        labels=("job",),
    )
    for view in views:
        running.add_metric((view.name, view.state), float(view.end_ms < 0))
        generation.add_metric((view.name,), view.generation)
        epoch.add_metric((view.name,), view.epoch)
        epochs.add_metric((view.name,), view.epochs)
        seconds.add_metric((view.name,), view.epoch_seconds)
        records.add_metric((view.name,), view.records)
        retries.add_metric((view.name,), view.retries)
    yield from (running, generation, epoch, epochs, seconds, records, retries)


def _of_operators(views: list[JobView]) -> Iterator[Metric]:
    subtasks = GaugeMetricFamily("lakestate_operator_parallelism", "Subtasks of the operator.", labels=_OF_OPERATOR)
    rows = GaugeMetricFamily(
        "lakestate_state_rows", "Entries of the operator's states, as of the epoch before.", labels=_OF_OPERATOR
    )
    keys = GaugeMetricFamily(
        "lakestate_state_keys", "Keys of the operator that have state, as of the epoch before.", labels=_OF_OPERATOR
    )
    lag = GaugeMetricFamily(
        "lakestate_watermark_lag_seconds", "Time between the operator's watermark and now.", labels=_OF_OPERATOR
    )
    for view in views:
        for operator in view.operators:
            labels = (view.name, operator.uid)
            subtasks.add_metric(labels, operator.parallelism)
            rows.add_metric(labels, operator.state_rows)
            keys.add_metric(labels, operator.keys)
            if operator.watermark_ms is not None:
                lag.add_metric(labels, (view.now_ms - operator.watermark_ms) / 1000)
    yield from (subtasks, rows, keys, lag)


def _of_sources(views: list[JobView]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "lakestate_source_lag_records",
        "Records that the source had beyond the job's position when the last batch was planned.",
        labels=("job", "source"),
    )
    seconds = GaugeMetricFamily(
        "lakestate_source_lag_seconds",
        "How long before that moment the process first saw a record that was still not read.",
        labels=("job", "source"),
    )
    for view in views:
        for source in view.sources:
            if source.lag_records is not None:
                lag.add_metric((view.name, source.name), source.lag_records)
            if source.lag_seconds is not None:
                seconds.add_metric((view.name, source.name), source.lag_seconds)
    yield from (lag, seconds)


def _of_checkpoints(jobs: list[tuple[str, CheckpointStatistics]]) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "lakestate_checkpoints", "Checkpoints that have ended since the job's first start.", labels=("job", "status")
    )
    under_way = GaugeMetricFamily(
        "lakestate_checkpoints_in_progress", "Checkpoints that are under way.", labels=("job",)
    )
    newest = GaugeMetricFamily("lakestate_checkpoint_id", "Id of the newest completed checkpoint.", labels=("job",))
    duration = GaugeMetricFamily(
        "lakestate_checkpoint_duration_seconds", "Time that the newest completed checkpoint took.", labels=("job",)
    )
    at = GaugeMetricFamily(
        "lakestate_checkpoint_timestamp_seconds", "When the newest completed checkpoint was completed.", labels=("job",)
    )
    written = GaugeMetricFamily(
        "lakestate_checkpoint_bytes", "Bytes that the newest completed checkpoint wrote.", labels=("job",)
    )
    state = GaugeMetricFamily(
        "lakestate_state_bytes", "Bytes of the whole state at the newest completed checkpoint.", labels=("job",)
    )
    for name, statistics in jobs:
        ended.add_metric((name, "completed"), statistics.counts.completed)
        ended.add_metric((name, "failed"), statistics.counts.failed)
        under_way.add_metric((name,), statistics.counts.in_progress)
        row = statistics.latest.completed
        if row is not None:
            newest.add_metric((name,), row.checkpoint_id or 0)
            duration.add_metric((name,), row.duration_ms / 1000)
            at.add_metric((name,), row.completed_at / 1000)
            written.add_metric((name,), row.bytes)
            state.add_metric((name,), row.state_bytes)
    yield from (ended, under_way, newest, duration, at, written, state)


def metrics(call: Call) -> Text:
    """Returns the metrics of all jobs in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(call.cluster.jobs.values()))
    return Text(generate_latest(registry), CONTENT_TYPE_LATEST)


__all__ = ["JobCollector", "metrics"]
