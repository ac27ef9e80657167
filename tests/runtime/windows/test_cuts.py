"""With one ordered input, windows do not depend on where epochs are cut: the watermark follows the records."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import OutputTag, WindowFunction
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.runtime.windows.stream import WindowedStream

COLUMNS = parse_columns_ddl("k string, n bigint")
OUTPUT = "k string, until bigint, seen string"
END = (1 << 63) - 1
STREAMS: dict[str, Any] = {
    "tumbling": lambda stream: stream(TumblingEventTimeWindows(10)),
    "sliding": lambda stream: stream(SlidingEventTimeWindows(10, 4)),
    "sessions": lambda stream: stream(EventTimeSessionWindows(6)),
    "early": lambda stream: stream(TumblingEventTimeWindows(20)).trigger(ContinuousEventTimeTrigger(3)),
}


class Seen(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, window.end, " ".join(str(i.n) for i in inputs)


class Run:
    """An operator with one input, and its bound of out-of-orderness."""

    def __init__(self, windows: str, out_of_orderness: int) -> None:
        stream = STREAMS[windows](lambda assigner: WindowedStream(COLUMNS, assigner, lambda adapter, *_: adapter))
        adapter = stream.side_output_late_data(OutputTag("late")).apply(Seen(), OUTPUT)
        spec = OperatorSpec(
            uid="op",
            kind="keyed_process",
            function=adapter,
            input=COLUMNS,
            key=key_columns(COLUMNS, ["k"]),
            order_by=(),
            output=parse_columns_ddl(OUTPUT),
            side_outputs={"late": COLUMNS},
            out_of_orderness=out_of_orderness,
        )
        self.operator = operator_of(spec, 0, 1)
        self.operator.open()
        self.behind = out_of_orderness
        self.largest: int | None = None
        self.rows: Counter[Any] = Counter()

    def epoch(self, records: list[tuple[str, int, int]], end: bool = False) -> None:
        watermark = END if end else None if self.largest is None else self.largest - self.behind - 2
        self.operator.begin(0, watermark, 0)
        batches = [self.operator.advance()]
        if records:
            ordered = sorted(records, key=lambda r: r[2])
            self.largest = max(ordered[-1][2], ordered[0][2] if self.largest is None else self.largest)
            arrays = [pa.array([r[i] for r in ordered]) for i in range(3)]
            batches.append(self.operator.process(pa.RecordBatch.from_arrays(arrays, names=["k", "n", EVENT_TIME])))
        for batch in batches:
            assert "late" not in batch
            for rows in batch.values():
                self.rows.update(tuple(row.values()) for row in rows.to_pylist())
        assert self.operator.backend is not None
        self.operator.backend.freeze(0)
        self.operator.backend.settle()


@pytest.mark.parametrize("windows", STREAMS)
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data(), behind=st.sampled_from([0, 3, 8]))
def test_one_epoch_or_many(windows: str, behind: int, data: Any) -> None:
    if windows == "early":  # the content of an incomplete window depends on the order of arrival
        behind = 0
    times = sorted(data.draw(st.lists(st.integers(-30, 90), unique=True, max_size=25)))
    records = [(data.draw(st.sampled_from("ab")), n, at) for n, at in enumerate(times)]
    delays = data.draw(st.lists(st.integers(0, behind), min_size=len(records), max_size=len(records)))
    arriving = [r for _, r in sorted(zip(delays, records, strict=True), key=lambda d: d[0] + d[1][2])]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=6)))
    many, one = Run(windows, behind), Run(windows, behind)
    for first, last in zip([0, *cuts], [*cuts, len(records)], strict=True):
        many.epoch(arriving[first:last])
    one.epoch(records)
    for run in (many, one):
        run.epoch([], end=True)
    assert _in_any_order(many.rows) == _in_any_order(one.rows)


def _in_any_order(rows: Counter[Any]) -> Counter[Any]:
    """Sorts the elements of windows: for records out of order, a cut decides the order in which they come."""
    return Counter({(key, until, " ".join(sorted(seen.split()))): n for (key, until, seen), n in rows.items()})
