"""The reporter: once, without doubles, without loss, and it says what it skipped."""

import dagster as dg
import pytest

from lakestate.assets import checkpoint_key
from lakestate.checkpoint_sensor import Mark, build_checkpoint_sensor, parse_cursor

KEY = checkpoint_key("flights")


def tick(stream, instance, cursor=None, *, dies_before_cursor=False):
    """Evaluates the sensor as the daemon does, which writes the events before the cursor; returns the cursor."""
    sensor = build_checkpoint_sensor("flights")
    context = dg.build_sensor_context(instance, cursor=cursor, resources={"state_store": stream.state_store})
    result = sensor(context)
    if isinstance(result, dg.SkipReason):
        return cursor
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    return cursor if dies_before_cursor else result.cursor


def reported(instance):
    """Returns (checkpoint id, skipped) of all events, oldest first."""
    records = instance.fetch_materializations(KEY, limit=100, ascending=True).records
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
    assert event.tags == {"dagster/data_version": "2"}


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
    cursor = tick(stream, instance, dies_before_cursor=True)
    assert cursor is None
    tick(stream, instance, cursor)
    assert reported(instance) == [(2, 1)]


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
