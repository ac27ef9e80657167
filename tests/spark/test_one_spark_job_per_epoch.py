"""One epoch is one Spark job, and an operator runs once in it, however many outputs are read."""

import os
from pathlib import Path
from typing import Any

import pytest
from support import NEGATIVE, TALLY, TOTALS, Input, Tally, Totals, by_n, run_all, truth

from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
EPOCHS = 50


def one_more(file: str) -> None:
    """Counts over all workers: one byte per call."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b".")
    os.close(descriptor)


def test_fifty_epochs_are_fifty_jobs_and_each_operator_runs_once(spark, tmp_path: Path) -> None:
    tally_calls, totals_calls = str(tmp_path / "tally-calls"), str(tmp_path / "totals-calls")

    class CountedTally(Tally):
        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(tally_calls)
            return super().process_element(value, ctx)

    class CountedTotals(Totals):
        def process_element(self, value: Any, ctx: Any) -> Any:
            one_more(totals_calls)
            return super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(EPOCHS, rows=20)
    job = StreamJob("fifty", root=str(tmp_path / "root"), parallelism=2)
    tally = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(CountedTally(), TALLY, uid="a")
    sinks = [MemorySink(f"fifty-{name}") for name in ("first", "second", "negative", "totals")]
    tally.sink_to(sinks[0]).sink_to(sinks[1])
    tally.get_side_output(NEGATIVE).sink_to(sinks[2])
    tally.key_by("sub", order_by=["n"]).process(CountedTotals(), TOTALS, uid="b").sink_to(sinks[3])
    client = run_all(job)

    expected = truth(source.all)
    assert len(client.epochs) == EPOCHS
    assert client.spark_jobs == EPOCHS
    assert os.path.getsize(tally_calls) == len(source.all)
    assert os.path.getsize(totals_calls) == len(expected.tally)
    assert [by_n(sink.rows()) for sink in sinks] == [expected.tally, expected.tally, expected.negative, expected.totals]
