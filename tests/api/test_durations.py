"""Lengths of time have units, and nothing is rounded silently."""

import datetime
from typing import Any

import pytest

from state_engine.api import Duration, Time
from state_engine.api.durations import as_milliseconds
from state_engine.errors import JobDefinitionError


@pytest.mark.parametrize(
    ("length", "ms"),
    [
        (Time.milliseconds(7), 7),
        (Time.seconds(-2), -2_000),
        (Time.minutes(3), 180_000),
        (Time.hours(-8), -28_800_000),
        (Time.days(1), 86_400_000),
        (Duration.of_nanos(1_999_999), 1),
        (Duration.of_millis(5), 5),
        (Duration.of_seconds(5), 5_000),
        (Duration.of_minutes(5), 300_000),
        (Duration.of_hours(1), 3_600_000),
        (Duration.of_days(2), 172_800_000),
        (datetime.timedelta(minutes=1, milliseconds=1), 60_001),
    ],
)
def test_every_unit_in_milliseconds(length: Any, ms: int) -> None:
    assert as_milliseconds(length, "The size") == ms


@pytest.mark.parametrize("length", [10, 1.5, "10 seconds", None, True])
def test_a_number_without_unit_is_refused(length: Any) -> None:
    with pytest.raises(JobDefinitionError, match=r"The gap .*Time\.seconds"):
        as_milliseconds(length, "The gap")


@pytest.mark.parametrize("make", [Time.seconds, Time.days, Duration.of_seconds, Duration.of_millis, Time])
@pytest.mark.parametrize("number", [0.5, "1", True])
def test_parts_of_a_unit_are_refused(make: Any, number: Any) -> None:
    with pytest.raises(JobDefinitionError, match="whole number"):
        make(number)


def test_equal_lengths_are_equal() -> None:
    assert {Time.seconds(60), Time.minutes(1)} == {Time.milliseconds(60_000)}
    assert {Duration.of_seconds(1), Duration.of_millis(1_000)} == {Duration.of_nanos(10**9)}
    assert Time.seconds(1) != Duration.of_seconds(1)
