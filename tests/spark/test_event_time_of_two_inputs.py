"""Event time where two streams meet: the operator has the lower watermark, and its timers fire for both inputs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Folders, Record, newest, run_all

from state_engine.api import Duration, KeyedCoProcessFunction, Types, ValueStateDescriptor, WatermarkStrategy
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
PATIENCE = 15
END = (1 << 63) - 1
FOUND = "of string, at bigint, paid boolean, watermark bigint"


class Settle(KeyedCoProcessFunction):
    """Emits, `PATIENCE` after each order, whether its key was paid for by then, whenever the records were read."""

    def open(self, runtime_context: Any) -> None:
        self.paid_at = runtime_context.get_state(ValueStateDescriptor("paid_at", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + PATIENCE)

    def process_element2(self, value: Any, ctx: Any) -> None:
        known = self.paid_at.value()
        if known is None or ctx.timestamp() < known:
            self.paid_at.update(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        paid_at = self.paid_at.value()
        paid = paid_at is not None and paid_at <= timestamp
        yield ctx.get_current_key(), timestamp - PATIENCE, paid, ctx.timer_service().current_watermark()


def settle_job(spark: Any, folders: Folders, root: Path, name: str, *, bounded: bool, parallelism: int) -> StreamJob:
    job = StreamJob(name, root=str(root), parallelism=parallelism)
    in_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
    orders, payments = (
        job.from_stream(source.stream(spark), bounded=bounded).assign_timestamps_and_watermarks(in_order)
        for source in folders.inputs
    )
    connected = orders.select("n", "k as of").connect(payments).key_by("of", "k")
    connected.process(Settle(), FOUND, uid="settle").sink_to(MemorySink(name), uid="out")
    return job


def expected(folders: Folders) -> list[tuple[Any, ...]]:
    """Computes the expected output by a loop over all records."""
    first_paid: dict[Any, int] = {}
    for row in folders.inputs[1].all:
        first_paid.setdefault(row.k, row.n)
    return sorted((str(row.k), row.n, first_paid.get(row.k, END) <= row.n + PATIENCE) for row in folders.inputs[0].all)


def found(name: str) -> list[tuple[Any, ...]]:
    return sorted((str(row["of"]), row["at"], row["paid"]) for row in MemorySink(name).rows())


@pytest.mark.long  # `epoch/test_watermarks.py` has the least watermark of several inputs
def test_results_do_not_depend_on_how_far_either_input_is_ahead(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)
    orders, payments = folders.inputs
    for first in range(0, 60, 30):  # orders take two files, payments four
        rows = [Record(n, f"k{n * 7 % 11}", "s", 0) for n in range(first, first + 30)]
        orders.add([row for row in rows if row.n % 3])
        for half in (rows[:15], rows[15:]):
            payments.add([row for row in half if row.n % 3 == 0])

    def job(**options: Any) -> StreamJob:
        return settle_job(spark, folders, root, "settle", **options)

    run_all(job(bounded=False, parallelism=2))
    standing = newest(root, "settle").watermarks["settle"]
    assert standing == min(orders.all[-1].n, payments.all[-1].n) - 2
    early = found("settle")
    assert early
    assert max(row["at"] + PATIENCE for row in MemorySink("settle").rows()) <= standing
    run_all(job(bounded=True, parallelism=3))
    assert newest(root, "settle").watermarks["settle"] == END
    assert found("settle") == expected(folders)
    assert {paid for _, _, paid in found("settle")} == {True, False}
    for row in MemorySink("settle").rows():
        assert row["watermark"] >= row["at"] + PATIENCE

    run_all(job(bounded=True, parallelism=1), restore="epoch:1/3")
    assert found("settle") == expected(folders)


def test_records_of_both_come_in_order_of_event_time(spark, tmp_path: Path) -> None:
    class Tell(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> list[Any]:
            return [("1", ctx.timestamp(), True, value.n)]

        def process_element2(self, value: Any, ctx: Any) -> list[Any]:
            return [("2", ctx.timestamp(), True, value.n)]

    folders = Folders(tmp_path, 2)
    folders.add(2, 2, rows=30)
    job = StreamJob("told", root=str(tmp_path / "root"), parallelism=1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("n div 5")
    one, two = (
        job.from_stream(source.stream(spark, per_epoch=2)).assign_timestamps_and_watermarks(strategy)
        for source in folders.inputs
    )
    one.connect(two).key_by("k", "k").process(Tell(), FOUND, uid="tell").sink_to(MemorySink("told"), uid="out")
    run_all(job)
    told = [(row["at"], row["of"]) for row in MemorySink("told").rows()]
    assert told == sorted(told)
    assert sorted(row["watermark"] for row in MemorySink("told").rows()) == [row.n for row in folders.all]
