"""Reports completed checkpoints of a stream to Dagster's event log.

At most one event per asset and tick, for the newest checkpoint; its metadata count those since the last reported one.
An event cannot be removed and costs kilobytes for ever. So a stream that completes a checkpoint every second is
reported only as often as the sensor ticks.

The events of a tick are written one by one, and the tick may die after any of them. So each asset has a high-water mark
of its own in the event log, and the cursor is used only where the event log has no mark.
"""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from lakestate.assets.names import dagster_name
from lakestate.assets.translation import StreamKeys
from lakestate.operate.checkpoint_report import CheckpointReport
from lakestate.operate.marks import mark_of, parse_cursor
from lakestate.policies import CheckLimits
from lakestate.resources import RestClientResource, StateStoreResource
from lakestate.rest.job_bodies import SourceLag
from state_engine.clock import SystemClock
from state_engine.errors import LakestateError
from state_engine.inspect import JobView
from state_engine.text import UNDECODABLE


def build_checkpoint_sensor(
    job: str,
    *,
    every: timedelta = timedelta(seconds=30),
    limits: CheckLimits | None = None,
    sample_rows: int = 5,
    keys: StreamKeys | None = None,
) -> dg.SensorDefinition:
    """Returns the sensor that reports `<job>/checkpoint`, its states and its checks, at most once in `every`.

    Args:
        job: Name of the job.
        every: Time between two looks.
        limits: When a check fails.
        sample_rows: How many rows of each state an event shows; 0 for state that must not be copied into Dagster.
        keys: Asset keys of the stream, if they are translated.
    """
    allowed, keyed = limits or CheckLimits(), keys or StreamKeys(job)
    views: dict[str, JobView] = {}

    @dg.sensor(
        name=f"{dagster_name(job)}_checkpoints",
        minimum_interval_seconds=max(1, round(every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Reports the newest completed checkpoint of the stream `{job}`, its states and its checks, every "
            f"{every.total_seconds():g} s. Stopped, it changes nothing for the stream: once started again it reports "
            "the newest checkpoint. It never launches runs."
        ),
    )
    def report_checkpoint(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource, rest_client: RestClientResource
    ) -> dg.SensorResult | dg.SkipReason:
        if state_store.root not in views:
            views[state_store.root] = state_store.open_job(job)  # it caches small files that it has read
        view, uri = views[state_store.root], state_store.uri(job)
        completed = view.completed_checkpoints()
        newest = completed.newest()
        if newest is None:
            return dg.SkipReason(f"No completed checkpoint of {job} in {uri} yet.")
        cursor, now_ms = parse_cursor(context.cursor), SystemClock().now_ms()
        report = CheckpointReport(
            context,
            view,
            completed,
            newest,
            cursor=cursor,
            uri=uri,
            now_ms=now_ms,
            keys=keyed,
            sources=lambda: _sources(rest_client, job),
        )
        events = list(report.events(allowed, sample_rows))
        message = f"Checkpoint {newest.checkpoint_id} is the newest, and it is reported."
        if report.is_new:
            message = f"Reported checkpoint {newest.checkpoint_id}; {report.skipped} before it have no event."
        if not events:
            return dg.SkipReason(message)
        return dg.SensorResult(asset_events=events, cursor=mark_of(newest).to_cursor(), skip_reason=message)

    return report_checkpoint


def _sources(rest_client: RestClientResource, job: str) -> Sequence[SourceLag]:
    """Returns how far a job is behind its sources; nothing if no process tells it, which is no failure of a report."""
    try:
        return rest_client.sources(job)
    except (LakestateError, *UNDECODABLE):
        return ()


__all__ = ["build_checkpoint_sensor"]
