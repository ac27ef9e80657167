"""The checks of a checkpoint: written by the sensor when their results are new, and executed from their page."""

from datetime import timedelta

import dagster as dg
import pytest

from lakestate.assets import build_checkpoint_checks, checkpoint_key
from lakestate.assets.checkpoint_checks import AGE, CHECKS, GROWTH, SKEW
from lakestate.operate import checkpoint_sensor
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.policies import CheckLimits
from lakestate.stream_definitions import build_stream_definitions
from state_engine.key_groups import key_group_of
from state_engine.testing.changes import put
from state_engine.testing.manual import ManualClock

KEY = checkpoint_key("flights")
STRICT = CheckLimits(state_growth=1.5, growth_over=2, growth_above_rows=10, key_group_skew=3.0, skew_above_rows=10)


def tick(stream, instance, limits=STRICT):
    context = dg.build_sensor_context(instance, resources=stream.sensor_resources)
    result = build_checkpoint_sensor("flights", limits=limits)(context)
    events = [] if isinstance(result, dg.SkipReason) else result.asset_events
    for event in events:
        instance.report_runless_asset_event(event)
    return {event.check_name: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}


def put_keys(stream, keys, checkpoint_id):
    sealed = stream.log.epoch({("aircraft", "legs"): [put(key, 1) for key in keys]}, checkpoint_id=checkpoint_id)
    stream.publisher.begin(sealed)
    stream.log.adopt(stream.publisher.completed())


def latest(instance):
    keys = [dg.AssetCheckKey(KEY, name) for name in CHECKS]
    evaluations = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: record.event.asset_check_evaluation.passed for key, record in evaluations.items()}


def test_a_new_stream_passes_all(stream, instance):
    stream.checkpoints(1, 1)
    evaluations = tick(stream, instance, CheckLimits())
    assert {name: event.passed for name, event in evaluations.items()} == dict.fromkeys(CHECKS, True)
    assert latest(instance) == dict.fromkeys(CHECKS, True)
    assert evaluations[AGE].metadata["checkpoint_id"].value == 1


def test_a_state_that_grew_is_named(stream, instance):
    for checkpoint_id, count in ((1, 20), (2, 20), (3, 31), (4, 31)):  # rows are those of the epoch before
        put_keys(stream, [f"N{number}" for number in range(count)], checkpoint_id)
    event = tick(stream, instance)[GROWTH]
    assert not event.passed
    assert event.severity == dg.AssetCheckSeverity.WARN
    assert event.metadata["state"].value == "aircraft/legs"
    assert event.metadata["measured"].value == pytest.approx(31 / 20)
    assert "20 → 31" in event.description


def test_a_hot_key_group_is_named(stream, instance):
    keys = (f"N{number}" for number in range(10_000))
    hot = [key for key in keys if key_group_of((key,), ["string"], 13) == 7][:40]
    put_keys(stream, [*hot, "N1"], 1)
    event = tick(stream, instance)[SKEW]
    assert not event.passed
    assert event.severity == dg.AssetCheckSeverity.WARN
    assert "Key group 7 of aircraft/legs" in event.description


def test_a_verdict_is_written_when_it_changes_or_is_old(stream, instance):
    stream.checkpoints(1, 1)
    assert tick(stream, instance).keys() == CHECKS.keys()
    stream.checkpoints(2, 2)
    assert tick(stream, instance) == {}
    stream.checkpoints(3, 3)
    again = CheckLimits(state_growth=1.5, growth_over=2, growth_above_rows=10, repeat_after=timedelta(0))
    assert tick(stream, instance, again).keys() == CHECKS.keys()
    for checkpoint_id in (4, 5):
        put_keys(stream, [f"N{number}" for number in range(100)], checkpoint_id)
    assert {name: event.passed for name, event in tick(stream, instance).items()} == {GROWTH: False}


def test_a_stream_that_died_fails_its_age_once(stream, instance, monkeypatch):
    limits = CheckLimits(checkpoint_age=timedelta(minutes=5))
    stream.checkpoints(1, 1)
    assert tick(stream, instance, limits)[AGE].passed
    newest = stream.state_store.open_job("flights").checkpoints()[-1].completed_at

    def later(minutes):
        clock = ManualClock(newest + minutes * 60_000)
        monkeypatch.setattr(checkpoint_sensor, "SystemClock", lambda: clock)

    later(4)
    assert tick(stream, instance, limits) == {}
    later(6)
    event = tick(stream, instance, limits)[AGE]
    assert not event.passed
    assert event.severity == dg.AssetCheckSeverity.ERROR
    assert "0:06:00 old; at most 0:05:00 is allowed" in event.description
    later(7)
    assert tick(stream, instance, limits) == {}
    assert latest(instance)[AGE] is False


def test_a_person_executes_the_checks(stream, instance):
    stream.checkpoints(1, 1)
    checks = build_checkpoint_checks("flights", CheckLimits())
    defs = dg.Definitions(asset_checks=[checks], resources=stream.sensor_resources)
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance)
    evaluations = result.get_asset_check_evaluations()
    assert {one.check_name: one.passed for one in evaluations} == dict.fromkeys(CHECKS, True)


def test_a_job_that_never_ran_passes_what_a_person_executes(stream, instance):
    defs = build_stream_definitions("flights", stream.state_store)
    job = defs.resolve_job_def("__ASSET_JOB")
    keys = [dg.AssetCheckKey(KEY, name) for name in CHECKS]
    subset = job.get_subset(asset_check_selection=set(keys), asset_selection=set())
    executed = subset.execute_in_process(instance=instance, resources=stream.sensor_resources)
    assert {one.check_name: one.passed for one in executed.get_asset_check_evaluations()} == dict.fromkeys(CHECKS, True)
    said = [one.description for one in executed.get_asset_check_evaluations() if one.check_name == AGE]
    assert said == ["No checkpoint has completed yet."]


def test_the_checks_belong_to_the_checkpoint(stream):
    graph = build_stream_definitions("flights", stream.state_store).resolve_asset_graph()
    assert {key.name for key in graph.asset_check_keys if key.asset_key == KEY} == CHECKS.keys()
