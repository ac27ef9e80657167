"""Windows have the same output on RocksDB and on the heap, with sealed changes still in memory or written."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import AggregateFunction, OutputTag, ProcessWindowFunction, Types, ValueStateDescriptor
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.runtime.windows.stream import WindowedStream

COLUMNS = parse_columns_ddl("k string, n bigint")
OUTPUT = "k string, until bigint, times bigint, seen string"
LATE = OutputTag("late")
END = (1 << 63) - 1


class Numbered(ProcessWindowFunction[Any, Any, Any, Any]):
    """Numbers the results of a key."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        number = context.global_state().get_state(ValueStateDescriptor("number", Types.LONG()))
        number.update((number.value() or 0) + 1)
        yield key, context.window().end, number.value(), " ".join(str(getattr(e, "n", e)) for e in elements)


class Sum(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += value.n
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


STREAMS: dict[str, Any] = {
    "lists": lambda s: s(SlidingEventTimeWindows(20, 10)).process(Numbered(), OUTPUT),
    "reduced": lambda s: s(TumblingEventTimeWindows(10)).reduce(lambda a, b: (a.k, a.n + b.n), Numbered(), OUTPUT),
    "sessions": lambda s: s(EventTimeSessionWindows(6)).process(Numbered(), OUTPUT),
    "aggregated": lambda s: s(EventTimeSessionWindows(6)).aggregate(Sum(), Numbered(), output_type=OUTPUT),
    "evicted": lambda s: s(EventTimeSessionWindows(6)).evictor(TimeEvictor(9)).process(Numbered(), OUTPUT),
    "counted": lambda s: s(EventTimeSessionWindows(9)).trigger(PurgingTrigger(CountTrigger(3))).process(
        Numbered(), OUTPUT
    ),
}  # fmt: skip


class WrittenEachEpoch(RocksDBKeyedStateBackend):
    """Writes sealed changes at once, as a worker does."""

    def settle(self) -> None:
        super().settle()
        self.commit("sealed")


def epochs(seed: int) -> list[tuple[int, list[tuple[str, int, int]]]]:
    """Returns watermarks and records, some of which are late."""
    rng = random.Random(seed)
    drawn = []
    for step in range(12):
        records = [(f"k{rng.randrange(4)}", rng.randrange(100), step * 8 + rng.randrange(-30, 16)) for _ in range(7)]
        drawn.append((step * 8 - 6, sorted(records, key=lambda r: r[2])))
    return [*drawn, (END, [])]


def run(windows: str, make_backend: Any, seed: int) -> tuple[list[Any], int]:
    """Returns all rows, and how many rows of state and timers are left."""

    def stream(assigner: Any) -> WindowedStream[Any]:
        made: WindowedStream[Any] = WindowedStream(COLUMNS, assigner, lambda adapter, *_: adapter)
        return made.allowed_lateness(4).side_output_late_data(LATE)

    spec = OperatorSpec(
        uid="op",
        kind="keyed_process",
        function=STREAMS[windows](stream),
        input=COLUMNS,
        key=key_columns(COLUMNS, ["k"]),
        order_by=(),
        output=parse_columns_ddl(OUTPUT),
        side_outputs={"late": COLUMNS},
    )
    operator = operator_of(spec, 0, 1, make_backend)
    backend: Any = operator.backend
    backend.attach((), lambda schema: ())
    operator.open()
    found = []
    for watermark, records in epochs(seed):
        operator.begin(0, watermark, 0)
        batches = [operator.advance()]
        if records:
            arrays = [pa.array([r[i] for r in records]) for i in range(3)]
            batches.append(operator.process(pa.RecordBatch.from_arrays(arrays, names=["k", "n", EVENT_TIME])))
        found += [(tag, row) for batch in batches for tag, rows in batch.items() for row in rows.to_pylist()]
        backend.freeze(0)
        backend.settle()
        backend.attach((), lambda schema: ())
    remaining = sum(s.rows for s in backend.statistics() if s.name != "number")
    backend.close()
    return found, remaining


@pytest.mark.parametrize("kind", [RocksDBKeyedStateBackend, WrittenEachEpoch], ids=["in memory", "written"])
@pytest.mark.parametrize("windows", STREAMS)
def test_rocksdb_gives_what_the_heap_gives(windows: str, kind: Any, tmp_path: Path) -> None:
    for seed in range(3):
        database = LocalDatabase(tmp_path / str(seed), Tuning())
        rows, left = run(windows, lambda *args, at=database: kind(*args, at), seed)
        expected, left_on_heap = run(windows, HeapKeyedStateBackend, seed)
        assert rows == expected
        assert {tag for tag, _ in rows} == {"main", "late"}
        assert left == left_on_heap == 0
