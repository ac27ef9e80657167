"""Broadcast streams: each record goes to every subtask of the next operator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import COUNTS, Count, Folders, by_n, counted, run_all

from state_engine.api import CoProcessFunction, ProcessFunction
from state_engine.errors import UnsupportedTopologyError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

SEEN = "n bigint, side string, subtask bigint"


class Where(ProcessFunction):
    """Emits which subtask processes a record."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, "only", self.subtask


class WhereOfTwo(CoProcessFunction):
    """The same, for two inputs."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, "one", self.subtask

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.number, "two", self.subtask


def test_every_subtask_gets_every_record_of_a_source_and_of_an_operator(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(2, 2)
    job = StreamJob("everywhere", root=str(tmp_path / "root"), parallelism=3)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    first = one.select("n", "k").union(two.where("v > 0").select("n", "k")).broadcast()
    seen = first.process(Where(), SEEN, uid="first")
    seen.sink_to(MemorySink("everywhere"), uid="out")
    again = seen.where("subtask = 0").broadcast().select("n").process(Where(), SEEN, uid="second")
    again.sink_to(MemorySink("everywhere-again"), uid="again")
    client = run_all(job)
    assert client.spark_jobs == len(client.epochs) == 2
    numbers = sorted([row.n for row in folders.inputs[0].all] + [row.n for row in folders.inputs[1].all if row.v > 0])
    expected = [(n, "only", subtask) for n in numbers for subtask in range(3)]
    assert by_n(MemorySink("everywhere").rows()) == expected
    assert by_n(MemorySink("everywhere-again").rows()) == expected


@pytest.mark.parametrize("parallelism", [3, pytest.param(1, marks=pytest.mark.long)])
def test_one_of_two_inputs_is_broadcast(spark, tmp_path: Path, parallelism: int) -> None:
    folders, name = Folders(tmp_path, 2), f"one-of-two-{parallelism}"
    folders.add(1, 1)
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=parallelism)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    both = one.connect(two.select("n as number", "v").broadcast()).process(WhereOfTwo(), SEEN, uid="both")
    both.sink_to(MemorySink(name), uid="out")
    run_all(job)
    rows = by_n(MemorySink(name).rows())
    assert [row[0] for row in rows if row[1] == "one"] == [row.n for row in folders.inputs[0].all]
    assert [row for row in rows if row[1] == "two"] == [
        (row.n, "two", subtask) for row in folders.inputs[1].all for subtask in range(parallelism)
    ]


def test_a_key_takes_it_back(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 1)
    folders.add(1)
    job = StreamJob("taken-back", root=str(tmp_path / "root"), parallelism=3)
    keyed = job.from_stream(folders.inputs[0].stream(spark)).broadcast().key_by("k", order_by=["n"])
    keyed.process(Count(), COUNTS, uid="count").sink_to(MemorySink("taken-back"), uid="out")
    run_all(job)
    assert by_n(MemorySink("taken-back").rows()) == counted(folders.all)


def test_what_cannot_be_broadcast(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    job = StreamJob("refused", root=str(tmp_path / "root"))
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    for build in (lambda: one.union(two.broadcast()), lambda: one.broadcast().union(two)):
        with pytest.raises(UnsupportedTopologyError, match="broadcast stream and one that is not") as caught:
            build()
        assert "after union()" in caught.value.action
