"""A clock is set to another time while a driver runs, between two drivers, or before a restore."""

import logging
from collections.abc import Iterator

import pytest
from dying import dying_at

from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.held_clock import STEP_MS, HeldClock
from state_engine.log.records import Manifest
from state_engine.spark.driver.clock_notices import log_difference, log_step
from state_engine.testing.manual import ManualClock
from state_engine.testing.simulated_cluster import Cluster, ClusterDriver

DAY_MS = 24 * 3_600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def started(cluster: Cluster, restore: str | None = None, *, reset_processing_time: bool = False) -> ClusterDriver:
    driver = ClusterDriver(cluster, 0, 1)
    driver.start(restore, reset_processing_time=reset_processing_time)
    return driver


def head_of(cluster: Cluster) -> Manifest:
    newest = look.newest(cluster.open_log())
    assert newest is not None
    return newest.manifest


@pytest.mark.parametrize("step", [DAY_MS, -DAY_MS])
def test_a_step_is_compared_with_the_time_that_passed(step: int) -> None:
    clock, steps = ManualClock(1_000_000), list[int]()
    held = HeldClock(clock, steps.append)
    clock.advance(5_000)
    assert held.now_ms() == 1_005_000
    clock.set_to(1_005_000 + step)
    clock.advance(60_000)
    assert held.now_ms() == 1_065_000
    assert held.now_ms() == 1_065_000
    clock.set_to(1_065_000)
    assert held.now_ms() == 1_065_000
    assert steps == [step, 0], "each is reported once"


def test_small_corrections_are_followed_however_many_there_are() -> None:
    clock, steps = ManualClock(1_000_000), list[int]()
    held = HeldClock(clock, steps.append)
    for number in range(1, 21):
        clock.set_to(1_000_000 + number * (STEP_MS - 1))
        assert held.now_ms() == clock.now_ms()
    assert steps == []


def test_one_glitch_of_a_day_does_not_stop_processing_time(cluster: Cluster) -> None:
    driver = started(cluster)
    driver.step()
    before = head_of(cluster).processing_time
    cluster.skews[0] = DAY_MS
    driver.step()
    cluster.skews[0] = 0
    cluster.now_ms += 60_000
    driver.step()
    assert 60_000 <= head_of(cluster).processing_time - before < 120_000


def ahead(cluster: Cluster) -> int:
    """Runs a driver for some epochs with a clock that is a day ahead; then the clock is right again."""
    cluster.skews[0] = DAY_MS
    driver = started(cluster)
    driver.step()
    driver.step()
    cluster.skews[0] = 0
    return head_of(cluster).processing_time


def test_a_generation_never_goes_back_in_time(cluster: Cluster) -> None:
    then = ahead(cluster)
    driver = started(cluster)
    driver.step()
    assert head_of(cluster).processing_time == then
    driver = started(cluster, "latest")
    driver.step()
    assert (head_of(cluster).generation, head_of(cluster).processing_time) == (2, then)


def test_a_restore_of_the_newest_epoch_takes_the_time_of_the_clock(cluster: Cluster) -> None:
    ahead(cluster)
    driver = started(cluster, "latest", reset_processing_time=True)
    first = cluster.open_log().read(2, head_of(cluster).epoch).manifest
    assert abs(first.processing_time - cluster.now_ms) < 10_000
    driver.step()
    started(cluster).step()
    assert abs(head_of(cluster).processing_time - cluster.now_ms) < 10_000
    assert {row[0] for row in cluster.table.live} == set(range(12)), "no record is lost or read twice"


@pytest.mark.parametrize("point", [CrashPoint.S2_CLOSED, CrashPoint.S2_BEFORE_CLAIM], ids=str)
def test_another_start_finishes_such_a_restore_as_it_was_asked_for(cluster: Cluster, point: CrashPoint) -> None:
    ahead(cluster)
    with dying_at(cluster, point):
        started(cluster, "latest", reset_processing_time=True)
    started(cluster)
    assert abs(head_of(cluster).processing_time - cluster.now_ms) < 10_000


def test_a_start_names_a_clock_that_is_far_from_the_newest_epoch(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for difference in (0, 3_000_000, -3_000_000):
        log_difference("flights", DAY_MS, DAY_MS + difference)
    assert caplog.messages == []
    log_difference("flights", DAY_MS, DAY_MS + 7_200_000)
    log_difference("flights", DAY_MS, 0)
    assert "2.0 hours ahead of the newest epoch of job 'flights'" in caplog.messages[0]
    assert "24.0 hours behind" in caplog.messages[1]
    assert "--reset-processing-time" in caplog.messages[1]


def test_a_driver_names_a_step_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    log_step("flights", DAY_MS)
    log_step("flights", 0)
    assert "jumped by 86400 seconds" in caplog.messages[0]
    assert "is back" in caplog.messages[1]
