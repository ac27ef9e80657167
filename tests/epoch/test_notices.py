"""Notices of checkpoints and of the end of input: sent with the next epoch, once, the same to all attempts."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import CheckpointEnd, EpochPlan, SourcePositions
from state_engine.errors import BroadcastDivergenceError, UserFunctionError
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulated_services import SimulatedPublisher
from state_engine.testing.simulated_tasks import SimulatedTasks
from state_engine.testing.simulator import SimulatedDriver, Simulation


class Tasks:
    """Simulated tasks that remember their plans."""

    def __init__(self, simulation: Simulation, driver: SimulatedDriver) -> None:
        self._tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:3])
        self.plans: list[EpochPlan] = []
        self.fails = False

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.plans.append(plan)
        if self.fails:
            raise UserFunctionError("it broke")
        return self._tasks.run(plan)


@pytest.fixture
def job() -> tuple[Simulation, SimulatedDriver, Tasks]:
    simulation = Simulation()
    driver = simulation.start()
    driver.epochs._barriers = CheckpointCoordinator(next_id=5)
    return simulation, driver, Tasks(simulation, driver)


Job = tuple[Simulation, SimulatedDriver, Tasks]


def publisher_of(driver: SimulatedDriver) -> SimulatedPublisher:
    publisher = driver.epochs._publisher
    assert isinstance(publisher, SimulatedPublisher)
    return publisher


def end(driver: SimulatedDriver, checkpoint_id: int, *, completed: bool = True) -> None:
    publisher_of(driver).ends.append(CheckpointEnd(checkpoint_id, completed=completed))


def run(driver: SimulatedDriver, tasks: Tasks) -> EpochPlan:
    driver.epochs.run_epoch(tasks, SourcePositions())
    return tasks.plans[-1]


def test_an_end_is_reported_once_with_the_next_epoch(job: Job) -> None:
    _, driver, tasks = job
    assert run(driver, tasks).completed == ()
    end(driver, 3, completed=False)
    end(driver, 4)
    assert driver.epochs.has_notices()
    plan = run(driver, tasks)
    assert (plan.completed, plan.aborted) == ((4,), (3,))
    assert not driver.epochs.has_notices()
    assert run(driver, tasks).completed == ()


def test_every_attempt_gets_the_same_notices(job: Job) -> None:
    _, driver, tasks = job
    driver.crash.faults.mixed.add(2)
    end(driver, 4)
    run(driver, tasks)
    assert [(plan.retry, plan.completed) for plan in tasks.plans] == [(0, (4,)), (1, (4,))]


def test_notices_of_an_epoch_that_was_not_sealed_are_repeated(job: Job) -> None:
    _, driver, tasks = job
    end(driver, 4)
    tasks.fails = True
    with pytest.raises(UserFunctionError):
        run(driver, tasks)
    assert driver.epochs.has_notices()
    tasks.fails = False
    end(driver, 5)
    assert run(driver, tasks).completed == (4, 5)


def test_a_checkpoint_is_reported_after_the_epoch_that_carried_it(job: Job) -> None:
    _, driver, tasks = job
    coordinator = driver.epochs._barriers
    assert isinstance(coordinator, CheckpointCoordinator)
    coordinator.request()
    plans = [run(driver, tasks) for _ in range(3)]
    assert [plan.completed for plan in plans] == [(), (5,), ()]
    assert [plan.snapshot_id for plan in plans] == [5, 6, 6], (
        "an epoch is covered by its own checkpoint, or the next one"
    )
    assert driver.epochs.head.manifest.snapshot_id == 6


def test_an_epoch_that_only_notifies_carries_no_checkpoint(job: Job) -> None:
    _, driver, tasks = job
    coordinator = driver.epochs._barriers
    assert isinstance(coordinator, CheckpointCoordinator)
    coordinator.request()
    driver.epochs.run_idle(tasks, barrier=False)
    assert driver.epochs.head.manifest.checkpoint_id is None
    driver.epochs.run_idle(tasks)
    assert driver.epochs.head.manifest.checkpoint_id == 5


def test_a_driver_that_stops_has_nothing_to_tell(job: Job) -> None:
    _, driver, _ = job
    end(driver, 4)
    driver.epochs.request_stop()
    assert not driver.epochs.has_notices()


def test_each_operator_finishes_once_when_its_input_ends(job: Job) -> None:
    _, driver, tasks = job
    run(driver, tasks)
    sealed = [stored.manifest for stored in driver.epochs.run_end_of_input(tasks)]
    assert [plan.finishing for plan in tasks.plans] == [(), ("count",), ("total",)]
    assert [{uid for uid, operator in m.operators.items() if operator.finished} for m in sealed] == [
        {"count"},
        {"count", "total"},
    ]
    plan = run(driver, tasks)  # input has come again, and will end again
    assert plan.finishing == ()
    assert not any(operator.finished for operator in driver.epochs.head.manifest.operators.values())


def test_an_end_that_was_cut_off_finishes_the_others(job: Job) -> None:
    simulation, driver, tasks = job
    run(driver, tasks)
    driver.crash.faults.crashes.append((CrashPoint.E6_SEALED, 3))
    with pytest.raises(SimulatedCrash):
        list(driver.epochs.run_end_of_input(tasks))
    driver = simulation.start(faults=Faults())
    tasks = Tasks(simulation, driver)
    list(driver.epochs.run_end_of_input(tasks))
    assert [uid for plan in tasks.plans for uid in plan.finishing] == ["total"]


def test_the_log_records_since_when_an_operator_runs(job: Job) -> None:
    simulation, driver, tasks = job
    claim = driver.epochs.head.manifest
    assert {operator.since for operator in claim.operators.values()} == {None}
    run(driver, tasks)
    run(driver, tasks)
    again = simulation.start().epochs.head.manifest
    assert again.kind == "claim"
    assert {operator.since for operator in again.operators.values()} == {claim.epoch + 1}


class Differing(Tasks):
    """Subtask 1 of `count` says that it changed a broadcast state in another way."""

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        def tell(ack: Ack) -> Ack:
            return replace(ack, broadcast={"rules": "b" if ack.subtask == 1 else "a"}) if ack.uid == "count" else ack

        return [replace(barrier, acks=tuple(map(tell, barrier.acks))) for barrier in super().run(plan)]


def test_an_epoch_whose_subtasks_differ_is_not_sealed_and_not_tried_again(job: Job) -> None:
    simulation, driver, _ = job
    tasks, before = Differing(simulation, driver), simulation.head
    with pytest.raises(BroadcastDivergenceError, match=r"'count'.*'rules'.*subtask 1"):
        run(driver, tasks)
    assert len(tasks.plans) == 1
    assert simulation.head == before
