"""Random lives of random drivers, zombies among them; once the faults stop, G1, G2, G3 and G8 hold.

Two operators in a row, or two that feed a third, exchange barriers; the schedules differ in each run. Histories of a
job with one operator, with retention, savepoints and a sink's table, are in `test_histories.py`.
"""

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.rescale import RescaleRequest
from state_engine.errors import LakestateError
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulator import MAX_PARALLELISM, SimulatedDriver, Simulation, request

EPOCHS = st.integers(2, 14)
POINTS = st.tuples(st.sampled_from(CrashPoint), st.none() | EPOCHS)
PUTS = st.sampled_from(["ok", "ok", "lost_answer", "failed", "delayed", "delayed"])

FAULTS = st.builds(
    Faults,
    crashes=st.lists(POINTS, max_size=2),
    task_deaths=st.lists(POINTS, max_size=3),
    puts=st.lists(PUTS, max_size=12),
    failed_reads=st.integers(0, 2),
    mixed=st.sets(EPOCHS, max_size=2),
    missing=st.sets(EPOCHS, max_size=2),
    aborted=st.sets(EPOCHS, max_size=2),
    sink_errors=st.integers(0, 5),
)
# (what happens, which driver or epoch, its faults)
ACTIONS = st.tuples(
    st.sampled_from(["start", "step", "step", "step", "step", "idle", "zombie", "deliver", "restore", "rescale"]),
    st.integers(0, 99),
    FAULTS,
)


class Schedule:
    """Plays actions; an error or crash ends the driver that it happens to, never the schedule."""

    def __init__(self, seed: int) -> None:
        self.connected = bool(seed % 2)  # two operators in a row, or two that feed a third
        self.simulation = Simulation(seed, size=80, parallelism=self.parallelism(1))
        self.drivers: list[SimulatedDriver] = []

    def play(self, action: str, number: int, faults: Faults) -> None:
        with suppress(LakestateError, SimulatedCrash):
            getattr(self, action)(number, faults)

    def parallelism(self, number: int) -> tuple[int, ...]:
        odd = (1 + number % 2,) if self.connected else ()
        return (1 + number % 3, *odd, 1 + number % 4)

    def start(self, number: int, faults: Faults) -> None:
        self.drivers.append(self.simulation.start(request(parallelism=self.parallelism(number)), faults))

    def step(self, number: int, faults: Faults) -> None:
        if self.drivers and self.drivers[-1].offset < len(self.simulation.records):
            self.drivers[-1].step()

    def idle(self, number: int, faults: Faults) -> None:
        if self.drivers:
            self.drivers[-1].idle()

    def rescale(self, number: int, faults: Faults) -> None:
        if self.drivers:  # the newest, or one that was replaced long ago
            driver = self.drivers[-1 if number % 4 else number % len(self.drivers)]
            uids = [operator.uid for operator in driver.epochs.operators]
            some = {uid: 1 + (number + n) % 5 for n, uid in enumerate(uids) if (number >> n) % 2}
            driver.epochs.rescale(RescaleRequest(some if number % 3 else 1 + number % MAX_PARALLELISM))

    def zombie(self, number: int, faults: Faults) -> None:
        if self.drivers:
            self.drivers[number % len(self.drivers)].step()

    def deliver(self, number: int, faults: Faults) -> None:
        self.simulation.world.deliver()

    def restore(self, number: int, faults: Faults) -> None:
        log = self.simulation.world.log
        places = [(g, e) for g in log.generations() for e in log.epochs(g)]
        if places:
            target = log.read(*places[number % len(places)])
            self.drivers.append(self.simulation.start(self.simulation.restore(target), faults))


@settings(print_blob=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**16), actions=st.lists(ACTIONS, min_size=5, max_size=30))
def test_whatever_happens_the_results_are_those_of_an_undisturbed_run(seed: int, actions: list[Any]) -> None:
    schedule = Schedule(seed)
    schedule.play("start", 1, Faults())
    for action in actions:
        schedule.play(*action)
    simulation = schedule.simulation
    simulation.finish(Faults(), restarts=3)
    simulation.verify()
    simulation.world.deliver()
    for driver in schedule.drivers:
        schedule.play("zombie", schedule.drivers.index(driver), Faults())
    simulation.verify()
