"""The Dagster jobs that start and stop a stream, with fake drivers."""

import dagster as dg
import pytest

from lakestate.operate.stream_jobs import build_stream_jobs
from lakestate.resources import JobControlResource
from lakestate.supervision import Condition
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder


@pytest.fixture
def execute(drivers):
    """Executes one of the jobs with a config; returns the metadata of its output."""
    jobs = {job.name: job for job in build_stream_jobs(drivers.job)}

    def run(verb, **config):
        with dg.DagsterInstance.ephemeral() as instance:
            result = jobs[f"flights_{verb}"].execute_in_process(
                run_config={"ops": {f"{verb}_flights": {"config": config}}},
                resources={"job_control": JobControlResource(root=drivers.root)},
                instance=instance,
                raise_on_error=False,
            )
            outputs = [one for one in result.all_events if one.event_type_value == "STEP_OUTPUT"]
            if result.success:
                return {name: value.value for name, value in outputs[0].step_output_data.metadata.items()}
            (failed,) = result.get_step_failure_events()
            return failed.step_failure_data.user_failure_data

    return run


def test_a_start_ends_when_the_driver_runs_and_a_stop_when_it_is_gone(drivers, execute) -> None:
    told = execute("start", options={"plan": "run"})
    seen = drivers.look()
    assert seen.condition is Condition.RUNNING
    assert (told["pid"], told["condition"], told["url"]) == (seen.pid, "running", seen.url)
    assert execute("stop", savepoint=False) == {"savepoint": "none", "drained": False}
    assert drivers.look().condition is Condition.STOPPED


def test_what_is_left_out_is_as_at_the_last_start_but_not_its_restore(drivers, execute) -> None:
    log = JobBuilder(drivers.root, drivers.job, [state("aircraft", "legs", "tailnum string", "bigint")])
    log.epoch({("aircraft", "legs"): [put("N1", 1)]})
    execute(
        "start",
        options={"plan": "finish", "a": "b"},
        restore="sp-1",
        max_parallelism=32,
        parallelism=3,
        allow_changed_sources=[1],
    )
    assert "--restore sp-1 --max-parallelism 32 --allow-changed-sources 1 --parallelism 3" in drivers.log()
    assert execute("start", cores="4")["condition"] == "ended"
    assert "--option plan=finish --option a=b --parallelism 3 --cores 4" in drivers.log()
    assert "restore" not in drivers.log()
    assert "--allow-changed-sources" not in drivers.log()


def test_a_stream_goes_to_a_cluster_and_back(drivers, execute) -> None:
    cluster = {"master": "spark://host:7077", "python": "/opt/python", "conf": {"spark.executor.memory": "4g"}}
    execute("start", options={"plan": "finish"}, cores="4")
    execute("start", **cluster)
    told = "--master spark://host:7077 --python /opt/python --conf spark.executor.memory=4g"
    assert told in drivers.log()
    assert "--cores" not in drivers.log()
    execute("start")
    assert told in drivers.log()
    execute("start", cores="2", conf={"spark.driver.memory": "3g"})
    assert "--cores 2 --conf spark.driver.memory=3g" in drivers.log()
    assert "--master" not in drivers.log()
    execute("start", conf={})
    assert "--conf" not in drivers.log()
    assert "SessionError" in execute("start", master="yarn", cores="2").description
    assert "SessionError" in execute("start", python="/opt/python").description
    assert "--conf" not in drivers.log(), "nothing was started"


def test_the_trigger_interval_is_the_launchpads_or_the_policys_or_that_of_the_last_start(drivers, execute) -> None:
    execute("start", options={"plan": "finish"}, trigger_interval_ms=0)
    assert "--trigger-interval-ms 0" in drivers.log()
    execute("start")
    assert "--trigger-interval-ms 0" in drivers.log()
    job = build_stream_jobs(drivers.job, 250)[0]
    for config, told in (({}, 250), ({"trigger_interval_ms": 40}, 40)):
        with dg.DagsterInstance.ephemeral() as instance:
            job.execute_in_process(
                run_config={"ops": {"start_flights": {"config": config}}},
                resources={"job_control": JobControlResource(root=drivers.root)},
                instance=instance,
            )
        assert f"--trigger-interval-ms {told}" in drivers.log()


def test_a_start_that_fails_is_reported_and_not_repeated(drivers, execute) -> None:
    failure = execute("start", options={"plan": "fail"})
    assert "flights has not started: " in failure.description
    assert "driver.log" in failure.metadata["action"].value
    assert drivers.look().wanted.gave_up


def test_a_second_start_and_a_stop_of_nothing_are_refused(drivers, execute) -> None:
    assert "JobNotRunningError" in execute("stop", savepoint=False).description
    drivers.start("run")
    drivers.until(Condition.RUNNING)
    assert "JobAlreadyRunningError" in execute("start").description
    assert drivers.look().condition is Condition.RUNNING
