"""Runs that rescale a stopped job, what they refuse, and the sensor that requests them."""

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakestate.assets import build_rescaled_state_asset, rescaled_state_key
from lakestate.operate import rescale_sensor
from lakestate.operate.rescale_sensor import build_rescale_sensor, memory_of
from lakestate.policies import RescalePolicy, SavepointPolicy
from lakestate.resources import RestClientResource
from lakestate.rest.job_bodies import Incarnation
from state_engine.inspect import open_job
from state_engine.savepoint import list_savepoints

KEY = rescaled_state_key("flights")


def rescale(stream, instance, *, policy=None, **config):
    return dg.materialize(
        [build_rescaled_state_asset("flights", policy)],
        instance=instance,
        resources=stream.sensor_resources,
        run_config={"ops": {"flights__rescaled_state": {"config": config}}},
    )


def operators_of(stream):
    head = open_job(stream.state_store.root, "flights").newest()
    return {uid: one.parallelism for uid, one in head.manifest.operators.items()}


def test_a_stopped_job_has_another_parallelism_from_its_next_start_on(stream, instance):
    stream.checkpoints(1, 1)
    result = rescale(stream, instance, parallelism=5, reason="more cores")
    assert operators_of(stream) == {"aircraft": 5}
    (event,) = result.asset_materializations_for_node("flights__rescaled_state")
    metadata = {name: entry.value for name, entry in event.metadata.items()}
    assert (metadata["parallelism_before"], metadata["parallelism"]) == (2, 5)
    assert (metadata["reason"], metadata["job_was_running"], metadata["savepoint_id"]) == ("more cores", False, None)
    (row,) = metadata["operators"].records
    assert row.data == {"operator": "aircraft", "before": 2, "after": 5, "key groups": 13}


def test_a_job_that_may_run_elsewhere_is_not_taken_over(stream, instance, monkeypatch):
    stream.checkpoints(1, 1)
    monkeypatch.setattr("lakestate.takeover.endpoint_path", lambda *_: None)  # as for a root in a bucket
    with pytest.raises(dg.Failure, match="JobMayRunError") as failed:
        rescale(stream, instance, parallelism=5, savepoint_first=True)
    assert "stopped: true" in failed.value.metadata["action"].value
    assert operators_of(stream) == {"aircraft": 2}
    assert list_savepoints(stream.state_store.root, "flights") == []
    rescale(stream, instance, parallelism=5, stopped=True)
    assert operators_of(stream) == {"aircraft": 5}


@pytest.mark.parametrize(("policy", "config", "count"), [
    (SavepointPolicy(before_rescale=True), {}, 1),
    (SavepointPolicy(before_rescale=True), {"savepoint_first": False}, 0),
    (None, {}, 0),
    (None, {"savepoint_first": True}, 1),
])  # fmt: skip
def test_a_savepoint_before_it(stream, instance, policy, config, count):
    stream.checkpoints(1, 1)
    rescale(stream, instance, policy=policy, parallelism=3, **config)
    assert [one.trigger for one in list_savepoints(stream.state_store.root, "flights")] == (
        ["policy:before_rescale"] * count
    )


@pytest.mark.parametrize(("config", "match"), [
    ({}, "Neither `parallelism` nor `operators`"),
    ({"parallelism": 2, "operators": {"aircraft": 3}}, "Both `parallelism` and `operators`"),
    ({"operators": {"airplane": 3}}, "no operator 'airplane'"),
    ({"operators": {"aircraft": 3}}, "is stopped; single operators"),
    ({"parallelism": 14}, "14 is not a possible parallelism of operator 'aircraft': its state has 13 key groups"),
    ({"parallelism": 0}, "0 is not a possible parallelism"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_changes(stream, instance, config, match):
    stream.checkpoints(1, 1)
    before = open_job(stream.state_store.root, "flights").newest().hash
    with pytest.raises(dg.Failure, match=match) as failed:
        rescale(stream, instance, savepoint_first=True, **config)
    assert failed.value.metadata["action"].value
    assert open_job(stream.state_store.root, "flights").newest().hash == before
    assert list_savepoints(stream.state_store.root, "flights") == []


def test_a_job_that_never_ran_is_refused(stream, instance):
    with pytest.raises(dg.Failure, match="has no sealed epoch"):
        rescale(stream, instance, parallelism=2)


# The sensor -----------------------------------------------------------------------------------------------------------


class Running(RestClientResource):
    """A process that reports how long its epochs took."""

    seconds: float = 0.0
    incarnation_id: str = "a"

    def incarnation(self, job: str) -> Incarnation:
        return Incarnation(
            jid="", name=job, state="RUNNING", pid=1, incarnation=self.incarnation_id, generation=1, epoch=1, epochs=1,
            epoch_seconds=self.seconds, records=1,
        )  # fmt: skip


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def time(self):
        return self.now


@pytest.fixture
def ticks(stream, instance, monkeypatch):
    """Evaluates the sensor once per share of busy time, every 30 seconds."""
    clock = Clock()
    monkeypatch.setattr(rescale_sensor, "time", clock)
    seconds, cursor = [0.0], [None]

    def evaluate(policy, *busy, incarnation="a"):
        outcomes = []
        for share in busy:
            clock.now += 30
            seconds[0] += 30 * share
            client = Running(root=stream.state_store.root, seconds=seconds[0], incarnation_id=incarnation)
            context = dg.build_sensor_context(
                instance, cursor=cursor[0], resources={"state_store": stream.state_store, "rest_client": client}
            )
            result = build_rescale_sensor("flights", policy)(context)
            cursor[0] = result.cursor
            outcomes.append(result)
        return outcomes

    return evaluate


ACT = RescalePolicy(action="act", by_busy_alone=True, looks=3)


def test_a_stream_that_lags_is_rescaled_once(stream, ticks):
    stream.checkpoints(1, 1)
    results = ticks(ACT, *[1.0] * 6)
    requests = [request for result in results for request in result.run_requests or ()]
    (request,) = requests
    assert request.asset_selection == [KEY]
    config = request.run_config["ops"]["flights__rescaled_state"]["config"]
    assert config["parallelism"] == 4
    assert "busy for 100%" in config["reason"]
    assert [bool(result.run_requests) for result in results].index(True) == 3, "the first look has no share"
    assert "proposed before" in results[-1].skip_reason.skip_message


def test_a_proposal_is_an_observation_and_no_run(stream, ticks):
    stream.checkpoints(1, 1)
    results = ticks(RescalePolicy(action="propose", by_busy_alone=True), *[1.0] * 6)
    assert not any(result.run_requests for result in results)
    (event,) = [event for result in results for event in result.asset_events]
    assert event.asset_key == KEY
    assert event.metadata["proposed_parallelism"].value == 4


def test_another_process_or_parallelism_begins_anew(stream, ticks):
    stream.checkpoints(1, 1)
    assert not any(result.run_requests for result in ticks(ACT, 1.0, 1.0, 1.0))
    assert not any(result.run_requests for result in ticks(ACT, 1.0, 1.0, 1.0, incarnation="b"))
    stream.log.epoch(parallelism=3)
    (result,) = ticks(ACT, 1.0, incarnation="b")
    assert len(memory_of(result.cursor).samples) == 1


def test_after_a_rescale_it_cools_down(stream, instance, ticks):
    stream.checkpoints(1, 1)
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
    results = ticks(ACT, *[1.0] * 5)
    assert "cools down" in results[-1].skip_reason.skip_message


def test_while_a_run_rescales_it_no_other_one_is_requested(stream, instance, ticks):
    stream.checkpoints(1, 1)
    run = create_run_for_test(instance, asset_selection=frozenset([KEY]), status=dg.DagsterRunStatus.NOT_STARTED)
    results = ticks(ACT, *[1.0] * 5)
    assert not any(result.run_requests for result in results)
    assert f"Run {run.run_id} is rescaling it" in results[-1].skip_reason.skip_message
    instance.report_run_failed(run)
    (result,) = ticks(ACT, 1.0)
    assert len(result.run_requests) == 1


def test_a_job_that_does_not_run_is_left_alone(stream, instance):
    stream.checkpoints(1, 1)
    resources = stream.sensor_resources
    context = dg.build_sensor_context(instance, cursor="of something else", resources=resources)
    result = build_rescale_sensor("flights", ACT)(context)
    assert "JobNotRunningError" in result.skip_reason.skip_message
