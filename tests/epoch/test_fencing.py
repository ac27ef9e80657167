"""Two drivers, delayed puts, lost answers: the result is one line of epochs, or a named error."""

import pytest

from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import FencedError, StorageError
from state_engine.testing.simulated import Faults
from state_engine.testing.simulator import SimulatedDriver, Simulation

BEFORE_THE_PUT = [
    CrashPoint.E1_PLANNED,
    CrashPoint.E2_ROUTED,
    CrashPoint.E5_CHANGE_FILE_WRITTEN,
    CrashPoint.E6_ACKS_HELD,
    CrashPoint.E6_BEFORE_PUT,
]
AFTER_THE_PUT = [CrashPoint.E6_SEALED, CrashPoint.E7_SINK_COMMITTED, CrashPoint.E7_COMMITTED]


def steps(driver: SimulatedDriver, number: int) -> SimulatedDriver:
    for _ in range(number):
        driver.step()
    return driver


def test_a_second_driver_takes_over_and_the_first_is_fenced() -> None:
    simulation = Simulation()
    old = steps(simulation.start(), 3)
    new = steps(simulation.start(), 1)
    for _ in range(2):
        with pytest.raises(FencedError, match="incarnation 2"):
            old.step()
    with pytest.raises(FencedError):
        old.idle()
    steps(new, 2)
    simulation.verify()


@pytest.mark.parametrize("point", BEFORE_THE_PUT, ids=str)
def test_a_driver_that_loses_its_job_within_an_epoch_seals_nothing(point: CrashPoint) -> None:
    simulation = Simulation()
    old = steps(simulation.start(), 2)
    old.crash.faults.hooks[point, 4] = lambda: steps(simulation.start(), 2)
    with pytest.raises(FencedError):
        old.step()
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("point", AFTER_THE_PUT, ids=str)
def test_a_zombie_may_finish_the_sink_commit_of_its_sealed_epoch(point: CrashPoint) -> None:
    simulation = Simulation()
    old = steps(simulation.start(), 2)
    old.crash.faults.hooks[point, 4] = lambda: steps(simulation.start(), 2)
    old.step()
    with pytest.raises(FencedError):
        old.step()
    simulation.finish(Faults())
    simulation.verify()


def test_a_start_that_loses_to_a_running_driver_tries_again() -> None:
    simulation = Simulation()
    old = steps(simulation.start(), 1)
    hooks = {(CrashPoint.S2_BEFORE_CLAIM, epoch): old.step for epoch in (3, 4, 5)}
    steps(simulation.start(faults=Faults(hooks=hooks)), 1)
    with pytest.raises(FencedError):
        old.step()
    assert simulation.head.manifest.epoch == 7
    simulation.verify()


def test_of_two_starts_at_the_same_time_one_goes() -> None:
    simulation = Simulation()
    steps(simulation.start(), 1)
    others: list[SimulatedDriver] = []
    hooks = {(CrashPoint.S2_BEFORE_CLAIM, 3): lambda: others.append(simulation.start())}
    with pytest.raises(FencedError, match="while this one, 2"):
        simulation.start(faults=Faults(hooks=hooks))
    steps(others[0], 2)
    simulation.verify()


def test_the_very_first_start_may_have_a_rival() -> None:
    simulation = Simulation()
    hooks = {(CrashPoint.S2_BEFORE_CLAIM, 1): lambda: steps(simulation.start(), 1)}
    with pytest.raises(FencedError):
        simulation.start(faults=Faults(hooks=hooks))
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("arrives", ["before the claim", "between look and claim", "after the claim"])
def test_a_put_in_flight_when_the_next_driver_claims(arrives: str) -> None:
    simulation = Simulation()
    old = steps(simulation.start(), 2)
    old.crash.faults.puts = ["delayed"] * 5
    with pytest.raises(StorageError, match="It is unknown whether epoch 4"):
        old.step()
    with pytest.raises(StorageError, match="It is unknown"):
        old.step()  # it must not go on: what it has put may still appear
    faults = Faults()
    if arrives == "before the claim":
        simulation.world.deliver()
    elif arrives == "between look and claim":
        faults.hooks[CrashPoint.S2_BEFORE_CLAIM, 4] = simulation.world.deliver
    new = simulation.start(faults=faults)
    simulation.world.deliver()
    landed = simulation.world.log.read(1, 4).manifest
    assert landed.kind == ("claim" if arrives == "after the claim" else "epoch")
    assert new.offset == (14 if arrives == "after the claim" else 21)
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("answers", [["lost_answer"], ["failed"], ["delayed"], ["failed", "delayed", "lost_answer"]])
def test_the_driver_finds_out_what_became_of_its_put(answers: list[str]) -> None:
    simulation = Simulation()
    driver = steps(simulation.start(), 1)
    driver.crash.faults.puts = list(answers)  # type: ignore[arg-type]
    steps(driver, 2)
    simulation.world.deliver()
    steps(driver, 1)
    assert simulation.finish(Faults()) == 1
    simulation.verify()


@pytest.mark.parametrize("answers", [["lost_answer"], ["failed"], ["delayed", "lost_answer"]])
def test_a_start_finds_out_what_became_of_its_claim(answers: list[str]) -> None:
    simulation = Simulation()
    steps(simulation.start(), 1)
    steps(simulation.start(faults=Faults(puts=list(answers), failed_reads=1)), 1)  # type: ignore[arg-type]
    simulation.world.deliver()
    simulation.finish(Faults())
    simulation.verify()


def test_a_storage_that_never_answers_ends_the_start() -> None:
    simulation = Simulation()
    with pytest.raises(StorageError, match="It is unknown"):
        simulation.start(faults=Faults(puts=["failed"] * 5))
    assert not simulation.world.storage.objects


def test_a_claim_still_in_flight_may_win_after_its_driver_died() -> None:
    simulation = Simulation()
    steps(simulation.start(), 2)
    with pytest.raises(StorageError):
        simulation.start(faults=Faults(puts=["delayed"] * 5))
    hooks = {(CrashPoint.S2_BEFORE_CLAIM, 4): simulation.world.deliver}
    with pytest.raises(FencedError):  # the dead one counts as having started at the same time
        simulation.start(faults=Faults(hooks=hooks))
    simulation.finish(Faults())
    simulation.verify()
