"""Watermark strategies, as an author writes them."""

from datetime import timedelta
from typing import Any

import pytest

from state_engine.api import Duration, Time, TimestampAssigner, WatermarkStrategy
from state_engine.errors import JobDefinitionError


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.at)


@pytest.mark.parametrize("length", [Duration.of_seconds(5), Time.seconds(5), timedelta(seconds=5)])
def test_the_bound_is_kept_in_milliseconds(length: Any) -> None:
    assert WatermarkStrategy.for_bounded_out_of_orderness(length).out_of_orderness == 5000


def test_a_monotonous_stream_has_no_bound_and_one_without_watermarks_none_at_all() -> None:
    assert WatermarkStrategy.for_monotonous_timestamps().out_of_orderness == 0
    assert WatermarkStrategy.no_watermarks().out_of_orderness is None


def test_each_method_returns_another_strategy() -> None:
    plain = WatermarkStrategy.for_monotonous_timestamps()
    full = plain.with_timestamp_column("at").with_partition_column("p").with_idleness(Duration.of_minutes(1))
    assert (full.timestamp, full.partition, full.idle_after) == ("at", "p", 60_000)
    assert (plain.timestamp, plain.partition, plain.idle_after) == (None, None, None)


def test_the_last_way_to_find_the_time_counts() -> None:
    assigner = Assigner()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    strategy = strategy.with_timestamp_assigner(assigner)
    assert (strategy.timestamp, strategy.assigner) == (None, assigner)
    strategy = strategy.with_timestamp_column("at")
    assert (strategy.timestamp, strategy.assigner) == ("at", None)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: WatermarkStrategy.for_bounded_out_of_orderness(5000),  # type: ignore[arg-type]
        lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1)),
        lambda: WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(0)),
        lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value.at),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_length_or_no_assigner_is_refused(wrong: Any) -> None:
    with pytest.raises(JobDefinitionError):
        wrong()
