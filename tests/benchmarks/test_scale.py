from pathlib import Path
from typing import Any

from benchmarks import thresholds
from benchmarks.scale.child import run
from benchmarks.scale.job import OPERATORS, SimulatedJob
from benchmarks.scale.measure import FULL
from benchmarks.scale.model import ScaleCase, ScaleLimit, ScaleRow, judge_scale
from state_engine.epoch.acks import Alignment
from state_engine.epoch.ports import EpochPlan
from state_engine.log.barriers import Barrier


def row(**changes: Any) -> ScaleRow:
    fields: dict[str, Any] = {
        "subtasks": 128, "driver_ms": 10.0, "slowest_ms": 20.0, "collected_bytes": 5, "manifest_bytes": 6,
        "peak_mib": 100, "checkpoint_epochs": 21, "checkpoint_seconds": 1.5, "checkpoint_reads": 7, "start_epochs": 9,
        "start_seconds": 2.5, "start_mib": 200, "results_equal": True,
    }  # fmt: skip
    return ScaleRow(**{**fields, **changes})


def test_a_figure_may_not_be_larger_than_its_limit() -> None:
    limit = ScaleLimit(figure="start_seconds", subtasks=128, at_most=2.5)
    assert [verdict.reached for verdict in judge_scale([limit], [row()])] == [True]
    assert [verdict.reached for verdict in judge_scale([limit], [row(start_seconds=2.51)])] == [False]
    assert [verdict.reached for verdict in judge_scale([limit], [row(results_equal=False)])] == [False]
    [open_one] = judge_scale([limit], [row(subtasks=16)])
    assert (open_one.measured, open_one.reached) == (None, False)
    assert list(judge_scale([limit], [])) == []


def test_each_limit_is_of_a_figure_and_a_size_that_are_measured() -> None:
    limits = thresholds.load().scale
    assert {limit.subtasks for limit in limits} <= FULL.keys()
    assert {limit.figure for limit in limits} <= set(ScaleRow.__struct_fields__)
    goals = {(limit.figure, limit.subtasks): limit.at_most for limit in limits}
    assert (goals["driver_ms", 1_000], goals["peak_mib", 1_000]) == (250, 1_024)


def test_the_simulated_tasks_hand_the_driver_what_real_ones_do(tmp_path: Path) -> None:
    job = SimulatedJob(tmp_path, 3)
    plans: list[tuple[EpochPlan, list[Barrier]]] = []
    made = job.tasks.barriers

    def noted(plan: EpochPlan) -> list[Barrier]:
        plans.append((plan, made(plan)))
        return plans[-1][1]

    job.tasks.barriers = noted  # type: ignore[method-assign]
    job.start()
    job.epoch()
    [(plan, barriers)] = plans
    first, _ = plan.operators
    place = plan.incarnation, plan.epoch
    acks = {(ack.uid, ack.subtask): ack for barrier in barriers for ack in barrier.acks}
    assert acks.keys() == {(uid, subtask) for uid in OPERATORS for subtask in range(3)}
    sent = [Alignment("first", n, place=place).barriers(acks["first", n], 3) for n in range(3)]
    for subtask, barrier in enumerate(barriers):
        alignment = Alignment("second", subtask, [first], place=place)
        for of_one in sent:
            alignment.add(of_one[subtask])
        assert list(alignment.barriers(acks["second", subtask])) == [barrier]


def test_a_small_run(tmp_path: Path) -> None:
    found = run(ScaleCase(subtasks=2, epochs=3, between=2, work=str(tmp_path)))
    assert found.results_equal
    assert (found.subtasks, found.checkpoint_epochs, found.start_epochs) == (2, 3, 4)
    assert 0 < found.driver_ms <= found.slowest_ms
    assert found.collected_bytes > 1_000
    assert found.manifest_bytes > 1_000
