"""A restart repeats the same start unless the wanted state has changed; a finished restore is not repeated."""

import pytest

from lakestate.supervision import Condition, give_up, note_failure, restart_driver, wanted_of, wanted_stopped
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder


def failed(drivers, **request):
    """Starts a driver that dies, and returns what is wanted after its failure."""
    drivers.start("die", **request)
    seen = drivers.until(Condition.FAILED)
    return note_failure(drivers.root, drivers.job, seen.wanted, seen.last_words.cause)


def arguments(drivers) -> str:
    return drivers.log().splitlines()[0].removeprefix("arguments: ")


def test_a_restart_starts_the_same_and_is_counted(drivers) -> None:
    wanted = failed(drivers, options={"a": "b"}, parallelism=3, cores="1")
    before = arguments(drivers)
    started = restart_driver(drivers.root, drivers.job, wanted)
    assert started.restarts == 1
    seen = drivers.until(Condition.FAILED)
    assert arguments(drivers) == before
    first, second = seen.wanted.attempts
    assert first.cause == "Its process ended without a final event, as if it was killed."
    assert first.started_at <= first.ended_at <= second.started_at
    assert second.ended_at is None


def test_a_failure_is_noted_once(drivers) -> None:
    wanted = failed(drivers)
    again = note_failure(drivers.root, drivers.job, wanted, "something else")
    assert again == wanted == wanted_of(drivers.root, drivers.job)


def test_nothing_is_started_that_was_stopped_or_started_meanwhile(drivers) -> None:
    wanted = failed(drivers)
    with wanted_stopped(drivers.root, drivers.job) as was_wanted:
        assert was_wanted
    assert restart_driver(drivers.root, drivers.job, wanted) is None
    assert give_up(drivers.root, drivers.job, wanted, "too often") is None
    assert drivers.look().condition is Condition.STOPPED
    drivers.start()
    drivers.until(Condition.RUNNING)
    assert restart_driver(drivers.root, drivers.job, wanted) is None
    assert note_failure(drivers.root, drivers.job, wanted, "late") is None


def test_a_restart_beside_a_living_driver_is_none(drivers) -> None:
    drivers.start()
    seen = drivers.until(Condition.RUNNING)
    assert restart_driver(drivers.root, drivers.job, seen.wanted) is None
    assert drivers.look().pid == seen.pid


def test_giving_up_is_kept_until_the_next_start(drivers) -> None:
    wanted = failed(drivers)
    assert give_up(drivers.root, drivers.job, wanted, "too often").gave_up == "too often"
    assert drivers.look().wanted.gave_up == "too often"
    drivers.start("finish")
    assert not drivers.until(Condition.ENDED).wanted.gave_up


def test_what_was_allowed_once_is_not_allowed_to_a_restart(drivers) -> None:
    wanted = failed(drivers, allow_changed_sources=(0, 1), adopt_sinks=True)
    assert "--adopt-sinks --allow-changed-sources 0 --allow-changed-sources 1" in arguments(drivers)
    restart_driver(drivers.root, drivers.job, wanted)
    drivers.until(Condition.FAILED)
    assert "--allow-changed-sources" not in arguments(drivers)
    assert "--adopt-sinks" not in arguments(drivers)


@pytest.mark.parametrize("done", [False, True])
def test_a_restore_is_repeated_until_it_is_done(drivers, done: bool) -> None:
    log = JobBuilder(drivers.root, drivers.job, [state("aircraft", "legs", "tailnum string", "bigint")])
    log.epoch({("aircraft", "legs"): [put("N1", 1)]})
    restored = {"restore": "sp-1", "uid_mapping": {"planes": "aircraft"}, "max_parallelism": 32}
    wanted = failed(drivers, **restored, allow_non_restored_state=True, keep_output=True)
    assert wanted.generation == 1
    told = "--restore sp-1 --uid-mapping planes=aircraft --max-parallelism 32"
    assert told in arguments(drivers)
    if done:
        log.restore(log.head)
    restart_driver(drivers.root, drivers.job, wanted)
    drivers.until(Condition.FAILED)
    assert (told in arguments(drivers)) == (not done)
    assert any(name in arguments(drivers) for name in told.split() if name.startswith("--")) == (not done)
    assert ("--keep-output" in arguments(drivers)) == (not done)
    assert "--allow-non-restored-state" in arguments(drivers), "each start needs it, as long as the log has the state"


def test_output_is_kept_until_an_epoch_is_sealed(drivers) -> None:
    """What was left out is owed by the log until then, and each start leaves it out anew; but no later debt."""
    log = JobBuilder(drivers.root, drivers.job, [state("aircraft", "legs", "tailnum string", "bigint")])
    log.epoch({("aircraft", "legs"): [put("N1", 1)]})
    wanted = failed(drivers, keep_output=True)
    for sealed in (False, True):
        if sealed:
            log.epoch({("aircraft", "legs"): [put("N1", 2)]})
        restart_driver(drivers.root, drivers.job, wanted)
        wanted = drivers.until(Condition.FAILED).wanted
        wanted = note_failure(drivers.root, drivers.job, wanted, "it failed")
        assert ("--keep-output" in arguments(drivers)) == (not sealed)
        assert wanted.request.keep_output == (not sealed)
