"""The sensor that requests savepoints when a policy wants one: which run it requests, how often, and why not."""

from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakestate.assets import build_savepoint_asset
from lakestate.assets.names import run_tags
from lakestate.operate import savepoint_triggers
from lakestate.operate.savepoint_requests import Attempts, attempts_of
from lakestate.operate.savepoint_triggers import build_savepoint_trigger_sensor
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Spacing
from state_engine.savepoint import list_savepoints
from state_engine.testing.manual import ManualClock

NONE = Spacing(at_least=timedelta(0), per_gib=timedelta(0), busy_percent=100)


class Sensor:
    """The sensor and the runs that it requests, evaluated as the daemon does, at a time that the test chooses."""

    def __init__(self, stream, instance, monkeypatch, policy):
        self.stream, self.instance, self.policy = stream, instance, policy
        self.cursor = None
        self.clock = ManualClock(1_900_000_000_000)
        monkeypatch.setattr(savepoint_triggers, "SystemClock", lambda: self.clock)
        self.sensor = build_savepoint_trigger_sensor("flights", policy)

    def tick(self, at_ms=None):
        """Returns the run that a tick requests, a second later than the last one, or why it requests none."""
        self.clock.advance(1_000 if at_ms is None else at_ms - self.clock.now_ms())
        context = dg.build_sensor_context(
            self.instance, cursor=self.cursor, resources={"state_store": self.stream.state_store}
        )
        result = self.sensor(context)
        if isinstance(result, dg.SkipReason):
            return result.skip_message
        self.cursor = result.cursor or self.cursor
        return result.run_requests[0] if result.run_requests else result.skip_reason.skip_message

    def launch(self, request):
        """Executes a run that was requested."""
        return dg.materialize(
            [build_savepoint_asset("flights", self.policy)],
            instance=self.instance,
            partition_key=request.partition_key,
            run_config=request.run_config,
            tags=dict(request.tags),
            resources=self.stream.resources,
            raise_on_error=False,
        )

    @property
    def partitions(self):
        return self.instance.get_dynamic_partitions("flights_savepoints")


@pytest.fixture
def new_sensor(stream, instance, monkeypatch):
    def make(**fields):
        return Sensor(stream, instance, monkeypatch, SavepointPolicy(**{"spacing": NONE} | fields))

    return make


def test_a_job_that_never_ran_is_left_alone(new_sensor):
    sensor = new_sensor(every_n_checkpoints=1)
    assert "no epoch yet" in sensor.tick()
    assert sensor.partitions == []


def test_the_partition_exists_before_the_run_is_requested(new_sensor, stream):
    sensor = new_sensor(every_n_checkpoints=2)
    stream.checkpoints(1, 1)
    assert sensor.tick() == "No trigger asks for a savepoint."
    stream.checkpoints(2, 2)
    request = sensor.tick()
    assert sensor.partitions == [request.partition_key]
    assert request.partition_key.startswith("every_n_checkpoints-2030")
    assert request.tags.items() >= run_tags("flights").items()
    assert request.tags["dagster/max_runtime"] == "3600"
    assert sensor.launch(request).success
    (taken,) = list_savepoints(stream.state_store.root, "flights")
    assert (taken.label, taken.trigger) == (request.partition_key, "policy:every_n_checkpoints")
    assert "2 checkpoints" in taken.note
    assert sensor.tick() == "No trigger asks for a savepoint."
    stream.checkpoints(3, 4)
    assert sensor.launch(sensor.tick()).success
    assert len(sensor.partitions) == 2


def test_kind_and_directory_are_the_policys(new_sensor, stream, tmp_path):
    sensor = new_sensor(every_n_checkpoints=1, kind="canonical", directory=str(tmp_path / "backups"))
    stream.checkpoints(1, 1)
    assert sensor.launch(sensor.tick()).success
    (taken,) = list_savepoints(stream.state_store.root, "flights")
    assert taken.kind == "canonical"
    assert taken.directory.startswith(str(tmp_path / "backups"))


def test_a_state_that_has_grown(new_sensor, stream):
    sensor = new_sensor(growth_percent=900)
    stream.checkpoints(1, 1)
    assert sensor.launch(sensor.tick()).success, "the first one is what the state is compared with"
    stream.checkpoints(2, 2)
    assert sensor.tick() == "No trigger asks for a savepoint."
    stream.grow(20_000, checkpoint_id=3)
    request = sensor.tick()
    assert request.partition_key.startswith("growth_percent-")
    assert sensor.launch(request).success
    assert sensor.tick() == "No trigger asks for a savepoint."


def test_a_new_code_version(new_sensor, stream, monkeypatch):
    version = "a"
    monkeypatch.setattr(savepoint_triggers, "code_version_of", lambda job: version)
    sensor = new_sensor(on_new_code_version=True)
    stream.checkpoints(1, 1)
    assert sensor.tick() == "No trigger asks for a savepoint."
    version = "b"
    request = sensor.tick()
    assert sensor.launch(request).success
    assert sensor.tick() == "No trigger asks for a savepoint."
    sensor.cursor = None
    assert sensor.tick() == "No trigger asks for a savepoint.", "the savepoint records its code version"
    version = None
    assert sensor.tick() == "No trigger asks for a savepoint.", "the version is unknown"
    version = "a"
    assert sensor.tick().partition_key.startswith("on_new_code_version-")


def test_checkpoints_that_fail_in_a_row(new_sensor, stream):
    sensor = new_sensor(failures_in_a_row=2)
    stream.checkpoints(1, 1)
    stream.fail_checkpoints(2, 2)
    assert sensor.tick() == "No trigger asks for a savepoint."
    stream.fail_checkpoints(3, 3)
    request = sensor.tick()
    assert request.partition_key.startswith("failures_in_a_row-")
    assert sensor.launch(request).success
    assert sensor.tick() == "No trigger asks for a savepoint."
    stream.fail_checkpoints(4, 5)
    assert sensor.tick() == "No trigger asks for a savepoint.", "once per row of failures"


def test_inside_the_spacing_nothing_is_requested_and_the_tick_says_so(new_sensor, stream):
    sensor = new_sensor(every_n_checkpoints=1, spacing=Spacing(at_least=timedelta(hours=24), at_most=timedelta(days=9)))
    stream.checkpoints(1, 1)
    assert sensor.launch(sensor.tick()).success
    stream.checkpoints(2, 2)
    (taken,) = list_savepoints(stream.state_store.root, "flights")
    told = sensor.tick(taken.created_at + 86_399_000)
    assert "1 checkpoints" in told
    assert "86,400 s between savepoints" in told
    assert len(sensor.partitions) == 1
    assert sensor.launch(sensor.tick(taken.created_at + 86_400_000)).success


def test_while_a_run_is_under_way_no_other_is_requested(new_sensor, stream, instance):
    sensor = new_sensor(every_n_checkpoints=1)
    stream.checkpoints(1, 1)
    request = sensor.tick()
    run = create_run_for_test(instance, tags=dict(request.tags), status=dg.DagsterRunStatus.STARTED)
    assert run.run_id in sensor.tick()
    instance.report_run_canceled(run)
    assert isinstance(sensor.tick(), dg.RunRequest)


def test_a_run_that_failed_is_requested_again_later_for_the_same_partition(new_sensor, stream, instance, tmp_path):
    (tmp_path / "file").touch()
    sensor = new_sensor(every_n_checkpoints=1, directory=str(tmp_path / "file" / "folder"))
    stream.checkpoints(1, 1)
    first = sensor.tick()
    assert not sensor.launch(first).success
    failed = attempts_of(instance, "flights")
    assert (failed.failed, failed.partition) == (1, first.partition_key)
    assert "failed; the next one is in 1 s" in sensor.tick(failed.ended_at_ms + 59_000)
    assert sensor.tick(failed.ended_at_ms + 60_000).partition_key == first.partition_key
    assert sensor.partitions == [first.partition_key]


@pytest.mark.parametrize(("failed", "wait_s"), [(1, 60), (2, 120), (5, 960), (8, 3_600)])
def test_attempts_come_less_and_less_often(failed, wait_s):
    attempts = Attempts(failed=failed, ended_at_ms=1_000_000)
    assert attempts.objection(1_000_000 + wait_s * 1_000 - 1)
    assert attempts.objection(1_000_000 + wait_s * 1_000) is None
