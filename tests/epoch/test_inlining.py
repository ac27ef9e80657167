"""Small changes are stored in the manifest: how many bytes a task may hand over, and which of them are sealed."""

import json
from typing import Any

import pytest

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.inlining import INLINED_PER_EPOCH, inline_budget, take_inlined
from state_engine.epoch.ports import OperatorPlan
from state_engine.log.records import Ack, StateHandle
from state_engine.testing.simulated import Faults
from state_engine.testing.simulator import INLINE_THRESHOLD, Simulation


@pytest.mark.parametrize(
    ("threshold", "parallelism", "budget"),
    [
        (20_480, (2,), 20_480),
        (20_480, (6,), 20_480),  # 6 × 20 KiB are below 128 KiB
        (20_480, (7,), INLINED_PER_EPOCH // 7),
        (20_480, (3, 4), INLINED_PER_EPOCH // 7),
        (20_480, (1_000,), 131),
        (1 << 20, (1,), 1 << 20),
        (1 << 20, (3, 1), 1 << 18),
        (0, (2,), 0),
        (20_480, (), 20_480),
    ],
)
def test_all_subtasks_together_stay_below_what_a_manifest_holds(
    threshold: int, parallelism: tuple[int, ...], budget: int
) -> None:
    operators = [OperatorPlan(uid=str(n), parallelism=p, max_parallelism=128) for n, p in enumerate(parallelism)]
    assert inline_budget(threshold, operators) == budget
    assert budget * sum(parallelism) <= max(threshold, INLINED_PER_EPOCH)


def ack(subtask: int, **more: Any) -> Ack:
    return Ack(uid="a", subtask=subtask, attempt="x", records_in=1, records_out=0, **more)


def test_a_manifest_keeps_the_bytes_once_and_under_the_name_of_the_handle() -> None:
    handle = StateHandle(path="changes/1", length=3, checksum="", rows=1, codec="none")
    acks, inlined = take_inlined({"a": (ack(0, changes=handle, inlined=b"abc"), ack(1, changes=handle), ack(2))})
    assert inlined == {"changes/1": b"abc"}
    assert acks == {"a": (ack(0, changes=handle), ack(1, changes=handle), ack(2))}


def test_what_is_inlined_has_no_file_and_everything_else_has_one() -> None:
    simulation = Simulation()
    driver = simulation.start()
    seen = {True: 0, False: 0}
    for _ in range(4):
        manifest = driver.step().manifest
        for handle in (ack.changes for one in manifest.operators.values() for ack in one.acks if ack.changes):
            inlined = handle.path in manifest.inlined
            assert simulation.world.storage.exists(handle.path) != inlined
            assert inlined == (handle.length <= INLINE_THRESHOLD)
            assert not inlined or len(manifest.inlined[handle.path]) == handle.length
            seen[inlined] += 1
        assert len(manifest.inlined) == sum(
            handle.path in manifest.inlined
            for handle in (ack.changes for one in manifest.operators.values() for ack in one.acks if ack.changes)
        )
    assert seen[True] > 2
    assert seen[False] > 2
    assert driver.idle().manifest.inlined.keys().isdisjoint(manifest.inlined)
    simulation.verify()


@pytest.mark.parametrize("point", [CrashPoint.E5_CHANGE_FILE_WRITTEN, CrashPoint.E5_ACKED])
def test_a_task_that_dies_leaves_no_inlined_changes(point: CrashPoint) -> None:
    simulation = Simulation()
    driver = simulation.start(faults=Faults(task_deaths=[(point, None)] * 3))
    for _ in range(3):
        manifest = driver.step().manifest
        for sealed in (one for operator in manifest.operators.values() for one in operator.acks if one.changes):
            assert sealed.inlined is None
            if (data := manifest.inlined.get(sealed.changes.path)) is not None:
                assert (len(data), len(json.loads(data))) == (sealed.changes.length, sealed.changes.rows)
    simulation.verify()


def test_of_two_attempts_only_the_changes_of_the_sealed_one_are_in_the_manifest() -> None:
    """The first try at each epoch lets subtasks read two attempts; the second one is sealed, under other names."""
    simulation = Simulation()
    driver = simulation.start(faults=Faults(mixed={2, 3, 4}))
    for _ in range(3):
        manifest = driver.step().manifest
        handles = [one.changes for op in manifest.operators.values() for one in op.acks if one.changes is not None]
        assert manifest.inlined.keys() == {one.path for one in handles if one.length <= INLINE_THRESHOLD}
    simulation.verify()
