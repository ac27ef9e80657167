"""The schedule of savepoints: one per time, named after it, and none too early or while another one is taken."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakestate.assets import build_savepoint_asset
from lakestate.operate.savepoint_schedule import build_savepoint_schedule
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Spacing
from state_engine.errors import JobDefinitionError
from state_engine.savepoint import list_savepoints, trigger_savepoint

NONE = Spacing(at_least=timedelta(0), per_gib=timedelta(0), busy_percent=100)
AT = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


@pytest.fixture
def instance(tmp_path):
    """An instance on disk: the context of a schedule takes none in memory."""
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        yield instance


def tick(stream, instance, at=AT, **fields):
    """Evaluates a tick: returns the run that it requests, or why it requests none."""
    policy = SavepointPolicy(**{"cron": "0 3 * * *", "spacing": NONE} | fields)
    with dg.build_schedule_context(
        instance=instance, scheduled_execution_time=at, resources={"state_store": stream.state_store}
    ) as context:
        tick_result = build_savepoint_schedule("flights", policy)(context)
    return tick_result.skip_message if isinstance(tick_result, dg.SkipReason) else tick_result


def launch(stream, instance, request):
    return dg.materialize(
        [build_savepoint_asset("flights")],
        instance=instance,
        partition_key=request.partition_key,
        run_config=request.run_config,
        tags=dict(request.tags),
        resources=stream.resources,
    )


def test_a_job_that_never_ran_is_left_alone(stream, instance):
    assert "no epoch yet" in tick(stream, instance)


def test_a_time_is_a_partition_and_a_savepoint(stream, instance):
    stream.checkpoints(1, 1)
    request = tick(stream, instance)
    assert request.partition_key == request.run_key == "cron-20261122T030000Z"
    assert instance.get_dynamic_partitions("flights_savepoints") == ["cron-20261122T030000Z"]
    assert launch(stream, instance, request).success
    (taken,) = list_savepoints(stream.state_store.root, "flights")
    assert (taken.label, taken.trigger) == ("cron-20261122T030000Z", "policy:cron")


def test_a_tick_that_is_evaluated_again_asks_for_the_same_savepoint(stream, instance):
    stream.checkpoints(1, 1)
    assert tick(stream, instance).run_key == tick(stream, instance).run_key
    assert len(instance.get_dynamic_partitions("flights_savepoints")) == 1


def test_of_times_that_were_missed_one_is_taken(stream, instance):
    stream.checkpoints(1, 1)
    first = tick(stream, instance)
    run = create_run_for_test(instance, tags=dict(first.tags), status=dg.DagsterRunStatus.STARTED)
    assert run.run_id in tick(stream, instance, AT + timedelta(days=1))
    assert len(instance.get_dynamic_partitions("flights_savepoints")) == 1


def test_inside_the_spacing_it_is_skipped_with_the_reason(stream, instance):
    stream.checkpoints(1, 1)
    launch(stream, instance, tick(stream, instance))
    told = tick(stream, instance, AT + timedelta(minutes=1), spacing=Spacing(at_least=timedelta(hours=1)))
    assert "A savepoint was due" in told
    assert "3,600 s between savepoints" in told


def test_a_savepoint_that_was_taken_elsewhere_counts_once_it_is_recorded(stream, instance):
    stream.checkpoints(1, 1)
    other = trigger_savepoint(stream.state_store.root, "flights").savepoint_id
    instance.add_dynamic_partitions("flights_savepoints", [other])
    dg.materialize(
        [build_savepoint_asset("flights")], instance=instance, partition_key=other, resources=stream.resources
    )
    assert "between savepoints" in tick(stream, instance, spacing=Spacing(at_least=timedelta(hours=1)))


@pytest.mark.parametrize(("cron", "timezone"), [("every day", "UTC"), ("0 3 * * *", "Europe/Nowhere"), ("", "UTC")])
def test_times_that_are_none_are_refused_by_name(cron, timezone):
    with pytest.raises(JobDefinitionError, match="flights") as refused:
        build_savepoint_schedule("flights", SavepointPolicy(cron=cron, timezone=timezone))
    assert "crontab" in refused.value.action


def test_it_is_on_by_itself():
    schedule = build_savepoint_schedule("flights", SavepointPolicy(cron="*/5 * * * *", timezone="Europe/Berlin"))
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert schedule.name == "flights_savepoints"
    assert schedule.execution_timezone == "Europe/Berlin"
