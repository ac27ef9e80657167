"""A driver ends and another one replaces it, whichever process dies in between."""

import pytest

from lakestate.supervision import Condition, DriverNotEndedError, StartRequest, replace_driver, replacing
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder


@pytest.fixture
def running(drivers):
    """A job of one epoch with a running driver; the value is its process id."""
    log = JobBuilder(drivers.root, drivers.job, [state("aircraft", "legs", "tailnum string", "bigint")])
    log.epoch({("aircraft", "legs"): [put("N1", 1)]})
    pid = drivers.start("run", parallelism=2)
    drivers.until(Condition.RUNNING)
    return pid


def anew(plan="run", **request):
    return StartRequest(options={"plan": plan}, restore="sp-1", **request)


def test_another_driver_runs_with_the_other_request(drivers, running) -> None:
    replace_driver(drivers.root, drivers.job, anew(parallelism=3))
    seen = drivers.until(Condition.RUNNING)
    assert seen.pid != running
    assert (seen.wanted.generation, seen.wanted.request.restore) == (1, "sp-1")
    assert "--restore sp-1 --parallelism 3" in drivers.log()


def test_one_that_is_gone_already_is_no_hindrance(drivers, running) -> None:
    drivers.kill()
    replace_driver(drivers.root, drivers.job, anew())
    assert drivers.until(Condition.RUNNING).pid != running


def test_one_that_does_not_end_keeps_its_request(drivers) -> None:
    drivers.start("mute")
    drivers.until(Condition.RUNNING)
    before = drivers.look().wanted
    with pytest.raises(DriverNotEndedError):
        replace_driver(drivers.root, drivers.job, anew(), patience_s=1.0)
    assert drivers.look().wanted == before


def test_the_health_sensor_may_be_faster(drivers, running, monkeypatch) -> None:
    restart = replacing.restart_driver

    def second(*arguments, **named):
        assert restart(*arguments, **named) is not None
        return restart(*arguments, **named)

    monkeypatch.setattr(replacing, "restart_driver", second)
    replace_driver(drivers.root, drivers.job, anew())
    assert drivers.until(Condition.RUNNING).wanted.restarts == 1
