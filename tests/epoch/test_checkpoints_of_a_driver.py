"""What a driver does with checkpoints in its epochs and between them: declines, expiries, too many failures."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.checkpoint.requests import CheckpointRequest
from state_engine.epoch.ports import CheckpointEnd, EpochPlan, Mark, SourcePositions
from state_engine.epoch.rescale import RescaleRequest
from state_engine.errors import CheckpointFailuresError, EpochError, StopRequestedError, UserFunctionError
from state_engine.log.barriers import Barrier
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Ack
from state_engine.testing.simulated_services import SimulatedPublisher
from state_engine.testing.simulated_tasks import SimulatedTasks
from state_engine.testing.simulator import SimulatedDriver, Simulation

TIMEOUT_MS = 5_000


class Stuck(SimulatedPublisher):
    """Publishes nothing, and gives up the checkpoints that it is asked to abandon."""

    coordinator: CheckpointCoordinator

    def begin(self, sealed: StoredManifest, mark: Mark) -> None:
        pass

    def abandon(self, checkpoint_id: int) -> bool:
        self.ends.append(CheckpointEnd(checkpoint_id, completed=False))
        self.coordinator.failed(checkpoint_id, self.world.now_ms, FailureReason.CHECKPOINT_EXPIRED)
        return True


@dataclass
class Job:
    """A driver with a real coordinator, in the simulated world."""

    simulation: Simulation
    driver: SimulatedDriver
    coordinator: CheckpointCoordinator
    tasks: "Tasks"
    told: list[PendingCheckpoint | None]

    def ask(self) -> None:
        self.coordinator.request(CheckpointRequest(tell=self.told.append))

    def run(self) -> EpochPlan:
        self.driver.epochs.run_epoch(self.tasks, SourcePositions())
        return self.tasks.plans[-1]

    def reasons(self) -> list[FailureReason | None]:
        return [one.end.reason for one in self.told if one is not None and one.end is not None]


class Tasks:
    """Simulated tasks that remember their plans, and fail on request."""

    def __init__(self, simulation: Simulation, driver: SimulatedDriver) -> None:
        self._tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:3])
        self._driver = driver
        self.plans: list[EpochPlan] = []
        self.error: BaseException | None = None
        self.stops = False
        self.is_quiet = False

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.plans.append(plan)
        if self.stops:
            self._driver.epochs.request_stop()
        if self.error is not None:
            raise self.error
        barriers = self._tasks.run(plan)
        return [replace(one, acks=tuple(map(_unchanged, one.acks))) for one in barriers] if self.is_quiet else barriers


def _unchanged(ack: Ack) -> Ack:
    return replace(ack, changes=None)


@pytest.fixture
def job() -> Job:
    simulation = Simulation()
    driver = simulation.start()
    settings = CheckpointConfig().set_checkpoint_interval(100_000).set_tolerable_checkpoint_failure_number(1)
    coordinator = CheckpointCoordinator(settings.set_checkpoint_timeout(TIMEOUT_MS))
    publisher = Stuck(simulation.world, driver.crash)
    publisher.coordinator = coordinator
    driver.epochs._barriers, driver.epochs._publisher = coordinator, publisher
    return Job(simulation, driver, coordinator, Tasks(simulation, driver), [])


def test_an_epoch_that_is_not_sealed_declines_its_checkpoint_and_functions_are_notified(job: Job) -> None:
    job.ask()
    job.tasks.error = UserFunctionError("it broke")
    with pytest.raises(UserFunctionError):
        job.run()
    assert job.reasons() == [FailureReason.CHECKPOINT_DECLINED]
    assert job.coordinator.pending == ()
    job.tasks.error = None
    declined = job.told[0].checkpoint_id if job.told[0] else None
    assert job.run().aborted == (declined,)
    assert job.run().aborted == ()
    assert job.simulation.head.manifest.checkpoint_id is None


def test_an_epoch_that_is_tried_again_keeps_its_checkpoint(job: Job) -> None:
    job.ask()
    job.driver.crash.faults.mixed.add(job.driver.epochs.head.manifest.epoch + 1)
    job.run()
    assert [plan.snapshot_id for plan in job.tasks.plans] == [1, 1]
    [pending] = job.coordinator.pending
    assert (pending.checkpoint_id, pending.sealed_ms is None, job.told) == (1, False, [])


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_neither_delays_nor_hastens_nor_expires_a_checkpoint(job: Job, set_by_ms: int) -> None:
    world = job.simulation.world
    job.run()
    world.clock_error_ms = set_by_ms
    job.run()
    assert job.coordinator.pending == ()
    world.now_ms += 110_000  # the interval, and what a simulated clock goes back by
    job.run()
    assert len(job.coordinator.pending) == 1
    world.clock_error_ms = 0
    job.driver.epochs.look_after_checkpoints()
    assert len(job.coordinator.pending) == 1
    world.now_ms += TIMEOUT_MS + 1_000
    job.driver.epochs.look_after_checkpoints()
    assert job.coordinator.pending == ()


def test_a_job_that_stops_in_an_epoch_declines_nothing(job: Job) -> None:
    job.ask()
    job.tasks.stops, job.tasks.error = True, EpochError("the engine gave up")
    with pytest.raises(StopRequestedError):
        job.run()
    assert job.told == []
    job.coordinator.shut_down(0)
    assert job.reasons() == [FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN]
    assert job.coordinator.error is None


def test_what_takes_too_long_is_given_up_with_the_next_epoch_or_between_two(job: Job) -> None:
    for between in (False, True):
        job.ask()
        job.run()
        assert len(job.coordinator.pending) == 1
        job.simulation.world.now_ms += 2 * TIMEOUT_MS
        if between:
            with pytest.raises(CheckpointFailuresError, match="2 checkpoints in a row"):
                job.driver.epochs.look_after_checkpoints()
        else:
            given_up = job.coordinator.pending[0].checkpoint_id
            assert job.run().aborted == (given_up,)
    assert job.reasons() == [FailureReason.CHECKPOINT_EXPIRED] * 2


def test_beyond_the_tolerable_failures_no_epoch_is_sealed_any_more(job: Job) -> None:
    for checkpoint_id in (1, 2):
        job.ask()
        job.run()
        job.coordinator.failed(checkpoint_id, 0, FailureReason.FINALIZE_CHECKPOINT_FAILURE, "disk full")
    before = job.simulation.head
    for _ in range(2):
        with pytest.raises(CheckpointFailuresError, match="disk full") as caught:
            job.run()
    assert "start the job again" in caught.value.action
    assert job.simulation.head == before
    job.driver.epochs.rescale(RescaleRequest(4))
    assert not job.driver.epochs.wants_rescale, "there are no more epochs"
    job.simulation.start().step()
    assert job.simulation.head.manifest.epoch > before.manifest.epoch


def test_an_epoch_that_only_notifies_is_no_reason_for_a_checkpoint(job: Job) -> None:
    interval = 100_000
    job.run()
    job.ask()
    job.run()
    job.coordinator.completed(1, job.simulation.world.now_ms)
    later = job.simulation.world.now_ms + 10 * interval
    assert not job.coordinator.wants_epoch(later), "all is covered"
    job.tasks.is_quiet = True
    job.driver.epochs.run_idle(job.tasks, barrier=False)
    assert not job.coordinator.wants_epoch(later), "an idle job would report checkpoints, and take them, for ever"
    job.tasks.is_quiet = False
    job.driver.epochs.run_idle(job.tasks, barrier=False)
    assert job.coordinator.wants_epoch(later), "it changed something"
