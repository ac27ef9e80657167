"""The sensor reports each checkpoint once, without doubles or loss, and reports what it skipped."""

import time

import dagster as dg
import pytest

from lakestate.assets import checkpoint_key, state_key
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.operate.marks import Mark, parse_cursor
from lakestate.resources import RestClientResource
from lakestate.rest.job_bodies import SourceLag

KEY = checkpoint_key("flights")
LEGS = state_key("flights", "aircraft/legs")


class Behind(RestClientResource):
    """A process that tells how far its job is behind."""

    def sources(self, job):
        return [
            SourceLag(name="clicks", lag_records=40, lag_seconds=61.5),
            SourceLag(name="views", lag_records=2, lag_seconds=0.0),
            SourceLag(name="files", lag_records=None, lag_seconds=None),
        ]


def tick(stream, instance, cursor=None, *, dies_after=None):
    """Evaluates the sensor as the daemon does, which writes the events before the cursor; returns the cursor.

    With `dies_after` only this number of events is written, and no cursor.
    """
    sensor = build_checkpoint_sensor("flights")
    context = dg.build_sensor_context(instance, cursor=cursor, resources=stream.sensor_resources)
    result = sensor(context)
    if isinstance(result, dg.SkipReason):
        return cursor
    for event in result.asset_events[:dies_after]:
        instance.report_runless_asset_event(event)
    return cursor if dies_after is not None else result.cursor


def reported(instance, key=KEY):
    """Returns (checkpoint id, skipped) of all events of an asset, oldest first."""
    records = instance.fetch_materializations(key, limit=100, ascending=True).records
    events = [record.asset_materialization.metadata for record in records]
    return [(event["checkpoint_id"].value, event["skipped_checkpoints"].value) for event in events]


def test_a_job_that_never_ran_has_nothing_to_report(stream, instance):
    assert tick(stream, instance) is None
    assert reported(instance) == []


def test_a_checkpoint_is_reported_once(stream, instance):
    stream.checkpoints(1, 1)
    cursor = tick(stream, instance)
    assert tick(stream, instance, cursor) == cursor
    assert reported(instance) == [(1, 0)]


def test_the_event_says_what_a_person_wants_to_know(stream, instance):
    stream.checkpoints(1, 2)
    tick(stream, instance)
    event = instance.get_latest_materialization_event(KEY).asset_materialization
    metadata = {name: entry.value for name, entry in event.metadata.items()}
    assert metadata["epoch"] == 4
    assert metadata["generation"] == 1
    assert metadata["keys"] == metadata["dagster/row_count"] == 20
    assert metadata["bytes"] > 0
    assert metadata["duration_s"] >= 0
    assert metadata["changed_rows"] == 40
    assert metadata["lag_s"] > 0
    assert metadata["completed_at"] == pytest.approx(time.time(), abs=600)
    assert event.tags == {"dagster/data_version": "2"}


def test_the_event_says_how_far_the_stream_is_behind_its_sources(stream, instance):
    stream.checkpoints(1, 1)
    cursor = tick(stream, instance)
    stopped = instance.get_latest_materialization_event(KEY).asset_materialization.metadata
    assert [stopped[name].value for name in ("source_lag_records", "source_lag_s", "source_lags")] == [None] * 3
    stream.checkpoints(2, 2)
    stream.sensor_resources["rest_client"] = Behind(root=stream.state_store.root)
    tick(stream, instance, cursor)
    running = instance.get_latest_materialization_event(KEY).asset_materialization.metadata
    assert (running["source_lag_records"].value, running["source_lag_s"].value) == (42, 61.5)
    assert [record.data for record in running["source_lags"].records] == [
        {"source": "clicks", "records": 40, "seconds": 61.5},
        {"source": "views", "records": 2, "seconds": 0.0},
    ]


def test_every_event_has_the_same_keys(stream, instance):
    for checkpoint_id in (1, 2):
        stream.checkpoints(checkpoint_id, checkpoint_id)
        tick(stream, instance)
    first, second = (
        record.asset_materialization.metadata for record in instance.fetch_materializations(KEY, limit=2).records
    )
    assert first.keys() == second.keys()


def test_after_an_outage_the_newest_is_reported_and_the_others_are_counted(stream, instance):
    stream.checkpoints(1, 1)
    cursor = tick(stream, instance)
    stream.checkpoints(2, 6)
    tick(stream, instance, cursor)
    assert reported(instance) == [(1, 0), (6, 4)]


def test_a_tick_that_dies_before_its_cursor_doubles_nothing(stream, instance):
    stream.checkpoints(1, 2)
    cursor = tick(stream, instance, dies_after=100)
    assert cursor is None
    tick(stream, instance, cursor)
    assert reported(instance) == reported(instance, LEGS) == [(2, 1)]


@pytest.mark.parametrize("dies_after", range(6))
@pytest.mark.parametrize("more", [0, 2])
def test_wherever_a_tick_dies_each_checkpoint_is_reported_to_each_asset_once(stream, instance, dies_after, more):
    stream.checkpoints(1, 1)
    cursor = tick(stream, instance)
    stream.checkpoints(2, 3)
    tick(stream, instance, cursor, dies_after=dies_after)
    stream.checkpoints(4, 3 + more)
    tick(stream, instance, cursor)
    tick(stream, instance, cursor)
    for key in (KEY, LEGS):
        events = reported(instance, key)
        ids = [checkpoint_id for checkpoint_id, _ in events]
        assert ids == sorted(set(ids))
        assert ids[0] == 1
        assert ids[-1] == 3 + more
        assert sum(skipped + 1 for _, skipped in events) == 3 + more, "those without an event are counted"


def test_the_checkpoint_is_reported_last(stream, instance):
    stream.checkpoints(1, 1)
    context = dg.build_sensor_context(instance, resources=stream.sensor_resources)
    events = build_checkpoint_sensor("flights")(context).asset_events
    assert [event.asset_key for event in events] == [LEGS, KEY, KEY, KEY, KEY]
    assert [type(event).__name__ for event in events][1:4] == ["AssetCheckEvaluation"] * 3


def test_a_lost_cursor_loses_nothing(stream, instance):
    stream.checkpoints(1, 1)
    tick(stream, instance)
    stream.checkpoints(2, 3)
    tick(stream, instance, None)
    assert reported(instance) == [(1, 0), (3, 1)]


def test_a_stale_cursor_loses_to_the_event_log(stream, instance):
    stream.checkpoints(1, 1)
    stale = tick(stream, instance)
    stream.checkpoints(2, 3)
    tick(stream, instance, stale)
    tick(stream, instance, stale)
    assert reported(instance) == [(1, 0), (3, 1)]


def test_without_events_the_cursor_counts(stream, instance):
    stream.checkpoints(1, 2)
    cursor = tick(stream, instance)
    instance.wipe_assets([KEY])
    tick(stream, instance, cursor)
    assert reported(instance) == []
    stream.checkpoints(3, 3)
    tick(stream, instance, cursor)
    assert reported(instance) == [(3, 0)]


def test_a_job_begun_anew_under_the_same_name_is_reported(stream, new_stream, tmp_path, instance):
    stream.checkpoints(1, 3)
    cursor = tick(stream, instance)
    other = new_stream(tmp_path / "other")
    other.epoch()  # so that checkpoint 1 has another manifest than that of the first job
    other.checkpoints(1, 1)
    tick(other, instance, cursor)
    assert reported(instance) == [(3, 2), (1, 0)]


@pytest.mark.parametrize("cursor", [None, "", "7", "seven abc", "7 "])
def test_a_cursor_of_something_else_is_no_mark(cursor):
    assert parse_cursor(cursor) is None


def test_a_mark_survives_the_cursor():
    mark = Mark(7, "abc")
    assert parse_cursor(mark.to_cursor()) == mark
