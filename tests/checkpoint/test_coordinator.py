import pytest

from state_engine.checkpoint.coordinator import CheckpointCoordinator


def test_marks_once_per_interval_counted_from_the_first_epoch() -> None:
    coordinator = CheckpointCoordinator(1000)
    marks = []
    for epoch in range(1, 8):
        mark = coordinator.checkpoint_at(epoch, epoch * 400)
        if mark is not None:
            coordinator.completed(mark, epoch * 400)
        marks.append(mark)
    assert marks == [None, None, None, 1, None, None, 2]


def test_an_epoch_that_runs_again_keeps_its_id() -> None:
    coordinator = CheckpointCoordinator(1000, next_id=41)
    assert coordinator.checkpoint_at(1, 0) is None
    assert coordinator.checkpoint_at(2, 5000) == 41
    assert coordinator.checkpoint_at(2, 9000) == 41
    assert coordinator.checkpoint_at(3, 19000) is None, "41 is under way"
    coordinator.failed(41, 19000)
    assert coordinator.checkpoint_at(4, 19000) == 42


def test_pause_is_counted_from_the_end_and_from_a_failure() -> None:
    coordinator = CheckpointCoordinator(10, 1000)
    coordinator.checkpoint_at(1, 0)
    assert coordinator.checkpoint_at(2, 100) == 1
    coordinator.failed(1, 500)
    assert coordinator.consecutive_failures == 1
    assert coordinator.checkpoint_at(3, 1400) is None
    assert coordinator.checkpoint_at(4, 1500) == 2
    coordinator.completed(2, 1500)
    assert coordinator.consecutive_failures == 0


def test_several_may_be_under_way() -> None:
    coordinator = CheckpointCoordinator(10, 0, 2)
    coordinator.checkpoint_at(1, 0)
    assert [coordinator.checkpoint_at(epoch, epoch * 100) for epoch in (2, 3, 4)] == [1, 2, None]


def test_a_long_log_is_folded_without_an_interval() -> None:
    coordinator = CheckpointCoordinator(None, last_epoch=7, fold_after_epochs=3)
    assert [coordinator.checkpoint_at(epoch, 0) for epoch in (8, 9, 10)] == [None, None, 1]


def test_demand_overrides_interval_and_pause_but_not_concurrency() -> None:
    coordinator = CheckpointCoordinator(None, 10_000)
    coordinator.request()
    assert coordinator.checkpoint_at(1, 0) == 1
    coordinator.request()
    assert coordinator.checkpoint_at(2, 1) is None
    coordinator.completed(1, 2)
    assert coordinator.checkpoint_at(3, 3) == 2


def test_ids_never_go_back() -> None:
    coordinator = CheckpointCoordinator(None, next_id=5)
    coordinator.resume(next_id=3, last_epoch=0)
    coordinator.request()
    assert coordinator.checkpoint_at(1, 0) == 5


@pytest.mark.parametrize("arguments", [(0,), (10, -1), (10, 0, 0)])
def test_refuses_senseless_settings(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least"):
        CheckpointCoordinator(*arguments)
