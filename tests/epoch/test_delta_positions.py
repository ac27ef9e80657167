"""What becomes of a position in a Delta table when the table has changed."""

import json

import pytest

from state_engine.epoch.delta_positions import DeltaPosition, TableState, check_files, check_table, position_of
from state_engine.errors import SourcePositionLostError
from state_engine.log.source_records import SourcePosition

BEFORE_5 = DeltaPosition("mine", version=5, last_file=-1, in_snapshot=False)
IN_5 = BEFORE_5._replace(last_file=3)
IN_SNAPSHOT_5 = BEFORE_5._replace(in_snapshot=True)


def check(position: DeltaPosition, found: TableState | None, *, loss_allowed: bool = False) -> None:
    check_table(2, "/in", position, found, loss_allowed=loss_allowed)


@pytest.mark.parametrize(
    ("position", "newest"),
    [(BEFORE_5, 4), (BEFORE_5, 5), (BEFORE_5, 9), (IN_5, 5), (IN_5, 9), (IN_SNAPSHOT_5, 5), (IN_SNAPSHOT_5, 9)],
)
def test_a_table_that_has_what_is_needed(position: DeltaPosition, newest: int) -> None:
    check(position, TableState("mine", newest, has_next=True))


@pytest.mark.parametrize(
    ("position", "found", "said"),
    [
        (BEFORE_5, None, "Source 2: the Delta table at /in does not exist"),
        (BEFORE_5, TableState("other", 9, True), "has the id other, but the position belongs to table mine"),
        (BEFORE_5, TableState("mine", 3, True), "ends with version 3, before the position in version 5: an older copy"),
        (IN_5, TableState("mine", 4, True), "ends with version 4, before the position"),
        (IN_SNAPSHOT_5, TableState("mine", 4, True), "ends with version 4, before the position"),
        (BEFORE_5, TableState("mine", 9, False), r"no longer has version 5, .* \(delta.logRetentionDuration\)"),
        (IN_SNAPSHOT_5, TableState("mine", 9, False), r"cannot rebuild version 5, .* \(delta.logRetentionDuration\)"),
        (BEFORE_5._replace(last_file=-20), TableState("mine", 4, True), "ends with version 4, before the position"),
    ],
    ids=[
        "gone",
        "another",
        "older",
        "older, inside",
        "older, in the snapshot",
        "cleaned",
        "cleaned, in the snapshot",
        "schema",
    ],
)
def test_a_table_that_has_lost_something_is_named(position: DeltaPosition, found: TableState, said: str) -> None:
    with pytest.raises(SourcePositionLostError, match=said) as raised:
        check(position, found)
    assert "begin a job with another name" in raised.value.action


def test_commits_that_are_gone_may_be_given_up_and_another_table_may_not() -> None:
    check(BEFORE_5, TableState("mine", 9, has_next=False), loss_allowed=True)
    with pytest.raises(SourcePositionLostError, match="cannot rebuild"):
        check(IN_SNAPSHOT_5, TableState("mine", 9, has_next=False), loss_allowed=True)
    for found in (None, TableState("other", 9, has_next=True), TableState("mine", 3, has_next=True)):
        with pytest.raises(SourcePositionLostError):
            check(BEFORE_5, found, loss_allowed=True)


@pytest.mark.parametrize(
    ("position", "newest", "commits"),
    [(BEFORE_5, 4, []), (BEFORE_5, 6, [5, 6]), (IN_5, 6, [5, 6]), (IN_SNAPSHOT_5, 5, []), (IN_SNAPSHOT_5, 7, [6, 7])],
)
def test_which_commits_are_read(position: DeltaPosition, newest: int, commits: list[int]) -> None:
    assert list(position.commits(newest)) == commits


def test_positions_as_delta_writes_them() -> None:
    offset = {"sourceVersion": 1, "reservoirId": "mine", "reservoirVersion": 5, "index": 3, "isStartingVersion": False}
    assert position_of(SourcePosition(offset=json.dumps(offset))) == IN_5


def test_missing_files_are_counted_and_some_are_shown() -> None:
    check_files(2, "/in", [])
    with pytest.raises(SourcePositionLostError, match=r"no longer has 5 data files .*: a, b, c and 2 more; ") as raised:
        check_files(2, "/in", list("abcde"))
    assert "spark.sql.files.ignoreMissingFiles" in raised.value.action
