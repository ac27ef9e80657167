"""Savepoints that were taken elsewhere become partitions: once, under a key that means nothing else."""

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakestate.assets import build_savepoint_asset, savepoint_key
from lakestate.operate.engine_savepoints import AT_ONCE, build_engine_savepoint_sensor
from lakestate.policies import SavepointPolicy
from state_engine.savepoint import dispose_savepoint, list_savepoints, trigger_savepoint

KEY = savepoint_key("flights")


class Sensor:
    """The sensor and the runs that it requests; like the daemon it launches a run key once."""

    def __init__(self, stream, instance):
        self.stream, self.instance = stream, instance
        self.cursor, self.launched = None, set()

    def tick(self, **fields):
        """Evaluates a tick, executes the requested runs, and returns the partitions, or why it requests none."""
        policy = SavepointPolicy(**fields)
        context = dg.build_sensor_context(
            self.instance, cursor=self.cursor, resources={"state_store": self.stream.state_store}
        )
        result = build_engine_savepoint_sensor("flights", policy)(context)
        if isinstance(result, dg.SkipReason):
            return result.skip_message
        self.cursor = result.cursor or self.cursor
        for request in result.run_requests:
            assert request.run_key not in self.launched
            self.launched.add(request.run_key)
            self.materialize(request.partition_key, request.tags)
        return [one.partition_key for one in result.run_requests] or result.skip_reason.skip_message

    def materialize(self, partition, tags=None):
        return dg.materialize(
            [build_savepoint_asset("flights")],
            instance=self.instance,
            partition_key=partition,
            tags=dict(tags or {}),
            resources=self.stream.resources,
            raise_on_error=False,
        )

    @property
    def partitions(self):
        return set(self.instance.get_dynamic_partitions("flights_savepoints"))

    @property
    def recorded(self):
        records = self.instance.fetch_materializations(KEY, limit=100).records
        return [(one.partition_key, one.asset_materialization.metadata["savepoint_id"].value) for one in records]


@pytest.fixture
def sensor(stream, instance):
    stream.checkpoints(1, 1)
    return Sensor(stream, instance)


@pytest.fixture
def root(stream):
    return stream.state_store.root


def test_without_savepoints_there_is_nothing_to_do(sensor):
    assert sensor.tick() == "Each savepoint is a partition, or a run for it was requested."
    assert "there are 0" in sensor.tick()


def test_a_savepoint_of_the_engine_becomes_a_partition(sensor, root):
    savepoint = trigger_savepoint(root, "flights", label="by hand", note="why")
    assert sensor.tick() == [savepoint.savepoint_id]
    assert sensor.partitions == {savepoint.savepoint_id}
    assert sensor.recorded == [(savepoint.savepoint_id, savepoint.savepoint_id)]
    sensor.tick()
    assert "there are 1" in sensor.tick()
    assert len(list_savepoints(root, "flights")) == 1


def test_a_label_that_is_there_twice_is_two_partitions(sensor, root):
    savepoint = {trigger_savepoint(root, "flights", label="same").savepoint_id for _ in range(2)}
    sensor.tick()
    assert sensor.partitions == savepoint


def test_what_a_run_recorded_is_left_alone(sensor):
    sensor.instance.add_dynamic_partitions("flights_savepoints", ["a"])
    assert sensor.materialize("a").success
    assert sensor.tick() == "Each savepoint is a partition, or a run for it was requested."
    assert len(sensor.recorded) == 1


def test_what_a_run_is_about_to_record_is_left_to_it(sensor, stream, instance, root):
    instance.add_dynamic_partitions("flights_savepoints", ["a"])
    savepoint = trigger_savepoint(root, "flights", label="a", trigger="dagster")
    run = create_run_for_test(
        instance, tags={"dagster/partition": "a"}, status=dg.DagsterRunStatus.STARTED, asset_selection={KEY}
    )
    assert isinstance(sensor.tick(), str)
    assert sensor.recorded == []
    instance.report_run_failed(run)
    assert sensor.tick() == ["a"], "that run died"
    assert sensor.recorded == [("a", savepoint.savepoint_id)]


def test_one_that_a_run_of_another_asset_took_keeps_its_label(sensor, root):
    savepoint = trigger_savepoint(root, "flights", label="before_rescale-1", trigger="policy:before_rescale")
    assert sensor.tick() == ["before_rescale-1"]
    assert sensor.recorded == [("before_rescale-1", savepoint.savepoint_id)]


def test_a_damaged_one_is_requested_once_and_may_be_tried_again(sensor, root, stream):
    savepoint = trigger_savepoint(root, "flights")
    path = savepoint.handles[0][0]
    data = stream.log.storage.get(path)
    stream.log.storage.delete(path)
    assert sensor.tick() == [savepoint.savepoint_id]
    assert sensor.recorded == []
    assert isinstance(sensor.tick(), str)
    assert "there are 1" in sensor.tick()
    stream.log.storage.put_exclusive(path, data)
    assert sensor.materialize(savepoint.savepoint_id).success
    assert sensor.recorded == [(savepoint.savepoint_id, savepoint.savepoint_id)]


def test_many_are_recorded_bit_by_bit(sensor, root):
    savepoint = {trigger_savepoint(root, "flights").savepoint_id for _ in range(AT_ONCE + 2)}
    assert len(sensor.tick()) == AT_ONCE
    assert len(sensor.tick()) == 2
    assert sensor.partitions == savepoint


def test_more_than_the_limit_are_left_out_and_reported(sensor, root):
    for _ in range(3):
        trigger_savepoint(root, "flights")
    assert len(sensor.tick(max_partitions=2)) == 2
    assert "1 savepoints are not partitions" in sensor.tick(max_partitions=2)
    assert len(sensor.tick(max_partitions=3)) == 1


def test_a_lost_cursor_doubles_nothing(sensor, root):
    trigger_savepoint(root, "flights")
    sensor.tick()
    sensor.cursor = None
    assert isinstance(sensor.tick(), str)
    assert len(sensor.recorded) == 1


def test_a_deleted_key_comes_back_while_the_savepoint_exists(sensor, root):
    savepoint = trigger_savepoint(root, "flights")
    sensor.tick()
    sensor.tick()
    sensor.instance.delete_dynamic_partition("flights_savepoints", savepoint.savepoint_id)
    trigger_savepoint(root, "flights")
    sensor.tick()
    assert savepoint.savepoint_id in sensor.partitions
    assert len([one for one in sensor.recorded if one[0] == savepoint.savepoint_id]) == 1


def test_one_that_is_gone_again_is_no_partition(sensor, root):
    savepoint = trigger_savepoint(root, "flights")
    dispose_savepoint(root, "flights", savepoint.savepoint_id)
    assert isinstance(sensor.tick(), str)
    assert sensor.partitions == set()
