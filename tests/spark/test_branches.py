"""Operators that several others read, and side outputs with operators: real streams, compared with a loop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from branches import Branches, branch_job, check_state, expected
from support import Input, by_n, run_all, truth

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    WatermarkStrategy,
)
from state_engine.api.windows import TumblingEventTimeWindows, WindowFunction
from state_engine.errors import UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def found(name: str) -> Branches:
    return Branches(*(by_n(MemorySink(f"{name}-{output}").rows()) for output in Branches._fields))


@pytest.mark.long  # test_transformations.py has maps that raise; `epoch/test_operators_that_several_read.py`
def test_a_map_on_one_branch_that_raises_fails_the_epoch(spark, tmp_path: Path) -> None:
    """The other branches also carry the ack of the upstream operator, and that ack reports no failure."""
    source, root = Input(tmp_path / "in").add_many(2), tmp_path / "root"
    unlucky = next(n for n, _, _, times, *_ in truth(source.all).tally if times % 3 == 0 and n >= 60)

    def fails(row: Any) -> Any:
        if row.n == unlucky:
            raise ValueError("no luck")
        return row.n, row.k

    job = branch_job(source.stream(spark), root, "unlucky", mapped=fails)
    client = job.start(available_now=True)
    with pytest.raises(UserFunctionError, match=r"on its output raised ValueError: no luck"):
        client.await_termination(120)
    assert found("unlucky") == expected([row for row in source.all if row.n < unlucky // 60 * 60])
    run_all(branch_job(source.stream(spark), root, "unlucky"))
    assert found("unlucky") == expected(source.all)
    check_state(root, "unlucky", source.all)


LATE = OutputTag("late", "n bigint, k string, sub string, v bigint")
WINDOWS = "k string, start bigint, of string"


class Numbers(WindowFunction[Any, Any, Any, Any]):
    """Emits key, start, and the numbers of the records."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        yield key, window.start, " ".join(str(row.n) for row in inputs)


class Stamp(ProcessFunction):
    """Emits the event time of each record."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, ctx.timestamp()


class Odd(KeyedProcessFunction):
    """Sends odd numbers to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        row = value.n, value.k, value.sub, value.v
        yield (LATE, row) if value.n % 2 else row


def test_both_branches_have_event_times_and_watermarks(spark, tmp_path: Path) -> None:
    source, columns = Input(tmp_path / "in").add_many(2), "n bigint, k string, sub string, v bigint"
    job = StreamJob("timed-branches", root=str(tmp_path / "root"), parallelism=2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
    timed = job.from_stream(source.stream(spark), bounded=True).assign_timestamps_and_watermarks(strategy)
    even = timed.key_by("sub").process(Odd(), columns, uid="split")
    odd = even.get_side_output(LATE)
    for name, branch in (("even", even), ("odd", odd)):
        windows = branch.key_by("k").window(TumblingEventTimeWindows.of(Duration.of_millis(20)))
        windows.apply(Numbers(), WINDOWS, uid=name).sink_to(MemorySink(name), uid=f"{name}-out")
    odd.process(Stamp(), "n bigint, at bigint", uid="stamp").sink_to(MemorySink("stamps"), uid="stamps-out")
    run_all(job)
    for rest, name in enumerate(("even", "odd")):
        wanted: dict[Any, list[int]] = {}
        for row in source.all:
            if row.n % 2 == rest:
                wanted.setdefault((row.k, row.n // 20 * 20), []).append(row.n)
        rows = {(row["k"], row["start"]): row["of"] for row in MemorySink(name).rows()}
        assert len(rows) == len(MemorySink(name).rows())
        assert rows == {window: " ".join(map(str, ns)) for window, ns in wanted.items()}
    assert by_n(MemorySink("stamps").rows()) == [(row.n, row.n) for row in source.all if row.n % 2]
