"""Which epochs carry a checkpoint, and what its end means; the effect of each setter of `CheckpointConfig`."""

from collections.abc import Callable

import pytest

from state_engine.api import CheckpointConfig
from state_engine.checkpoint.coordinator import REMEMBERED, CheckpointCoordinator
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.pending import Answer, End, PendingCheckpoint
from state_engine.checkpoint.requests import MAX_QUEUED, CheckpointRequest
from state_engine.errors import CheckpointFailuresError, JobDefinitionError

FAILED = FailureReason.FINALIZE_CHECKPOINT_FAILURE


def config(interval: int | None = None) -> CheckpointConfig:
    settings = CheckpointConfig()
    return settings if interval is None else settings.set_checkpoint_interval(interval)


def coordinator(interval: int | None = None, **options: int) -> CheckpointCoordinator:
    return CheckpointCoordinator(config(interval), **options)


def id_at(checkpoints: CheckpointCoordinator, epoch: int, now_ms: int) -> int | None:
    mark = checkpoints.checkpoint_at(epoch, now_ms)
    return mark and mark.checkpoint_id


# When ---------------------------------------------------------------------------------------------------------------


def test_marks_once_per_interval_counted_from_the_first_epoch() -> None:
    checkpoints = coordinator(1000)
    marks = []
    for epoch in range(1, 8):
        mark = id_at(checkpoints, epoch, epoch * 400)
        if mark is not None:
            checkpoints.completed(mark, epoch * 400)
        marks.append(mark)
    assert marks == [None, None, None, 1, None, None, 2]


def test_without_an_interval_there_are_none() -> None:
    checkpoints = CheckpointCoordinator()
    assert [id_at(checkpoints, epoch, epoch * 1_000_000) for epoch in range(1, 50)] == [None] * 49


def test_an_epoch_that_runs_again_keeps_its_id() -> None:
    checkpoints = coordinator(1000, next_id=41)
    assert id_at(checkpoints, 1, 0) is None
    assert id_at(checkpoints, 2, 5000) == 41
    assert id_at(checkpoints, 2, 9000) == 41
    assert id_at(checkpoints, 3, 19000) is None, "41 is under way"
    checkpoints.failed(41, 19000, FAILED)
    assert id_at(checkpoints, 4, 19000) == 42


def test_the_minimum_pause_is_counted_from_the_end_and_from_a_failure() -> None:
    checkpoints = CheckpointCoordinator(config(10).set_min_pause_between_checkpoints(1000))
    checkpoints.checkpoint_at(1, 0)
    assert id_at(checkpoints, 2, 100) == 1
    checkpoints.failed(1, 500, FAILED)
    assert id_at(checkpoints, 3, 1499) is None
    assert id_at(checkpoints, 4, 1500) == 2
    checkpoints.completed(2, 1600)
    assert id_at(checkpoints, 5, 2599) is None
    assert id_at(checkpoints, 6, 2600) == 3


def test_several_may_be_under_way() -> None:
    checkpoints = CheckpointCoordinator(config(10).set_max_concurrent_checkpoints(2))
    checkpoints.checkpoint_at(1, 0)
    assert [id_at(checkpoints, epoch, epoch * 100) for epoch in (2, 3, 4)] == [1, 2, None]
    assert [pending.checkpoint_id for pending in checkpoints.pending] == [1, 2]


def test_with_a_pause_there_is_one_at_a_time() -> None:
    checkpoints = CheckpointCoordinator(
        config(10).set_max_concurrent_checkpoints(2).set_min_pause_between_checkpoints(10)
    )
    checkpoints.checkpoint_at(1, 0)
    assert [id_at(checkpoints, epoch, epoch * 100) for epoch in (2, 3)] == [1, None]


def test_a_long_log_is_folded_without_an_interval() -> None:
    checkpoints = coordinator(last_epoch=7, fold_after_epochs=3)
    marks = [checkpoints.checkpoint_at(epoch, 0) for epoch in (8, 9, 10)]
    assert [mark and (mark.checkpoint_id, mark.trigger) for mark in marks] == [None, None, (1, "log length")]
    checkpoints.completed(1, 0)
    assert [id_at(checkpoints, epoch, 0) for epoch in (11, 12, 13)] == [None, None, 2], "counted anew"


def test_a_log_of_many_bytes_is_folded_without_an_interval() -> None:
    checkpoints = coordinator(fold_after_bytes=1000)
    checkpoints.resume(next_id=1, last_epoch=0, log_bytes=600)
    assert id_at(checkpoints, 1, 0) is None
    checkpoints.sealed(1, 399)
    assert id_at(checkpoints, 2, 0) is None
    checkpoints.sealed(2, 1)
    assert id_at(checkpoints, 3, 0) == 1
    checkpoints.completed(1, 0)
    checkpoints.sealed(3, 999)
    assert id_at(checkpoints, 4, 0) is None, "counted anew"


def test_a_log_of_many_bytes_within_manifests_is_folded_sooner() -> None:
    checkpoints = coordinator(fold_after_bytes=1000, fold_after_inlined=100)
    checkpoints.resume(next_id=1, last_epoch=0, log_bytes=600, inlined_bytes=60)
    assert id_at(checkpoints, 1, 0) is None
    checkpoints.sealed(1, 60, 39)
    assert id_at(checkpoints, 2, 0) is None
    checkpoints.sealed(2, 1, 1)
    assert id_at(checkpoints, 3, 0) == 1
    checkpoints.completed(1, 0)
    checkpoints.sealed(3, 900, 99)
    assert id_at(checkpoints, 4, 0) is None, "counted anew"


# On demand ----------------------------------------------------------------------------------------------------------


def test_demand_overrides_interval_and_pause_but_not_concurrency() -> None:
    checkpoints = CheckpointCoordinator(CheckpointConfig().set_min_pause_between_checkpoints(10_000))
    checkpoints.request()
    assert id_at(checkpoints, 1, 0) == 1
    checkpoints.request()
    assert id_at(checkpoints, 2, 1) is None
    checkpoints.completed(1, 2)
    assert id_at(checkpoints, 3, 3) == 2


def test_requests_of_people_come_first_and_each_gets_its_own() -> None:
    checkpoints = coordinator(100)
    checkpoints.checkpoint_at(1, 0)
    checkpoints.request(CheckpointRequest("ann"))
    checkpoints.request(CheckpointRequest("bob", full=True))
    marks = []
    for epoch in (2, 3, 4, 5):
        mark = checkpoints.checkpoint_at(epoch, 200)
        if mark is not None:
            checkpoints.completed(mark.checkpoint_id, 200)
        marks.append(mark and (mark.trigger, mark.full))
    assert marks == [("ann", False), ("bob", True), ("coordinator", False), None]


def test_a_waiting_caller_learns_of_the_end() -> None:
    ends: list[PendingCheckpoint | None] = []
    checkpoints = coordinator()
    checkpoints.request(CheckpointRequest(tell=ends.append))
    assert id_at(checkpoints, 1, 5) == 1
    assert ends == []
    checkpoints.completed(1, 9)
    (checkpoint,) = ends
    assert checkpoint is not None
    assert checkpoint.end is not None
    assert (checkpoint.checkpoint_id, checkpoint.epoch, checkpoint.began_ms, checkpoint.end.at_ms) == (1, 1, 5, 9)


def test_an_end_of_the_driver_answers_all_waiting_callers() -> None:
    ends: list[PendingCheckpoint | None] = []
    checkpoints = coordinator()
    for _ in range(3):
        checkpoints.request(CheckpointRequest(tell=ends.append))
    checkpoints.checkpoint_at(1, 0)
    checkpoints.request(CheckpointRequest(tell=ends.append))
    checkpoints.shut_down(7)
    assert [checkpoint and checkpoint.checkpoint_id for checkpoint in ends] == [1, None, None, None]
    assert ends[0] is not None
    assert ends[0].end is not None
    assert ends[0].end.reason is FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
    assert checkpoints.error is None


def test_a_request_that_is_too_late_or_one_too_many_is_answered() -> None:
    ends: list[PendingCheckpoint | None] = []
    checkpoints = coordinator()
    for _ in range(MAX_QUEUED):
        checkpoints.request()
    checkpoints.request(CheckpointRequest(tell=ends.append))
    assert id_at(checkpoints, 1, 0) == 1
    assert ends == [None], "the queue is full"
    checkpoints.shut_down(0)
    checkpoints.request(CheckpointRequest(tell=ends.append))
    assert ends == [None, None], "the driver has ended"


def test_a_caller_that_waits_for_a_subsumed_checkpoint_learns_of_it() -> None:
    ends: list[PendingCheckpoint | None] = []
    checkpoints = CheckpointCoordinator(CheckpointConfig().set_max_concurrent_checkpoints(2))
    checkpoints.request(CheckpointRequest(tell=ends.append))
    checkpoints.request()
    assert [id_at(checkpoints, epoch, 0) for epoch in (1, 2)] == [1, 2]
    checkpoints.completed(2, 5)
    [checkpoint] = ends
    assert checkpoint is not None
    assert checkpoint.end == End(5, FailureReason.CHECKPOINT_SUBSUMED)


def test_an_idle_job_seals_an_epoch_for_a_request() -> None:
    checkpoints = CheckpointCoordinator(CheckpointConfig().set_min_pause_between_checkpoints(10_000))
    assert not checkpoints.wants_epoch(0)
    checkpoints.request()
    assert checkpoints.wants_epoch(0)
    assert id_at(checkpoints, 1, 0) == 1
    checkpoints.request()
    assert not checkpoints.wants_epoch(1), "one is under way"
    checkpoints.completed(1, 2)
    assert checkpoints.wants_epoch(3), "the pause applies to the interval only"


def test_an_idle_job_seals_an_epoch_for_those_that_no_checkpoint_covers() -> None:
    checkpoints = CheckpointCoordinator(config(100).set_min_pause_between_checkpoints(200))
    checkpoints.checkpoint_at(1, 0)
    checkpoints.sealed(1, 0)
    assert not checkpoints.wants_epoch(99)
    assert checkpoints.wants_epoch(100)
    assert id_at(checkpoints, 2, 100) == 1
    checkpoints.sealed(2, 0)
    checkpoints.completed(1, 150)
    assert not checkpoints.wants_epoch(9999), "nothing is new"
    checkpoints.checkpoint_at(3, 151)
    checkpoints.sealed(3, 0)
    assert not checkpoints.wants_epoch(349), "the pause"
    assert checkpoints.wants_epoch(350)


def test_an_idle_job_tries_again_what_came_to_nothing() -> None:
    checkpoints = coordinator(100)
    checkpoints.checkpoint_at(1, 0)
    checkpoints.sealed(1, 0)
    assert id_at(checkpoints, 2, 100) == 1
    checkpoints.sealed(2, 0)
    assert not checkpoints.wants_epoch(250), "one is under way"
    checkpoints.failed(1, 250, FAILED)
    assert checkpoints.wants_epoch(250)
    assert id_at(checkpoints, 3, 250) == 2
    checkpoints.sealed(3, 0)
    checkpoints.completed(2, 300)
    assert not checkpoints.wants_epoch(9999)


def test_an_idle_job_that_was_started_again_covers_what_its_predecessor_sealed() -> None:
    checkpoints = CheckpointCoordinator(config(100))
    checkpoints.resume(next_id=4, last_epoch=3, newest_epoch=7, now_ms=1000)
    assert not checkpoints.wants_epoch(1099), "the interval begins with the start"
    assert checkpoints.wants_epoch(1100)
    assert id_at(checkpoints, 9, 1100) == 4
    checkpoints.sealed(9, 0)
    checkpoints.completed(4, 1200)
    assert not checkpoints.wants_epoch(9999)


def test_an_idle_job_that_was_started_again_leaves_what_is_covered() -> None:
    checkpoints = CheckpointCoordinator(config(100))
    checkpoints.resume(next_id=4, last_epoch=3, newest_epoch=3, now_ms=1000)
    assert not checkpoints.wants_epoch(9999)
    assert id_at(checkpoints, 5, 9999) is None, "the interval begins with the first epoch"


def test_a_long_log_waits_for_the_pause_and_for_its_turn() -> None:
    settings = CheckpointConfig().set_min_pause_between_checkpoints(1000)
    checkpoints = CheckpointCoordinator(settings, fold_after_epochs=1)
    assert id_at(checkpoints, 1, 0) == 1
    assert id_at(checkpoints, 2, 0) is None, "one is under way"
    checkpoints.completed(1, 10)
    assert id_at(checkpoints, 3, 1009) is None
    assert id_at(checkpoints, 4, 1010) == 2


def test_ids_never_go_back() -> None:
    checkpoints = coordinator(next_id=5)
    checkpoints.resume(next_id=3, last_epoch=0)
    checkpoints.request()
    assert id_at(checkpoints, 1, 0) == 5


# Progress -----------------------------------------------------------------------------------------------------------


def under_way(*, concurrent: int = 1, interval: int = 10) -> CheckpointCoordinator:
    checkpoints = CheckpointCoordinator(config(interval).set_max_concurrent_checkpoints(concurrent))
    checkpoints.checkpoint_at(1, 0)
    for epoch in range(2, 2 + concurrent):
        mark = id_at(checkpoints, epoch, epoch * 1000)
        assert mark == epoch - 1
    return checkpoints


def test_news_twice_late_or_of_nothing_known_are_answers() -> None:
    checkpoints = under_way()
    assert checkpoints.acknowledged(1, 1) is Answer.SUCCESS
    assert checkpoints.acknowledged(1, 2) is Answer.DUPLICATE
    assert checkpoints.acknowledged(9, 2) is Answer.UNKNOWN
    assert checkpoints.completed(9, 2) is Answer.UNKNOWN
    assert checkpoints.completed(1, 3) is Answer.SUCCESS
    assert checkpoints.completed(1, 4) is Answer.DUPLICATE
    assert checkpoints.failed(1, 5, FAILED) is Answer.DISCARDED
    assert checkpoints.error is None, "a failure after the end is ignored"
    assert checkpoints.acknowledged(1, 6) is Answer.DISCARDED
    assert checkpoints.pending == ()


def test_what_ended_long_ago_is_unknown() -> None:
    checkpoints = coordinator()
    for epoch in range(1, REMEMBERED + 2):
        checkpoints.request()
        mark = id_at(checkpoints, epoch, 0)
        assert mark is not None
        checkpoints.completed(mark, 0)
    assert checkpoints.completed(1, 0) is Answer.UNKNOWN
    assert checkpoints.completed(2, 0) is Answer.DUPLICATE


def test_a_later_completion_subsumes_an_earlier_pending_one() -> None:
    checkpoints = under_way(concurrent=3)
    assert checkpoints.completed(2, 5) is Answer.SUCCESS
    assert [pending.checkpoint_id for pending in checkpoints.pending] == [3]
    assert checkpoints.failed(1, 6, FailureReason.CHECKPOINT_SUBSUMED) is Answer.DUPLICATE
    assert checkpoints.completed(1, 6) is Answer.DISCARDED
    assert checkpoints.error is None


def test_an_epoch_that_is_not_sealed_declines_its_checkpoint() -> None:
    checkpoints = under_way()
    assert checkpoints.declined(1, 5, "it broke") is Answer.SUCCESS
    assert checkpoints.declined(1, 6, "again") is Answer.DUPLICATE
    assert checkpoints.error is not None
    assert "it broke" in checkpoints.error.message
    assert id_at(checkpoints, 2, 2010) == 2, "the epoch runs again under another id"


def test_what_takes_too_long_is_overdue() -> None:
    checkpoints = CheckpointCoordinator(config(10).set_checkpoint_timeout(500))
    checkpoints.checkpoint_at(1, 0)
    assert id_at(checkpoints, 2, 1000) == 1
    checkpoints.acknowledged(1, 1100)
    assert checkpoints.overdue(1499) == []
    assert checkpoints.overdue(1500) == [1], "counted from the mark"
    checkpoints.failed(1, 1500, FailureReason.CHECKPOINT_EXPIRED)
    assert checkpoints.overdue(9999) == []
    assert checkpoints.completed(1, 1501) is Answer.DISCARDED


# Failures -----------------------------------------------------------------------------------------------------------

COUNTED = [FAILED, FailureReason.CHECKPOINT_DECLINED, FailureReason.CHECKPOINT_EXPIRED]
NOT_COUNTED = [FailureReason.CHECKPOINT_SUBSUMED, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN]


def fail(checkpoints: CheckpointCoordinator, reason: FailureReason, times: int, first: int = 2) -> None:
    for epoch in range(first, first + times):
        mark = id_at(checkpoints, epoch, epoch * 1000)
        assert mark is not None
        checkpoints.failed(mark, epoch * 1000, reason, "disk full")


@pytest.mark.parametrize("reason", COUNTED)
@pytest.mark.parametrize("tolerable", [0, 2])
def test_beyond_the_tolerable_failures_the_job_fails(reason: FailureReason, tolerable: int) -> None:
    checkpoints = CheckpointCoordinator(config(10).set_tolerable_checkpoint_failure_number(tolerable))
    checkpoints.checkpoint_at(1, 0)
    fail(checkpoints, reason, tolerable)
    assert checkpoints.error is None
    fail(checkpoints, reason, 1, first=20)
    assert isinstance(checkpoints.error, CheckpointFailuresError)
    assert f"{tolerable + 1} checkpoints in a row" in checkpoints.error.message
    assert "disk full" in checkpoints.error.message


def test_one_failure_that_is_reported_twice_counts_once() -> None:
    checkpoints = CheckpointCoordinator(config(10).set_tolerable_checkpoint_failure_number(1))
    checkpoints.checkpoint_at(1, 0)
    fail(checkpoints, FAILED, 1)
    assert checkpoints.failed(1, 9, FAILED) is Answer.DUPLICATE
    assert checkpoints.failed(1, 9, FailureReason.CHECKPOINT_EXPIRED) is Answer.DISCARDED
    assert checkpoints.failed(77, 9, FAILED) is Answer.UNKNOWN
    assert checkpoints.error is None


@pytest.mark.parametrize("reason", NOT_COUNTED)
def test_an_end_that_is_no_failure_does_not_count(reason: FailureReason) -> None:
    checkpoints = coordinator(10)
    checkpoints.checkpoint_at(1, 0)
    fail(checkpoints, reason, 5)
    assert checkpoints.error is None


def test_a_completed_one_ends_the_row() -> None:
    checkpoints = CheckpointCoordinator(config(10).set_tolerable_checkpoint_failure_number(1))
    checkpoints.checkpoint_at(1, 0)
    fail(checkpoints, FAILED, 1)
    mark = id_at(checkpoints, 10, 10_000)
    assert mark is not None
    checkpoints.completed(mark, 10_000)
    fail(checkpoints, FAILED, 1, first=20)
    assert checkpoints.error is None


@pytest.mark.parametrize(
    "settings", [CheckpointConfig(), config(10).set_fail_on_checkpointing_errors(False)], ids=["off", "any number"]
)
def test_some_jobs_tolerate_any_number(settings: CheckpointConfig) -> None:
    checkpoints = CheckpointCoordinator(settings)
    for epoch in range(1, 50):
        checkpoints.request()
        mark = id_at(checkpoints, epoch, epoch)
        assert mark is not None
        checkpoints.failed(mark, epoch, FAILED)
    assert checkpoints.error is None


def test_to_fail_on_errors_means_to_tolerate_none() -> None:
    settings = config(10).set_fail_on_checkpointing_errors(False)
    assert not settings.is_fail_on_checkpointing_errors()
    checkpoints = CheckpointCoordinator(settings.set_fail_on_checkpointing_errors(True))
    checkpoints.checkpoint_at(1, 0)
    fail(checkpoints, FAILED, 1)
    assert checkpoints.error is not None


# What cannot be requested --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setter", "wrong"),
    [
        (CheckpointConfig.set_checkpoint_interval, 9),
        (CheckpointConfig.set_checkpoint_timeout, 9),
        (CheckpointConfig.set_min_pause_between_checkpoints, -1),
        (CheckpointConfig.set_max_concurrent_checkpoints, 0),
        (CheckpointConfig.set_tolerable_checkpoint_failure_number, -1),
        (CheckpointConfig.set_checkpoint_interval, 10.5),
        (CheckpointConfig.set_checkpoint_timeout, True),
        (CheckpointConfig.set_checkpointing_mode, "exactly_once"),
        (CheckpointConfig.set_externalized_checkpoint_retention, 7),
    ],
)
def test_refuses_senseless_settings(setter: Callable[..., object], wrong: object) -> None:
    with pytest.raises(JobDefinitionError, match=r"Give (a whole number of at least|one of) \w+"):
        setter(CheckpointConfig(), wrong)
