"""Timers of functions over batches in jobs: each fires once, over restarts, other parallelisms and the row form."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import Input, newest, run_all

from state_engine.api import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
AHEAD, OUTPUT = 25, "k string, at bigint, records bigint"


class ByBatch(KeyedBatchProcessFunction):
    """Counts the records of a key; a timer for each record reports how many there were."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> None:
        each = keys.distinct
        self.count.put_many(each, pc.add(pc.fill_null(self.count.get_many(each), 0), pa.array(keys.counts())))
        ctx.timer_service().register_event_time_timers(keys, pc.add(keys.times, AHEAD))

    def on_timers(self, keys: Any, timestamps: Any, ctx: Any) -> Any:
        return pa.table({"k": keys.columns[0], "at": timestamps, "records": self.count.get_many(keys)})


class ByRow(KeyedProcessFunction):
    """The row form, with the same state and timers."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + AHEAD)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), timestamp, self.count.value()


FORMS: list[tuple[Any, int]] = [(ByBatch(), 2), (ByBatch(), 3), (ByRow(), 2), (ByBatch(), 1)]


@pytest.mark.long  # `runtime/test_batch_timers.py`
@pytest.mark.parametrize(
    ("files", "backends"),
    [
        (1, ["heap", "rocksdb", "rocksdb", "heap"]),
        pytest.param(2, ["heap"] * 4, marks=pytest.mark.long),
        pytest.param(2, ["rocksdb"] * 4, marks=pytest.mark.long),
    ],
    ids=["both", "heap", "rocksdb"],
)
def test_each_timer_fires_once(spark: Any, tmp_path: Path, files: int, backends: list[str]) -> None:
    source, sink = Input(tmp_path / "in"), MemorySink("timers")
    for number, ((function, parallelism), backend) in enumerate(zip(FORMS, backends, strict=True)):
        source.add_many(files, seed=number + 1)
        ends = number + 1 == len(FORMS)
        job = StreamJob("timers", root=str(tmp_path / "root"), parallelism=parallelism, state_backend=backend)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Time.milliseconds(5)).with_timestamp_column("n")
        stream = job.from_stream(source.stream(spark), bounded=ends).assign_timestamps_and_watermarks(strategy)
        stream.key_by("k").process(function, OUTPUT, uid="timers").sink_to(sink, uid="out")
        run_all(job, parallelism=parallelism)
    rows = sink.rows()
    assert Counter((row["k"], row["at"]) for row in rows) == Counter((row.k, row.n + AHEAD) for row in source.all)
    seen = {row.k: sum(other.k == row.k for other in source.all) for row in source.all}
    assert {row["k"]: row["records"] for row in sorted(rows, key=lambda row: row["at"])} == seen
    assert newest(tmp_path / "root", "timers").timers == {}
