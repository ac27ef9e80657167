"""One driver, epoch by epoch: what it seals, what it tries again, what it refuses."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.epoch import debts
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, SourcePositions
from state_engine.errors import (
    EpochError,
    InconsistentAttemptsError,
    LakestateError,
    MissingAckError,
    OutputTypeError,
    SinkError,
    StateTypeChangedError,
    StopRequestedError,
    UserFunctionError,
)
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack, DeclaredChanges, Failure, Manifest
from state_engine.log.source_records import SourceFile, SourcePosition
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulated_tasks import SimulatedTasks, schema
from state_engine.testing.simulator import SimulatedDriver, Simulation, request


class Changed:
    """Tasks with acks that are changed on the way to the driver."""

    def __init__(self, driver: SimulatedDriver, simulation: Simulation, change: Callable[[Ack], Ack]) -> None:
        self._tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:7])
        self._change = change
        self.plans: list[EpochPlan] = []

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.plans.append(plan)
        return [
            replace(barrier, acks=tuple(self._change(ack) for ack in barrier.acks)) for barrier in self._tasks.run(plan)
        ]


def failing(kind: Any) -> Callable[[Ack], Ack]:
    failure = Failure(
        kind=kind, uid="count", subtask=1, message="it broke", key="N1", record="Row(a=1)", traceback="Traceback ..."
    )
    return lambda ack: replace(ack, failure=failure) if (ack.uid, ack.subtask) == ("count", 1) else ack


@pytest.mark.parametrize(
    ("kind", "error", "tries"),
    [
        ("user_function", UserFunctionError, 1),
        ("output_type", OutputTypeError, 1),
        ("state_type", StateTypeChangedError, 1),
        ("engine", EpochError, 4),
    ],
)
def test_a_failure_becomes_a_named_error(kind: str, error: type[LakestateError], tries: int) -> None:
    simulation = Simulation()
    driver = simulation.start()
    before = simulation.head
    tasks = Changed(driver, simulation, failing(kind))
    with pytest.raises(
        error, match=r"'count', subtask 1, failed in epoch 2: it broke Key: N1. Record: Row\(a=1\)"
    ) as raised:
        driver.epochs.run_epoch(tasks, SourcePositions())
    assert (raised.value.operator, raised.value.key) == ("count", "N1")
    assert simulation.head == before == driver.epochs.head
    assert [plan.retry for plan in tasks.plans] == list(range(tries))
    driver.step()  # nothing has advanced; the driver is usable
    simulation.verify()


@pytest.mark.parametrize("faults", [Faults(mixed={3}), Faults(missing={3}), Faults(aborted={3})], ids=str)
def test_an_epoch_that_goes_wrong_once_runs_again_as_a_whole(faults: Faults) -> None:
    simulation = Simulation()
    assert simulation.finish(faults) == 1
    simulation.verify()


class Scripted:
    """Tasks that return prepared results."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.processing_times: list[int] = []

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.processing_times.append(plan.processing_time)
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return list(result)


ONE = Barrier(uid="total", subtask=0, attempt="1")
TWO = Barrier(uid="total", subtask=0, attempt="2")


@pytest.mark.parametrize(
    ("result", "error"),
    [([], MissingAckError), ([ONE, TWO], InconsistentAttemptsError), (EpochError("the engine gave up"), EpochError)],
)
def test_tries_are_bounded_and_share_one_processing_time(
    result: Any, error: type[EpochError], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, epochs, told = Scripted(*[result] * 9), Simulation().start().epochs, []
    monkeypatch.setattr(epochs, "_on_retry", lambda plan, why: told.append((plan.retry, type(why))))
    with pytest.raises(error) as raised:
        epochs.run_epoch(tasks, SourcePositions())
    assert told == [(retry, error) for retry in (1, 2, 3)]
    assert "after 4 attempts: " in str(raised.value) or error is EpochError
    assert len(tasks.processing_times) == 4
    assert len(set(tasks.processing_times)) == 1


def test_an_error_that_is_no_epoch_error_is_not_tried_again() -> None:
    tasks = Scripted(ZeroDivisionError("a bug"), [])
    with pytest.raises(ZeroDivisionError):
        Simulation().start().epochs.run_epoch(tasks, SourcePositions())
    assert len(tasks.results) == 1


def test_a_stopping_job_refuses_before_any_work() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    before = dict(simulation.world.storage.objects)
    driver.epochs.request_stop()
    for again in (driver.step, driver.idle):
        with pytest.raises(StopRequestedError):
            again()
    assert simulation.world.storage.objects == before


def test_a_stop_ends_the_tries_at_an_epoch() -> None:
    driver = Simulation().start()

    class Stopping(Scripted):
        def run(self, plan: EpochPlan) -> Sequence[Barrier]:
            driver.epochs.request_stop()
            return super().run(plan)

    with pytest.raises(StopRequestedError):
        driver.epochs.run_epoch(Stopping([], []), SourcePositions())


def test_sink_errors_are_tried_again() -> None:
    simulation = Simulation()
    assert simulation.finish(Faults(sink_errors=2)) == 1
    simulation.verify()


def test_no_epoch_is_sealed_over_an_open_debt() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    driver.crash.faults.sink_errors = 50
    with pytest.raises(SinkError):
        driver.step()
    driver.crash.faults.sink_errors = 0
    sealed = simulation.head
    for again in (driver.step, driver.idle):
        with pytest.raises(LakestateError, match=r"Epoch 3 .* is sealed, but this driver failed after it"):
            again()
    assert simulation.head == sealed
    assert debts.owed(simulation.world.log, sealed) == sealed
    simulation.start()
    assert debts.owed(simulation.world.log, simulation.head) == sealed  # it may be paid twice, but is never forgotten
    simulation.verify()


def test_idle_epochs_keep_positions_and_bring_no_new_files() -> None:
    simulation = Simulation()
    driver = simulation.start()
    position = SourcePosition(offset="7", new_files=(SourceFile(path="a", timestamp=1),))
    tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:7])
    sealed = driver.epochs.run_epoch(tasks, SourcePositions(metadata="m", positions=(position,)))
    idle = driver.idle().manifest
    assert sealed.manifest.sources == (position,)
    assert (idle.kind, idle.sources, idle.source_metadata) == ("idle", (SourcePosition(offset="7"),), "m")
    claim = simulation.start().epochs.head.manifest
    assert (claim.kind, claim.sources, claim.source_metadata) == ("claim", idle.sources, "m")
    simulation.verify()


def test_schemas_accumulate_and_a_changed_one_is_refused_before_the_put() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    before = simulation.head
    other = replace(schema("count"), schema_id="x", value="string")
    with pytest.raises(StateTypeChangedError, match="value was bigint, is string"):
        driver.epochs.run_epoch(
            Changed(driver, simulation, lambda ack: replace(ack, schemas=(other,))), SourcePositions()
        )
    assert simulation.head == before


def types_in(manifest: Manifest) -> list[tuple[str, list[int]]]:
    return [(s.value, [former.until for former in s.former]) for s in manifest.schemas if s.uid == "count"]


def test_a_type_changes_with_the_first_sealed_epoch_and_not_with_the_claim() -> None:
    simulation = Simulation()
    simulation.start().step()
    epoch = simulation.head.manifest.epoch
    wider = replace(schema("count"), schema_id="wider", value="decimal(20,0)")
    count, total = request().operators
    start = replace(request(), operators=(replace(count, schemas=(wider,)), total))
    driver = simulation.start(start)
    assert types_in(simulation.head.manifest) == [("bigint", [])]
    simulation.start()  # the old code again: nothing has changed, so nothing is compared
    driver = simulation.start(start)
    reporting = Changed(driver, simulation, lambda ack: replace(ack, schemas=(wider,)) if ack.uid == "count" else ack)
    changed = driver.epochs.run_epoch(reporting, SourcePositions()).manifest
    assert types_in(changed) == [("decimal(20,0)", [changed.epoch - 1])]
    assert changed.epoch == epoch + 4
    before = dict(simulation.world.storage.objects)
    with pytest.raises(StateTypeChangedError, match=r"decimal\(20,0\), is bigint"):
        simulation.start(replace(request(), operators=(replace(count, schemas=(schema("count"),)), total)))
    assert simulation.world.storage.objects == before


def test_a_migration_that_not_all_subtasks_wrote_is_not_sealed() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    before = simulation.head
    text = replace(
        schema("count"), schema_id="text", value="string", declared=DeclaredChanges(migrates_from=("bigint",))
    )
    reporting = Changed(driver, simulation, lambda ack: replace(ack, schemas=(text,)) if ack.uid == "count" else ack)
    with pytest.raises(StateTypeChangedError, match=r"only 0 of 2 subtasks.*Ask for the state in open\(\)"):
        driver.epochs.run_epoch(reporting, SourcePositions())
    assert simulation.head == before


def test_a_base_is_adopted_by_the_next_manifest_but_never_one_of_abandoned_epochs() -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    assert simulation.head.manifest.base is not None
    assert simulation.head.manifest.base.epoch == 9
    simulation.start(simulation.restore(simulation.world.log.read(1, 5))).step()
    assert simulation.head.manifest.base is not None
    assert (simulation.head.manifest.base.generation, simulation.head.manifest.base.epoch) == (1, 3)
    simulation.finish(Faults())
    simulation.verify()


def test_a_checkpoint_whose_driver_died_is_finished_by_the_next_start() -> None:
    simulation = Simulation()
    simulation.finish(Faults(crashes=[(CrashPoint.E9_FILES_WRITTEN, 3)]))
    assert simulation.world.checkpoints[0].epoch == 3


def test_an_idle_epoch_owes_its_output_like_any_other() -> None:
    simulation = Simulation()
    driver = simulation.start()
    driver.step()
    driver.crash.faults.crashes.append((CrashPoint.E6_SEALED, 3))
    with pytest.raises(SimulatedCrash):
        driver.idle()
    assert debts.owed(simulation.world.log, simulation.head) == simulation.head
    assert simulation.world.fence == (1, 2)
    simulation.start()
    assert simulation.world.fence == (1, 3)


def test_manifests_without_data_carry_no_acks() -> None:
    simulation = Simulation()
    simulation.start().step()
    target = simulation.head
    simulation.start()
    assert simulation.head.manifest.operators.keys() == {"count", "total"}
    assert not any(operator.acks for operator in simulation.head.manifest.operators.values())
    simulation.start(simulation.restore(target))
    for manifest in (simulation.world.log.read(1, 4).manifest, simulation.head.manifest):
        assert manifest.kind in ("closing", "restore")
        assert not any(operator.acks for operator in manifest.operators.values())
        assert [known.uid for known in manifest.schemas] == ["count", "total"]
