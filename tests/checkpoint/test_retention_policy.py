import pytest

from state_engine.checkpoint.retention.policy import (
    DAY_MS,
    HOUR_MS,
    WEEK_MS,
    Keep,
    RetentionPolicy,
    expendable_savepoints,
    retained_checkpoints,
)
from state_engine.checkpoint.table import CheckpointRow
from state_engine.errors import JobDefinitionError
from state_engine.log.records import Manifest, Span

NOW = 1_700_000_000_000


def checkpoint(number: int, *, epoch: int | None = None, generation: int = 1, at: int = 0) -> CheckpointRow:
    return CheckpointRow(
        id=str(number), kind="checkpoint", checkpoint_id=number, status="completed", generation=generation,
        epoch=10 * number if epoch is None else epoch, manifest="", triggered_at=at, completed_at=at, duration_ms=0,
    )  # fmt: skip


def savepoint(name: str, trigger: str, at: int, label: str = "") -> CheckpointRow:
    return CheckpointRow(
        id=name, kind="savepoint", status="completed", generation=1, epoch=1, manifest="", triggered_at=at,
        completed_at=at, duration_ms=0, trigger=trigger, label=label,
    )  # fmt: skip


def head(*lineage: Span, epoch: int = 1000, generation: int = 1) -> Manifest:
    return Manifest(
        job="j", generation=generation, epoch=epoch, kind="epoch", incarnation="i", incarnation_number=1,
        predecessor="p", processing_time=0, lineage=lineage or (Span(generation=1, first=1),),
    )  # fmt: skip


def kept(keep: Keep, rows: list[CheckpointRow], at: Manifest | None = None) -> tuple[int | None, list[int]]:
    retained = retained_checkpoints(RetentionPolicy(checkpoints=keep), rows, at or head(), NOW)
    return retained.start.checkpoint_id if retained.start else None, [row.checkpoint_id or 0 for row in retained.others]


@pytest.mark.parametrize(("last", "start"), [(1, 5), (3, 3), (5, 1), (9, 1)])
def test_the_newest_n(last: int, start: int) -> None:
    assert kept(Keep(last=last), [checkpoint(n) for n in (3, 1, 5, 2, 4)]) == (start, [])


def test_those_of_a_time_and_never_less_than_the_newest() -> None:
    rows = [checkpoint(n, at=NOW - (5 - n) * HOUR_MS) for n in range(1, 6)]
    assert kept(Keep(for_ms=2 * HOUR_MS + 1), rows) == (3, [])
    assert kept(Keep(for_ms=1), [checkpoint(1, at=NOW - WEEK_MS)]) == (1, [])


def test_a_clock_that_went_back_does_not_make_the_newest_old() -> None:
    assert kept(Keep(last=1), [checkpoint(1, at=NOW), checkpoint(2, at=NOW - DAY_MS)]) == (2, [])


def test_one_per_hour_day_and_week() -> None:
    hours = [checkpoint(n, at=NOW - (9 - n) * HOUR_MS // 2) for n in range(10)]  # two in each hour
    start, others = kept(Keep(last=1, hourly=3), hours)
    assert start == 9
    assert len(others) == 2, "of the newest hour the newest one is the start itself"
    hour_of = [hours[n].completed_at // HOUR_MS for n in (*others, 9)]
    assert hour_of == [hour_of[-1] - 2, hour_of[-1] - 1, hour_of[-1]]
    days = [checkpoint(n, at=NOW - (40 - n) * DAY_MS) for n in range(40)]
    assert kept(Keep(last=1, daily=4), days)[1] == [36, 37, 38]
    weekly = kept(Keep(last=1, weekly=3), days)[1]
    mondays = [(days[n].completed_at + 3 * DAY_MS) // WEEK_MS for n in (*weekly, 39)]
    assert mondays == sorted(set(mondays))
    assert len(mondays) == 3


def test_what_a_restore_abandoned_stays_until_n_newer_ones_completed() -> None:
    """Generation 2 goes on after epoch 20 of generation 1; checkpoints 3 and 4 are abandoned."""
    line = (Span(generation=1, first=1, last=20), Span(generation=2, first=21))
    at = head(*line, generation=2, epoch=50)
    old = [checkpoint(n) for n in (1, 2, 3, 4)]
    new = [checkpoint(n, generation=2, epoch=20 + n) for n in (5, 6)]
    assert kept(Keep(last=2), old, at) == (1, [3, 4])
    assert kept(Keep(last=2), [*old, new[0]], at) == (2, [3, 4])
    assert kept(Keep(last=2), [*old, *new], at) == (5, [])


def test_without_a_checkpoint_there_is_nothing_to_begin_with() -> None:
    assert kept(Keep(), []) == (None, [])
    assert kept(Keep(), [checkpoint(1, epoch=2000)]) == (None, [1]), "of an epoch that is not on the line"


def test_policies_remove_only_savepoints_that_a_policy_made() -> None:
    rows = [savepoint(f"n{n}", "policy:nightly", NOW - n * DAY_MS) for n in range(4)]
    rows += [savepoint("mine", "user", 0), savepoint("sensor", "dagster", 0)]
    assert expendable_savepoints(RetentionPolicy(), rows, NOW) == set()
    assert expendable_savepoints(RetentionPolicy(savepoints=Keep(last=1)), rows, NOW) == {"n1", "n2", "n3"}
    assert expendable_savepoints(RetentionPolicy(savepoints=Keep(last=0, daily=2)), rows, NOW) == {"n2", "n3"}
    assert expendable_savepoints(RetentionPolicy(savepoints=Keep(last=0)), rows, NOW) == {"n0", "n1", "n2", "n3"}


def test_savepoints_with_pinned_labels_stay_beside_those_that_the_rules_keep() -> None:
    rows = [savepoint(f"n{n}", "policy:nightly", n, label) for n, label in enumerate(["release", "", "before-7", "x"])]
    policy = RetentionPolicy(savepoints=Keep(last=1), pinned_labels=("release", "before-*"))
    assert expendable_savepoints(policy, rows, NOW) == {"n1"}
    assert not policy.pins("")
    assert not policy.pins("released")
    assert not RetentionPolicy().pins("")


def test_a_policy_keeps_at_least_one_checkpoint() -> None:
    with pytest.raises(JobDefinitionError, match="no checkpoint"):
        RetentionPolicy(checkpoints=Keep(last=0))
    with pytest.raises(JobDefinitionError, match="negative"):
        Keep(last=-1)
    with pytest.raises(JobDefinitionError, match="negative"):
        RetentionPolicy(grace_ms=-1)
