"""A driver restores state of another epoch between two of its own: one more manifest, fenced as any other."""

import json
from collections.abc import Callable, Sequence

import pytest

from state_engine.epoch import debts
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.key_groups import RestoredRows
from state_engine.epoch.ports import EpochPlan, SourcePositions
from state_engine.epoch.rescale import RescaleRequest
from state_engine.errors import FencedError, LakestateError, RestoreError, StopRequestedError, UserFunctionError
from state_engine.log.barriers import Barrier
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, GroupRestore, Origin, StateHandle
from state_engine.testing.simulated import Faults, PutOutcome, SimulatedCrash
from state_engine.testing.simulated_tasks import SimulatedTasks
from state_engine.testing.simulator import SimulatedDriver, Simulation

Write = Callable[[StoredManifest], RestoredRows]


def writer(simulation: Simulation) -> Write:
    """Restores the state of all keys of `count` from the head itself, so that results stay those of a plain run."""

    def write(head: StoredManifest) -> RestoredRows:
        world, manifest = simulation.world, head.manifest
        state = world.state_at(head).get("count", {})
        attempt = world.new_id()
        path = change_path(manifest.generation, manifest.epoch + 1, "count", 0, attempt)
        data = json.dumps(state).encode()
        world.storage.put_exclusive(path, data)
        handle = StateHandle(path=path, length=len(data), checksum="", rows=len(state), codec="none")
        subtasks = manifest.operators["count"].parallelism
        acks = tuple(
            Ack(uid="count", subtask=n, attempt=attempt, records_in=0, records_out=0, changes=None if n else handle)
            for n in range(subtasks)
        )
        source = Origin(job=manifest.job, generation=manifest.generation, epoch=manifest.epoch, manifest=head.hash)
        record = GroupRestore(source=source, groups={"count": ((0, 12),)})
        return RestoredRows(acks={"count": acks}, schemas=(), timers={}, record=record)

    return write


def run(simulation: Simulation, faults: Faults, restarts: int = 30) -> None:
    """Restores key groups before every second epoch, until the source ends; a driver that dies is started again."""
    for _ in range(restarts):
        try:
            driver = simulation.start(faults=faults)
            while driver.offset < len(simulation.records):
                if driver.epochs.head.manifest.epoch % 2:
                    driver.epochs.restore_groups(writer(simulation))
                driver.step()
            return
        except (SimulatedCrash, LakestateError):
            simulation.world.deliver()
    raise AssertionError("no end")


@pytest.mark.parametrize("epoch", range(2, 12))
@pytest.mark.parametrize(
    "point",
    [CrashPoint.E6_BEFORE_PUT, CrashPoint.E6_SEALED, CrashPoint.E7_BEFORE_SINK_COMMIT, CrashPoint.E9_BASE_WRITTEN],
    ids=str,
)
def test_crashes_around_it_change_no_result(point: CrashPoint, epoch: int) -> None:
    simulation = Simulation(seed=epoch)
    run(simulation, Faults(crashes=[(point, epoch)]))
    simulation.verify()
    log = simulation.world.log
    kinds = [log.read(1, epoch).manifest.kind for epoch in log.epochs(1)]
    assert kinds.count("restore") >= 3


@pytest.mark.parametrize("outcome", ["failed", "delayed", "lost_answer"])
@pytest.mark.parametrize("puts", range(1, 12))
def test_a_storage_that_lies_changes_no_result(outcome: PutOutcome, puts: int) -> None:
    simulation = Simulation(seed=puts)
    answers: list[PutOutcome] = ["ok"] * puts
    run(simulation, Faults(puts=[*answers, outcome]))
    simulation.verify()


def test_what_is_owed_before_it_is_paid_by_the_next_start() -> None:
    """The driver dies with the debt; key groups are restored without a driver, as for a stopped job; a start pays."""
    from state_engine.epoch import carry
    from state_engine.epoch.key_groups import restored_groups

    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    dying = simulation.start(faults=Faults(crashes=[(CrashPoint.E7_BEFORE_SINK_COMMIT, None)]))
    with pytest.raises(SimulatedCrash):
        dying.step()
    world, owing = simulation.world, simulation.head
    claim = world.log.put(carry.carried(owing, "claim", incarnation="d" * 32, number=9, now_ms=0))
    rows = writer(simulation)(claim)
    world.log.put(restored_groups(claim, rows, incarnation="d" * 32, number=9, now_ms=0))
    assert debts.owed(world.log, simulation.head) == owing
    simulation.finish(Faults())
    simulation.verify()


def test_a_driver_that_was_fenced_seals_nothing() -> None:
    simulation = Simulation()
    zombie = simulation.start()
    zombie.step()
    simulation.start().step()
    head = simulation.head
    with pytest.raises(FencedError):
        zombie.epochs.restore_groups(writer(simulation))
    assert simulation.head == head
    with pytest.raises(FencedError):
        zombie.step()


def test_a_driver_that_stops_refuses_and_one_whose_writer_fails_goes_on() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()

    def refuse(head: StoredManifest) -> RestoredRows:
        raise RestoreError("It does not fit.", action="Nothing.")

    with pytest.raises(RestoreError):
        driver.epochs.restore_groups(refuse)
    driver.step()
    driver.epochs.request_stop()
    with pytest.raises(StopRequestedError):
        driver.epochs.restore_groups(writer(simulation))


class Watched(SimulatedTasks):
    """Records the checkpoints that the functions were notified of."""

    told: Sequence[int] = ()

    def run(self, plan: EpochPlan) -> list[Barrier]:
        self.told = plan.completed
        return super().run(plan)


def test_checkpoints_that_no_function_was_notified_of_are_notified_with_the_next_epoch() -> None:
    simulation = Simulation()
    driver = simulation.start()
    while driver.epochs.head.manifest.checkpoint_id is None:
        driver.step()
    checkpoint = driver.epochs.head.manifest.checkpoint_id
    driver.epochs.look_after_checkpoints()  # the driver has learned of it
    sealed = driver.epochs.restore_groups(writer(simulation))
    assert (sealed.manifest.kind, sealed.manifest.checkpoint_id) == ("restore", None)
    tasks = Watched(simulation.world, driver.crash)
    held = driver.epochs.head.manifest
    driver.epochs.run_epoch(tasks, SourcePositions(positions=held.sources))
    assert tasks.told == (checkpoint,)
    assert driver.epochs.head.manifest.restored is None


class Broken(SimulatedTasks):
    def run(self, plan: EpochPlan) -> list[Barrier]:
        raise UserFunctionError("It failed.", action="Mend it.")


def test_a_rescale_whose_epoch_failed_waits_for_another_epoch() -> None:
    simulation, ends = Simulation(), list[StoredManifest | None]()
    driver = simulation.start()
    held = driver.step().manifest
    driver.epochs.rescale(RescaleRequest({"count": 3}, lambda manifest, _: ends.append(manifest)))
    with pytest.raises(UserFunctionError):
        driver.epochs.run_epoch(Broken(simulation.world, driver.crash), SourcePositions(positions=held.sources))
    sealed = driver.epochs.restore_groups(writer(simulation)).manifest
    assert (sealed.operators["count"].parallelism, ends) == (2, [])
    rescaled = driver.step()
    assert (rescaled.manifest.operators["count"].parallelism, ends) == (3, [rescaled])


def test_it_moves_neither_positions_nor_watermarks_and_time_does_not_go_back() -> None:
    simulation = Simulation()
    driver: SimulatedDriver = simulation.start()
    before = driver.step().manifest
    after = driver.epochs.restore_groups(writer(simulation)).manifest
    assert [s.offset for s in after.sources] == [s.offset for s in before.sources]
    assert (after.watermarks, after.event_times) == (before.watermarks, before.event_times)
    assert after.processing_time >= before.processing_time
    assert after.operators["total"].acks == ()
    assert after.operators["total"].since == before.operators["total"].since
