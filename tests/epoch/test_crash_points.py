"""A crash at every crash point, then a restart: the results are those of a run without a crash."""

from pathlib import Path

import pytest

from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulator import SimulatedDriver, Simulation

TASK_POINTS = [point for point in CrashPoint if point.where == "task"]
START_POINTS = [point for point in CrashPoint if point.name.startswith("S")]
CLAIM_POINTS = [
    point
    for point in START_POINTS
    if point not in (CrashPoint.S2_BEFORE_CLOSING, CrashPoint.S2_CLOSED, CrashPoint.S3_REWOUND)
]


def names(point: CrashPoint) -> str:
    return point.name


def run(driver: SimulatedDriver) -> None:
    while True:
        driver.step()


def run_through_a_fork(simulation: Simulation, faults: Faults) -> None:
    """Runs the job to its end, restores epoch 5 with other parallelisms, and runs it to its end again."""
    simulation.finish(faults)
    simulation.verify()
    target = simulation.world.log.read(1, 5)
    simulation.finish(faults, simulation.restore(target, (3, 1)))
    simulation.verify()


@pytest.mark.parametrize("epoch", [2, 3, 6, 9])
@pytest.mark.parametrize("point", CrashPoint, ids=names)
def test_a_crash_at_every_point_changes_no_result(point: CrashPoint, epoch: int) -> None:
    simulation = Simulation(seed=epoch)
    run_through_a_fork(simulation, Faults(crashes=[(point, epoch)]))


@pytest.mark.parametrize("point", CrashPoint, ids=names)
def test_each_point_is_reached_and_crashes(point: CrashPoint) -> None:
    simulation, faults = Simulation(), Faults(crashes=[(point, None)])
    run_through_a_fork(simulation, faults)
    assert simulation.world.reached[point], f"{point} is in the enum, but nothing passes it"
    assert not faults.crashes


@pytest.mark.parametrize("again", CLAIM_POINTS, ids=names)
@pytest.mark.parametrize(
    "first", [CrashPoint.E6_SEALED, CrashPoint.E7_SINK_COMMITTED, CrashPoint.E9_BASE_WRITTEN], ids=names
)
def test_a_restart_may_die_as_well(first: CrashPoint, again: CrashPoint) -> None:
    simulation = Simulation()
    simulation.start(faults=Faults()).step()
    faults = Faults(crashes=[(first, 6)])
    with pytest.raises(SimulatedCrash):
        run(simulation.start(faults=faults))
    with pytest.raises(SimulatedCrash):
        simulation.start(faults=Faults(crashes=[(again, None)]))
    with pytest.raises(SimulatedCrash):
        simulation.start(faults=Faults(crashes=[(CrashPoint.S3_SINKS_COMMITTED, None)]))
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("point", TASK_POINTS, ids=names)
def test_the_death_of_an_attempt_is_repaired_within_the_epoch(point: CrashPoint) -> None:
    simulation = Simulation()
    drivers = simulation.finish(Faults(task_deaths=[(point, 2), (point, 3), (point, None)]))
    simulation.verify()
    assert drivers == 1


def test_points_are_in_the_order_of_the_protocol() -> None:
    epoch_points = [point for point in CrashPoint if point.name.startswith("E") and not point.name.startswith("E9")]
    assert [point.name[:2] for point in epoch_points] == sorted(point.name[:2] for point in epoch_points)
    assert all(point.meaning and point.where in ("driver", "task", "publisher") for point in CrashPoint)


def test_production_passes_every_point() -> None:
    for point in CrashPoint:
        NoCrash().at(point, 1)


def test_the_page_about_the_protocol_lists_every_point_in_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert listed == [point.name for point in CrashPoint]
