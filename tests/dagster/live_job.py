"""A job for the runner with input that a test feeds: states of several shapes, and timers that never fire.

Any name is a job of its own: the entry point of job `north` is `live_job:build_north`. Input and output are beside the
root, by the name of the job. `truth` computes the results for the same input in a plain loop.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.checkpoint_storage import DATA_INLINE_THRESHOLD

COLUMNS = "n bigint, k string, sub string, v bigint"
TALLY = "n bigint, k string, sub string, times bigint, recent bigint, of_sub bigint"
TOTALS = "n bigint, sub string, total bigint"
RECENT = 3
MAX_PARALLELISM = 64
FAR_MS = 32_503_680_000_000
"""The year 3000: the timer of a key is later than this by the number of the key's last record."""


class Row(NamedTuple):
    """One record; `n` numbers them all."""

    n: int
    k: str
    sub: str
    v: int


def random_rows(count: int, first: int = 0, keys: int = 200) -> list[Row]:
    """Returns records with numbers that follow `first` others."""
    rng = random.Random(first)
    return [
        Row(number, f"k{rng.randrange(keys)}", f"s{rng.randrange(5)}", rng.randrange(100))
        for number in range(first, first + count)
    ]


def input_of(root: str, job: str) -> Path:
    """Returns the folder that a job reads."""
    return Path(root).parent / "in" / job


def tables_of(root: str, job: str) -> Path:
    """Returns the folder of a job's output tables: `tally` and `totals`."""
    return Path(root).parent / "out" / job


class Tally(KeyedProcessFunction):
    """A value, a list, a map and one timer per key."""

    def open(self, runtime_context: Any) -> None:
        self.times = runtime_context.get_state(ValueStateDescriptor("times", Types.LONG()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.by_sub = runtime_context.get_map_state(MapStateDescriptor("by_sub", Types.STRING(), Types.LONG()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        times = (self.times.value() or 0) + 1
        self.times.update(times)
        recent = [*self.recent.get(), value.v][-RECENT:]
        self.recent.update(recent)
        self.by_sub.put(value.sub, (self.by_sub.get(value.sub) or 0) + 1)
        timers, waiting = ctx.timer_service(), self.timer.value()
        if waiting is not None:
            timers.delete_processing_time_timer(waiting)
        timers.register_processing_time_timer(FAR_MS + value.n)
        self.timer.update(FAR_MS + value.n)
        yield value.n, value.k, value.sub, times, sum(recent), self.by_sub.get(value.sub)


class Totals(KeyedProcessFunction):
    """Downstream of `Tally`: a running sum per `sub`."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self.total.value() or 0) + value.times
        self.total.update(total)
        yield value.n, value.sub, total


def build(name: str, spark: Any, root: str, options: Mapping[str, str]) -> Any:
    """Returns the job `name`.

    Args:
        options: `checkpoint_interval_ms` (500), `parallelism` (2), `data_inline_threshold` (the default's).
    """
    from state_engine.spark import DeltaSink, StreamJob

    job = StreamJob(
        name,
        root=root,
        parallelism=int(options.get("parallelism", "2")),
        max_parallelism=MAX_PARALLELISM,
        checkpoint_interval_ms=int(options.get("checkpoint_interval_ms", "500")),
        data_inline_threshold=int(options.get("data_inline_threshold", DATA_INLINE_THRESHOLD)),
    )
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(input_of(root, name)))
    tables = tables_of(root, name)
    tally = job.from_stream(source).key_by("k", order_by=["n"]).process(Tally(), TALLY, uid="tally")
    tally.sink_to(DeltaSink(str(tables / "tally")), uid="tally-out")
    totals = tally.key_by("sub", order_by=["n"]).process(Totals(), TOTALS, uid="totals")
    totals.sink_to(DeltaSink(str(tables / "totals")), uid="totals-out")
    return job


def __getattr__(name: str) -> Callable[..., Any]:
    if not name.startswith("build_"):
        raise AttributeError(name)
    return partial(build, name.removeprefix("build_"))


def truth(rows: Iterable[Row]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Returns what the tables `tally` and `totals` must hold, in the order of `n`, as a plain loop computes them."""
    times: dict[str, int] = {}
    recent: dict[str, list[int]] = {}
    by_sub: dict[tuple[str, str], int] = {}
    total: dict[str, int] = {}
    tally, totals = [], []
    for n, k, sub, v in sorted(rows):
        times[k] = times.get(k, 0) + 1
        recent[k] = [*recent.get(k, []), v][-RECENT:]
        by_sub[k, sub] = by_sub.get((k, sub), 0) + 1
        total[sub] = total.get(sub, 0) + times[k]
        tally.append((n, k, sub, times[k], sum(recent[k]), by_sub[k, sub]))
        totals.append((n, sub, total[sub]))
    return tally, totals
