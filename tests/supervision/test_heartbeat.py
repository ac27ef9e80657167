"""What a look finds; a living driver is not taken for a dead one, nor a dead one for a living one."""

import os
from datetime import timedelta

import pytest

from lakestate.control import Endpoint, publish_endpoint
from lakestate.supervision import Condition
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

NEVER, AT_ONCE = timedelta(days=1), timedelta(milliseconds=1)


def test_a_job_that_was_never_started_here(drivers) -> None:
    seen = drivers.look()
    assert (seen.condition, seen.wanted, seen.pid, seen.epoch) == (Condition.UNKNOWN, None, None, 0)
    assert not os.path.exists(drivers.root), "a look creates nothing"


def test_a_driver_that_is_being_started_hangs_when_that_takes_too_long(drivers) -> None:
    pid = drivers.start("slow")
    seen = drivers.look(hangs_after=NEVER)
    assert (seen.condition, seen.pid, seen.url) == (Condition.STARTING, pid, None)
    drivers.until(Condition.HANGS, hangs_after=AT_ONCE)


def test_a_driver_that_answers_runs_however_long_it_has_sealed_nothing(drivers) -> None:
    drivers.start("run")
    drivers.until(Condition.RUNNING)
    assert drivers.look(hangs_after=AT_ONCE).condition is Condition.RUNNING


def test_a_driver_that_does_not_answer_hangs_unless_it_gets_on(drivers, patiently) -> None:
    drivers.start("mute")
    patiently(lambda: drivers.look().url)
    assert drivers.look(hangs_after=NEVER).condition is Condition.RUNNING
    assert drivers.look(hangs_after=AT_ONCE).condition is Condition.HANGS
    log = JobBuilder(drivers.root, drivers.job, [state("aircraft", "legs", "tailnum string", "bigint")])
    log.now_ms = drivers.look().wanted.attempts[-1].started_at + 30_000
    sealed = log.epoch({("aircraft", "legs"): [put("N1", 1)]}).manifest.processing_time
    later = ManualClock(sealed + 60_000)
    seen = drivers.look(hangs_after=timedelta(seconds=61), clock=later)
    assert (seen.condition, seen.generation, seen.epoch, seen.silent_ms) == (Condition.RUNNING, 1, 1, 60_000)
    assert drivers.look(hangs_after=timedelta(seconds=59), clock=later).condition is Condition.HANGS


@pytest.mark.parametrize(
    ("plan", "condition", "cause"),
    [
        ("finish", Condition.ENDED, None),
        ("fail", Condition.FAILED, "UserFunctionError: It raised. What to do: Correct it."),
        ("die", Condition.FAILED, "Its process ended without a final event, as if it was killed."),
        ("broken", Condition.FAILED, "Its process ended before the job ran: ImportError: no such module"),
    ],
)
def test_how_a_driver_has_ended(drivers, plan: str, condition: Condition, cause: str | None) -> None:
    drivers.start(plan)
    seen = drivers.until(condition)
    assert seen.pid is None
    assert cause is None or seen.last_words.cause == cause


def test_a_process_that_was_not_started_here_is_seen_and_not_taken_for_a_failure(drivers) -> None:
    drivers.start("die")
    drivers.until(Condition.FAILED)
    endpoint = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc")
    with publish_endpoint(drivers.root, drivers.job, endpoint):
        seen = drivers.look()
        assert (seen.condition, seen.pid, seen.state) == (Condition.RUNNING, os.getpid(), None)
    assert drivers.look().condition is Condition.FAILED
