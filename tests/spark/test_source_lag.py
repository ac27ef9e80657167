"""How far sources are behind, from what Spark tells. No JVM."""

from typing import Any

import pytest

from state_engine.spark.driver.source_lag import EndOffsets, SourceLag, SourceLags
from state_engine.testing.manual import ManualClock

KAFKA = {"endOffset": '{"in":{"0":5,"1":7}}', "latestOffset": '{"in":{"0":9,"1":7,"2":3}}'}


def progress(*sources: dict[str, Any], at: str = "2026-11-30T10:00:00.000Z") -> dict[str, Any]:
    return {"timestamp": at, "sources": list(sources)}


def lags(*sources: dict[str, Any], limited: bool = True) -> tuple[SourceLag, ...]:
    names = [f"s{number}" for number in range(len(sources))]
    return SourceLags(names, [limited] * len(names), ManualClock()).look(progress(*sources))


def test_partitions_are_added_and_new_ones_count_in_full() -> None:
    assert lags(KAFKA) == (SourceLag("s0", 4 + 3, 0.0),)


def test_offsets_may_be_objects_and_a_position_ahead_is_no_lag() -> None:
    assert lags({"endOffset": {"in": {"0": 9}}, "latestOffset": {"in": {"0": 5}}}) == (SourceLag("s0", 0, 0.0),)


def test_before_the_first_batch_everything_is_ahead_of_the_job() -> None:
    assert lags({"endOffset": None, "latestOffset": '{"in":{"0":5}}'}) == (SourceLag("s0", 5, 0.0),)


def test_sources_without_such_offsets_are_unknown() -> None:
    others = [{"endOffset": '{"logOffset":3}', "latestOffset": None}, {"endOffset": "7", "latestOffset": "9"}, {}]
    delta = {"endOffset": '{"reservoirVersion":3,"index":1}', "latestOffset": '{"reservoirVersion":4}'}
    assert [(lag.records, lag.seconds) for lag in lags(*others, delta)] == [(None, None)] * 4
    unknown = (SourceLag("clicks", None, None),)
    assert SourceLags(["clicks"], [True], ManualClock()).look(None) == unknown
    assert SourceLags(["clicks"], [True], ManualClock()).look(progress()) == unknown


def test_without_a_limit_nothing_is_known() -> None:
    assert lags(KAFKA, limited=False) == (SourceLag("s0", None, None),)


def test_seconds_count_from_when_the_oldest_unread_record_was_first_seen() -> None:
    followed = SourceLags(["clicks"], [True], ManualClock())

    def seconds(at: str, position: int, end: int) -> float | None:
        told = {"endOffset": f'{{"in":{{"0":{position}}}}}', "latestOffset": f'{{"in":{{"0":{end}}}}}'}
        [lag] = followed.look(progress(told, at=f"2026-11-30T10:{at}Z"))
        assert lag.records == end - position
        return lag.seconds

    assert seconds("00:00.000", 0, 0) == 0
    assert seconds("00:10.000", 0, 100) == 0, "the records have just come"
    assert seconds("00:20.500", 50, 200) == 10.5
    assert seconds("00:30.500", 100, 200) == 10, "record 100 came with the second look"
    assert seconds("00:40.500", 199, 200) == 20
    assert seconds("00:50.500", 200, 200) == 0


def test_a_partition_that_lags_alone_counts() -> None:
    ends = EndOffsets()
    assert ends.seconds_behind(0, {}, {("in", "0"): 5, ("in", "1"): 5}) == 0
    assert ends.seconds_behind(60_000, {("in", "0"): 90}, {("in", "0"): 100, ("in", "1"): 5}) == 60


@pytest.mark.parametrize("looks", [100, 600, 5_000, 50_000])
def test_notes_stay_few_and_an_old_lag_stays_known(looks: int) -> None:
    ends = EndOffsets()
    for number in range(looks):
        seconds = ends.seconds_behind(5_000 * number, {("in", "0"): 5}, {("in", "0"): 10 * (number + 1)})
        assert seconds == 5 * number
        assert len(ends._notes) <= 512


@pytest.mark.parametrize("behind_s", [5, 60, 3_600])
def test_a_steady_lag_is_known_also_after_days(behind_s: int) -> None:
    """One record a second, of which the job is always the same time behind."""
    ends = EndOffsets()
    for at_s in range(0, 2 * 86_400, 5):
        position = {("in", "0"): max(0, at_s - behind_s)}
        seconds = ends.seconds_behind(1_000 * at_s, position, {("in", "0"): at_s})
        wanted = min(behind_s, at_s)
        assert max(0, wanted - 5 - wanted / 100) <= seconds <= wanted


def test_what_is_read_is_forgotten() -> None:
    ends = EndOffsets()
    for number in range(2_000):
        ends.seconds_behind(5_000 * number, {}, {("in", "0"): 10 * (number + 1)})
    assert ends._every_ms > 5_000
    assert ends.seconds_behind(20_000_000, {("in", "0"): 20_000}, {("in", "0"): 20_000}) == 0
    assert (ends._notes, ends._every_ms) == ([], 5_000)


def test_looks_are_five_seconds_apart_and_only_where_there_is_something_to_see() -> None:
    clock = ManualClock()
    followed, unlimited = SourceLags(["a"], [True], clock), SourceLags(["a"], [False], clock)
    due = []
    for _ in range(12):
        due.append(followed.is_due())
        assert not unlimited.is_due()
        clock.advance(1_000)
    assert due == [number % 5 == 0 for number in range(12)]
