"""A batch without records is an epoch like any other: every subtask runs and acks."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import COUNTS, Count, Input, Record, by_n, counted, newest, run_all, state_of

from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

PIPELINES = {"nothing": "n < 0", "all": "n >= 0", "one-key": "k = 'k3'"}
"""A condition for each source; all read the same files."""


class Ran(NamedTuple):
    """The job's input, its output, and its state root."""

    records: list[Record]
    per_epoch: list[int]
    rows: dict[str, list[Any]]
    root: Path


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Runs one job with a pipeline per condition; the second of its three epochs has no record."""
    folder = tmp_path_factory.mktemp("empty")
    source = Input(folder / "in").add_many(1)
    source.add([])
    source.add_many(1)
    job = StreamJob("empty", root=str(folder / "root"), parallelism=3, max_parallelism=7)
    for uid, condition in PIPELINES.items():
        stream = job.from_stream(source.stream(spark).where(condition)).key_by("k", order_by=["n"])
        stream.process(Count(), COUNTS, uid=uid).sink_to(MemorySink(uid), uid=f"{uid}-out")
    client = run_all(job)
    rows = {uid: by_n(MemorySink(uid).rows()) for uid in PIPELINES}
    return Ran(source.all, [epoch.records for epoch in client.epochs], rows, folder / "root")


def state(ran: Ran, uid: str) -> dict[Any, Any]:
    return state_of(ran.root, "empty", uid, "count")


def test_a_condition_that_nothing_meets(ran: Ran) -> None:
    assert [ack.subtask for ack in newest(ran.root, "empty").operators["nothing"].acks] == [0, 1, 2]
    assert ran.rows["nothing"] == []
    assert state(ran, "nothing") == {}


def test_a_file_without_rows_between_files_with_rows(ran: Ran) -> None:
    of_one_key = [sum(row.k == "k3" for row in ran.records[first : first + 60]) for first in (0, 60)]
    assert ran.per_epoch == [60 + of_one_key[0], 0, 60 + of_one_key[1]]
    assert ran.rows["all"] == counted(ran.records)
    assert state(ran, "all") == {k: times for _, k, times in counted(ran.records)}


def test_all_records_of_one_key(ran: Ran) -> None:
    expected = counted(row for row in ran.records if row.k == "k3")
    assert ran.rows["one-key"] == expected
    assert state(ran, "one-key") == {"k3": len(expected)}
