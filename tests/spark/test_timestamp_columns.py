"""Event times from columns, in milliseconds: the same in every time zone of a session."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from state_engine.api import WatermarkStrategy
from state_engine.spark.graph.timing import timing_columns

pytestmark = pytest.mark.spark
EPOCH = datetime(1970, 1, 1)
MILLISECOND = timedelta(milliseconds=1)
TIMES = {
    "in the hour that is not there": datetime(2026, 3, 29, 2, 30),
    "in the hour that is there twice": datetime(2026, 10, 25, 2, 30, 0, 123_000),
    "before 1970": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "long before, when towns had their own time": datetime(1890, 2, 3, 4, 5, 6, 1),
    "at the beginning": EPOCH,
    "the first": datetime(1, 1, 1),
    "the last": datetime(9999, 12, 31, 23, 59, 59, 999_999),
}


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/St_Johns"])
def zone(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield request.param
    spark.conf.set(name, before)


def event_times(frame: Any) -> Any:
    """Returns a DataFrame of the event times from a column `t`."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
    return frame.selectExpr(*timing_columns(frame, strategy))


def test_timestamps_without_zone_count_as_utc_and_are_cut_off_downwards(spark: Any, zone: str) -> None:
    rng = random.Random(zone)
    some = [datetime(1, 1, 1) + timedelta(microseconds=rng.randrange(9998 * 365 * 86_400 * 10**6)) for _ in range(500)]
    times = [*TIMES.values(), *some]
    frame = event_times(spark.createDataFrame([*((time,) for time in times), (None,)], "t timestamp_ntz"))
    [field] = frame.schema.fields
    assert field.dataType.simpleString() == "bigint"
    assert [time for (time,) in frame.collect()] == [*((time - EPOCH) // MILLISECOND for time in times), None]
    assert "*(1) Project" in frame._jdf.queryExecution().executedPlan().toString(), "Spark compiles it"


def test_other_times_do_not_depend_on_the_zone_either(spark: Any, zone: str) -> None:
    at = int(datetime(2026, 3, 29, 2, 30, tzinfo=UTC).timestamp()) * 1000 + 123
    midnight = int(datetime(2026, 3, 29, tzinfo=UTC).timestamp()) * 1000
    frame = spark.createDataFrame([(at, date(2026, 3, 29))], "at long, day date")
    assert event_times(frame.selectExpr("timestamp_micros(at * 1000 + 999) as t")).first()[0] == at
    assert event_times(frame.selectExpr("day as t")).first()[0] == midnight
    assert event_times(frame.selectExpr("at as t")).first()[0] == at
