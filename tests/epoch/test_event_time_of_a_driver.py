"""Watermarks and timers as the driver seals them: across crashes, claims, restores, and to the end of the input."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, SourcePositions, StreamEdge
from state_engine.epoch.request import StartRequest
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack, EarliestTimers, HighestTime
from state_engine.testing.simulated import SimulatedCrash
from state_engine.testing.simulated_tasks import SimulatedTasks
from state_engine.testing.simulator import SimulatedDriver, Simulation, request

END = (1 << 63) - 1
HOUR = 3_600_000


def timed(**given: Any) -> StartRequest:
    """`count` reads the source by event time, `total` what `count` emits."""
    plain = request()
    count, total = plain.operators
    edge = StreamEdge(**{"out_of_orderness": 10, **given})
    return replace(plain, operators=(replace(count, edges=(edge,)), total))


class Timed:
    """Tasks with subtasks that report event times and timers."""

    def __init__(self, simulation: Simulation, driver: SimulatedDriver, tell: Callable[[Ack], Ack]) -> None:
        self._tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:3])
        self._tell = tell
        self.plans: list[EpochPlan] = []

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.plans.append(plan)
        barriers = self._tasks.run(plan)
        return [replace(barrier, acks=tuple(map(self._tell, barrier.acks))) for barrier in barriers]


def at(time: int, **timers: Any) -> Callable[[Ack], Ack]:
    """Returns a change of acks: `count` has seen a record of that time, and `total` has these timers."""

    def tell(ack: Ack) -> Ack:
        if ack.uid == "count":
            return replace(ack, event_times=(HighestTime(edge=0, time=time),))
        return replace(ack, timers=EarliestTimers(**timers))

    return tell


def of(**times: int) -> Callable[[Ack], Ack]:
    """Returns a change of acks: `count` has seen records of these partitions."""
    event_times = tuple(HighestTime(edge=0, partition=partition, time=time) for partition, time in times.items())
    return lambda ack: replace(ack, event_times=event_times) if ack.uid == "count" else ack


def silent(ack: Ack) -> Ack:
    return ack


def run(simulation: Simulation, driver: SimulatedDriver, tell: Callable[[Ack], Ack]) -> Timed:
    tasks = Timed(simulation, driver, tell)
    driver.epochs.run_epoch(tasks, SourcePositions())
    return tasks


def test_a_watermark_holds_from_the_next_epoch_on() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    plans = [run(simulation, driver, at(time)).plans[0] for time in (100, 150, 120)]
    assert [plan.watermarks for plan in plans] == [{}, {"count": 88}, {"count": 138, "total": 87}]
    assert simulation.head.manifest.watermarks == {"count": 138, "total": 137}


@pytest.mark.parametrize(("point", "kept"), [(CrashPoint.E6_BEFORE_PUT, 88), (CrashPoint.E6_SEALED, 138)])
def test_what_was_not_sealed_moved_no_watermark(point: CrashPoint, kept: int) -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100))
    driver.crash.faults.crashes.append((point, 3))
    with pytest.raises(SimulatedCrash):
        run(simulation, driver, at(150))
    driver = simulation.start(timed())
    assert driver.epochs.head.manifest.watermarks["count"] == kept
    assert run(simulation, driver, silent).plans[0].watermarks["count"] == kept


def test_a_claim_knows_when_a_timer_is_due() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100, event_time=95, processing_time=10_000_000))
    assert not driver.epochs.is_due(0)
    claim = simulation.start(timed()).epochs
    assert claim.head.manifest.kind == "claim"
    assert claim.head.manifest.timers == {"total": EarliestTimers(event_time=95, processing_time=10_000_000)}
    assert not claim.is_due(9_999_999)
    assert claim.is_due(10_000_000)


def test_an_idle_epoch_is_due_until_the_watermark_has_passed_the_timer() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100, event_time=87))
    due = []
    for _ in range(2):
        due.append(driver.epochs.is_due(0))
        fires = driver.epochs.head.manifest.watermarks.get("total", 0) >= 87
        driver.epochs.run_idle(Timed(simulation, driver, silent if fires else at(100, event_time=87)))
    assert due == [True, True]
    assert not driver.epochs.is_due(0)
    assert simulation.head.manifest.timers == {}


def test_the_end_of_the_input_passes_both_operators() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100))
    before = simulation.head.manifest
    tasks = Timed(simulation, driver, silent)
    sealed = [stored.manifest for stored in driver.epochs.run_end_of_input(tasks)]
    assert [plan.watermarks for plan in tasks.plans] == [{"count": END}, {"count": END, "total": END}]
    assert [(m.epoch, m.kind) for m in sealed] == [(before.epoch + 1, "idle"), (before.epoch + 2, "idle")]
    assert all(plan.end_of_input for plan in tasks.plans)
    again = simulation.start(simulation.restore(simulation.world.log.read(1, before.epoch)))
    assert again.epochs.head.manifest.watermarks == before.watermarks


def test_an_end_of_input_that_was_cut_off_is_repeated() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100))
    driver.crash.faults.crashes.append((CrashPoint.E6_SEALED, 3))
    with pytest.raises(SimulatedCrash):
        list(driver.epochs.run_end_of_input(Timed(simulation, driver, silent)))
    driver = simulation.start(timed())
    tasks = Timed(simulation, driver, silent)
    list(driver.epochs.run_end_of_input(tasks))
    assert tasks.plans[-1].watermarks == {"count": END, "total": END}


def test_a_try_that_was_not_sealed_has_no_effect() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    tasks = Timed(simulation, driver, at(100))
    driver.crash.faults.mixed.add(2)
    driver.epochs.run_epoch(tasks, SourcePositions())
    assert [plan.retry for plan in tasks.plans] == [0, 1]
    assert {plan.processing_time for plan in tasks.plans} == {tasks.plans[0].processing_time}
    assert simulation.head.manifest.event_times == {
        "count": (HighestTime(edge=0, time=100, active_at=tasks.plans[0].processing_time),)
    }


def partitions(simulation: Simulation) -> dict[str, int]:
    return {time.partition: time.time for time in simulation.head.manifest.event_times.get("count", ())}


def test_a_partition_column_that_a_release_adds_changes_or_removes_holds_no_watermark_back() -> None:
    simulation = Simulation()
    moved = []
    for column, tells in [
        (None, [at(100)]),
        ("p", [of(x=1004, y=1000), of(x=1010)]),
        ("q", [of(a=1300), of(b=900), of(b=1400)]),
        (None, [at(1500), at(1600)]),
    ]:
        driver = simulation.start(timed(partition=column))
        moved.append([driver.epochs.head.manifest.watermarks.get("count")])
        for tell in tells:
            run(simulation, driver, tell)
            moved[-1].append(simulation.head.manifest.watermarks["count"])
    assert moved == [[None, 88], [88, 988, 988], [988, 1288, 1288, 1288], [1288, 1488, 1588]]
    assert partitions(simulation) == {"": 1600}


def test_partitions_of_the_same_column_are_known_in_later_releases() -> None:
    simulation = Simulation()
    run(simulation, simulation.start(timed(partition="p")), of(x=500, y=50))
    operators = simulation.head.manifest.operators
    assert {uid: one.partition_columns for uid, one in operators.items()} == {"count": ("p",), "total": ()}
    driver = simulation.start(timed(partition="p", out_of_orderness=0))
    assert partitions(simulation) == {"x": 500, "y": 50}
    run(simulation, driver, of(x=600))
    assert simulation.head.manifest.watermarks["count"] == 48


def test_a_restored_epoch_goes_on_with_the_partition_column_of_today() -> None:
    simulation = Simulation()
    driver = simulation.start(timed())
    run(simulation, driver, at(100))
    target = simulation.head
    run(simulation, simulation.start(timed(partition="p")), of(x=1000))
    start = replace(simulation.restore(target), operators=timed(partition="p").operators)
    driver = simulation.start(start)
    assert (simulation.head.manifest.watermarks["count"], partitions(simulation)) == (88, {})
    run(simulation, driver, of(x=200, y=300))
    assert simulation.head.manifest.watermarks["count"] == 188


def test_a_job_of_a_former_release_goes_on() -> None:
    """The former release did not record the partition column of its event times."""
    simulation = Simulation()
    run(simulation, simulation.start(timed()), at(100))
    simulation.world.now_ms += HOUR
    driver = simulation.start(timed())  # its edge has no column, but its tasks report partitions
    run(simulation, driver, of(x=1000, y=1000))
    assert (simulation.head.manifest.watermarks["count"], len(partitions(simulation))) == (88, 3)
    run(simulation, simulation.start(timed(partition="p")), of(x=1100))
    assert (simulation.head.manifest.watermarks["count"], partitions(simulation)) == (988, {"x": 1100, "y": 1000})


def test_idleness_counts_from_the_start_of_the_driver_and_again_the_same_for_each_try() -> None:
    simulation = Simulation()
    driver = simulation.start(timed(partition="p", idle_after=HOUR))
    run(simulation, driver, of(x=500, y=50))
    simulation.world.now_ms += 10 * HOUR
    driver = simulation.start(timed(partition="p", idle_after=HOUR))
    run(simulation, driver, of(x=600))
    assert simulation.head.manifest.watermarks["count"] == 38, "y could not have brought any record"
    assert not driver.epochs.is_due(simulation.world.now_ms)
    simulation.world.now_ms += HOUR
    driver.crash.faults.mixed.add(simulation.head.manifest.epoch + 1)
    tasks = run(simulation, driver, of(x=700))
    assert [plan.retry for plan in tasks.plans] == [0, 1]
    assert simulation.head.manifest.watermarks["count"] == 688


def test_an_input_that_is_empty_from_the_start_holds_no_watermark_back() -> None:
    simulation = Simulation()
    plain = timed(idle_after=HOUR)
    count, total = plain.operators
    both = (StreamEdge(out_of_orderness=10), StreamEdge(out_of_orderness=10, input=2, idle_after=HOUR))
    driver = simulation.start(replace(plain, operators=(replace(count, edges=both), total)))
    run(simulation, driver, at(100, event_time=80))
    assert simulation.head.manifest.watermarks == {}
    now = simulation.world.now_ms
    assert [driver.epochs.is_due(now + later) for later in (0, 2 * HOUR)] == [False, True]
    simulation.world.now_ms += 2 * HOUR
    driver.epochs.run_idle(Timed(simulation, driver, silent))
    assert simulation.head.manifest.watermarks["count"] == 88
