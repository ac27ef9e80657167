"""No epoch without records comes between batches that follow each other closely."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state_engine.api import Aggregate, Time, WatermarkStrategy
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.inspect import open_job
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.driver.heartbeat import PATIENCE, Pace
from state_engine.testing.manual import ManualClock

INTERVAL = 200


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pace(clock: ManualClock) -> Pace:
    return Pace(INTERVAL, clock)


def test_nothing_is_expected_of_a_job_that_has_had_no_batch(pace: Pace) -> None:
    assert not pace.expects_batch()


@pytest.mark.parametrize(("took", "waits"), [(0, INTERVAL), (50, INTERVAL), (700, 700), (PATIENCE * INTERVAL, 2000)])
def test_the_next_batch_is_expected_as_long_as_the_last_one_took(
    pace: Pace, clock: ManualClock, took: int, waits: int
) -> None:
    pace.ended(took)
    clock.advance(waits - 1)
    assert pace.expects_batch()
    clock.advance(1)
    assert not pace.expects_batch()


def test_after_a_long_batch_nothing_waits_for_another_one(pace: Pace) -> None:
    pace.ended(PATIENCE * INTERVAL + 1)
    assert not pace.expects_batch()


@pytest.mark.spark
def test_windows_that_every_batch_ends_fire_in_the_next_one(spark: Any, tmp_path: Path) -> None:
    """No epoch is sealed only for them, except for the windows of the last batch."""
    (tmp_path / "in").mkdir()
    epochs = 6
    for n in range(epochs):
        times = [1000 * n + ms for ms in range(0, 1000, 100)]
        path = tmp_path / "in" / f"{n}.parquet"
        pq.write_table(pa.table({"k": [1] * 10, "t": times}), path)
        os.utime(path, (1_600_000_000 + 10 * n,) * 2)  # Spark reads files in order of time
    job = StreamJob("paced", root=str(tmp_path / "root"), parallelism=1, heartbeat_interval_ms=2_000)
    reader = spark.readStream.schema("k bigint, t bigint").option("maxFilesPerTrigger", 1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("t")
    stream = job.from_stream(reader.parquet(str(tmp_path / "in"))).assign_timestamps_and_watermarks(strategy)
    windows = stream.key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
    windows.aggregate({"n": Aggregate.count()}, uid="op").sink_to(MemorySink("paced"), uid="out")
    job.start(spark, available_now=True).await_termination()
    sealed = sorted(
        (one.manifest for one in open_job(str(tmp_path / "root"), "paced").epochs(50)), key=lambda m: m.epoch
    )
    kinds = [manifest.kind for manifest in sealed if manifest.kind in ("epoch", "idle")]
    last = len(kinds) - 1 - kinds[::-1].index("epoch")
    assert kinds[: last + 1] == ["epoch"] * epochs
    assert {row["n"] for row in MemorySink("paced").rows()} == {5}
    assert len(MemorySink("paced").rows()) >= 2 * (epochs - 1) - 1, "all that had ended before the last batch"
