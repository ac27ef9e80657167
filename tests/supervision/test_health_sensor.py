"""The health sensor tick by tick, with fake drivers: what it does, what it reports, and when it gives up."""

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakestate.assets.names import checkpoint_key
from lakestate.operate.health_sensor import StreamFailedError, build_health_sensor
from lakestate.policies import ExponentialDelay, FixedDelay, NoRestart, RestartPolicy
from lakestate.resources import JobControlResource
from lakestate.supervision import Condition, StartRequest, replace_driver, replacing, wanted_of, wanted_stopped
from state_engine.storage.job_lock import CONTROL_FOLDER

SOON = timedelta(milliseconds=10)


class Sensor:
    """Runs ticks as the daemon does, which writes the events and keeps the cursor."""

    def __init__(self, root: str, policy: RestartPolicy | None) -> None:
        self.instance = dg.DagsterInstance.ephemeral()
        self.control = JobControlResource(root=root)
        self._sensor = build_health_sensor("flights", policy=policy)
        self._cursor: str | None = None

    def tick(self) -> str:
        """Runs a tick; returns its message."""
        context = dg.build_sensor_context(self.instance, cursor=self._cursor, resources={"job_control": self.control})
        result = self._sensor(context)
        if isinstance(result, dg.SkipReason):
            return str(result.skip_message)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        self._cursor = result.cursor or self._cursor
        return str(
            result.skip_reason.skip_message if isinstance(result.skip_reason, dg.SkipReason) else result.skip_reason
        )

    def told(self) -> list[dict[str, object]]:
        """Returns the metadata of all observations, oldest first."""
        records = self.instance.fetch_observations(checkpoint_key("flights"), limit=100, ascending=True).records
        return [{k: v.value for k, v in one.asset_observation.metadata.items()} for one in records]


@pytest.fixture
def sensor_of(drivers):
    made = []

    def make(policy: RestartPolicy | None) -> Sensor:
        made.append(Sensor(drivers.root, policy))
        return made[-1]

    yield make
    for one in made:
        one.instance.dispose()


def test_a_stream_that_was_never_started_is_left_alone(drivers, sensor_of) -> None:
    sensor = sensor_of(FixedDelay())
    assert "it was not started here" in sensor.tick()
    assert sensor.told() == []
    assert not Path(drivers.root).exists()


def test_a_stream_that_runs_or_starts_is_left_alone(drivers, sensor_of) -> None:
    sensor = sensor_of(FixedDelay())
    pid = drivers.start("slow")
    assert f"is starting as process {pid}" in sensor.tick()
    drivers.kill()
    pid = drivers.start("run")
    drivers.until(Condition.RUNNING)
    assert f"runs as process {pid}: no epoch yet, RUNNING" in sensor.tick()
    assert sensor.told() == []


def test_a_driver_that_was_killed_is_started_again_and_that_is_reported(drivers, sensor_of, patiently) -> None:
    sensor = sensor_of(FixedDelay(delay=SOON))
    first = drivers.start()
    drivers.until(Condition.RUNNING)
    drivers.kill()
    said = patiently(lambda: text if "Restarted" in (text := sensor.tick()) else None)
    second = drivers.until(Condition.RUNNING).pid
    assert second != first
    assert said.startswith(f"Restarted flights as process {second}, restart 1.")
    [told] = sensor.told()
    assert told == {
        "health": "restarted",
        "cause": "Its process ended without a final event, as if it was killed.",
        "restarts": 1,
        "pid": second,
        "reason": "",
    }
    assert f"runs as process {second}" in sensor.tick()


def test_without_a_strategy_a_failure_is_reported_once_and_nothing_is_changed(drivers, sensor_of) -> None:
    sensor = sensor_of(None)
    drivers.start("die")
    drivers.until(Condition.FAILED)
    before = wanted_of(drivers.root, "flights")
    assert "flights has failed, and no restart strategy is set" in sensor.tick()
    assert "flights has failed, and no restart strategy is set" in sensor.tick()
    [told] = sensor.told()
    assert (told["health"], told["restarts"], told["reason"]) == ("failed", 0, "No restart strategy is set.")
    assert wanted_of(drivers.root, "flights") == before
    drivers.start("die")
    drivers.until(Condition.FAILED)
    sensor.tick()
    assert len(sensor.told()) == 2, "another start that failed is reported, too"


def test_a_restart_waits_for_its_time(drivers, sensor_of) -> None:
    sensor = sensor_of(ExponentialDelay(initial_backoff=timedelta(hours=1), max_backoff=timedelta(hours=2)))
    drivers.start("die")
    drivers.until(Condition.FAILED)
    first, second = sensor.tick(), sensor.tick()
    assert first.startswith("flights is restarted in 3")
    assert abs(int(first.split()[4]) - int(second.split()[4])) <= 10, "the delay does not change"
    assert len(wanted_of(drivers.root, "flights").attempts) == 1


def test_when_the_attempts_are_used_up_it_says_why_once_and_stops(drivers, sensor_of, patiently) -> None:
    sensor = sensor_of(FixedDelay(attempts=2, delay=SOON))
    drivers.start("fail")
    cause = "UserFunctionError: It raised. What to do: Correct it."

    def failure() -> str | None:
        try:
            sensor.tick()
        except StreamFailedError as error:
            return str(error)
        return None

    said = patiently(failure)
    assert said.startswith(
        f"flights has failed and is not restarted: 3 failures; fixed-delay allows 2 restarts. {cause}"
    )
    assert [(one["health"], one["restarts"], one["cause"]) for one in sensor.told()] == [
        ("restarted", 1, cause), ("restarted", 2, cause), ("failed", 2, cause),
    ]  # fmt: skip
    for _ in range(2):
        assert sensor.tick().startswith("flights has failed and is not restarted: 3 failures;")
    assert len(sensor.told()) == 3
    assert len(wanted_of(drivers.root, "flights").attempts) == 3
    drivers.start("run")
    drivers.until(Condition.RUNNING)
    assert "runs as process" in sensor.tick()


def test_a_tick_that_dies_after_a_failure_counts_it_once(drivers, sensor_of, monkeypatch) -> None:
    sensor = sensor_of(FixedDelay(attempts=1, delay=timedelta(0)))
    drivers.start("die")
    drivers.until(Condition.FAILED)
    restart = sensor.control.restart

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(JobControlResource, "restart", dies)
    with pytest.raises(KeyboardInterrupt):
        sensor.tick()
    monkeypatch.setattr(JobControlResource, "restart", lambda _, job, seen: restart(job, seen))
    assert "restart 1." in sensor.tick()


def test_a_driver_that_hangs_is_reported_once_and_left_alone(drivers, sensor_of, patiently) -> None:
    sensor = sensor_of(FixedDelay(hangs_after=SOON))
    pid = drivers.start("mute")
    patiently(lambda: drivers.look().url)
    drivers.until(Condition.HANGS, hangs_after=SOON)
    assert sensor.tick().startswith(f"flights hangs: Process {pid} has neither answered nor sealed an epoch")
    assert sensor.tick().startswith("flights hangs")
    assert [one["health"] for one in sensor.told()] == ["hangs"]
    assert drivers.look().pid == pid


def test_a_driver_that_hangs_is_replaced_if_the_policy_says_so(drivers, sensor_of, patiently) -> None:
    sensor = sensor_of(FixedDelay(hangs_after=SOON, replace_hanging=True, delay=timedelta(0)))
    first = drivers.start("mute")
    patiently(lambda: drivers.look().url)
    drivers.until(Condition.HANGS, hangs_after=SOON)
    sensor.tick()
    seen = drivers.look()
    assert seen.pid not in (None, first)
    [told] = sensor.told()
    assert told["health"] == "restarted"
    assert told["cause"].startswith(f"It hung and was ended. Process {first} has neither answered")


@pytest.mark.parametrize("plan", ["finish", "run"])
def test_a_stream_that_has_ended_or_was_stopped_is_not_started_again(drivers, sensor_of, plan: str) -> None:
    sensor = sensor_of(FixedDelay(delay=timedelta(0)))
    drivers.start(plan)
    if plan == "finish":
        drivers.until(Condition.ENDED)
        assert "has ended as requested" in sensor.tick()
    else:
        drivers.until(Condition.RUNNING)
        with wanted_stopped(drivers.root, "flights"):
            drivers.kill()
        assert "was stopped by request, and stays stopped" in sensor.tick()
    assert sensor.told() == []


def test_none_gives_up_at_the_first_failure(drivers, sensor_of) -> None:
    sensor = sensor_of(NoRestart())
    drivers.start("die")
    drivers.until(Condition.FAILED)
    with pytest.raises(StreamFailedError, match="The restart strategy is none"):
        sensor.tick()
    assert [one["health"] for one in sensor.told()] == ["failed"]


def test_a_root_without_a_place_for_control_files_is_said_to_have_none(monkeypatch) -> None:
    monkeypatch.delenv(CONTROL_FOLDER, raising=False)
    sensor = Sensor("s3://bucket/state", FixedDelay())
    assert sensor.tick().startswith("Not supervised: Job 'flights' keeps its state in an object store")
    sensor.instance.dispose()


def test_a_driver_is_replaced_although_the_requester_died_after_its_end(drivers, sensor_of, monkeypatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    drivers.start("run")
    pid = drivers.until(Condition.RUNNING).pid
    request = StartRequest(options={"plan": "run"}, restore="sp-1")
    with monkeypatch.context() as patch:
        patch.setattr(replacing, "restart_driver", die)
        with pytest.raises(KeyboardInterrupt):
            replace_driver(drivers.root, drivers.job, request)
    assert drivers.look().condition is Condition.FAILED
    sensor = sensor_of(FixedDelay(attempts=2, delay=SOON))
    while drivers.look().condition is Condition.FAILED:
        sensor.tick()
    assert drivers.until(Condition.RUNNING).pid != pid
    assert "--restore sp-1" in drivers.log()
