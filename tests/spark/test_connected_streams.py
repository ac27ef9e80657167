"""Two streams in one operator: each has its own columns, and both access the state of their key."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from enrichment import enrich_job
from shared_jobs.connected import PLACES, Pairs, Plain, Several, Sides
from support import COUNTS, Count, Folders, run_all

from state_engine.api import (
    KeyedProcessFunction,
)
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError, UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


@pytest.mark.long  # test_shared_jobs.py has it, too
@pytest.mark.parametrize("parallelism", [3, 1])
def test_two_ordered_inputs_come_in_one_order_and_input_1_first_among_equals(
    spark, tmp_path: Path, parallelism: int
) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(2, 2, rows=40)
    job = StreamJob(f"order-{parallelism}", root=str(tmp_path / "root"), parallelism=parallelism)
    # The source of input 2 comes first in the batch: only the order puts input 1 before it.
    two, one = (job.from_stream(source.stream(spark, per_epoch=2)) for source in folders.inputs)
    one, two = one.select("n", "n div 7 as at", "sub"), two.select("v", "sub as s", "n as number", "n div 7 as since")
    keyed = one.key_by("sub", order_by=["at"]).connect(two.key_by("s", order_by=["since"]))
    keyed.process(Sides(), PLACES, uid="sides").sink_to(MemorySink(job.name), uid="out")
    client = run_all(job)
    assert len(client.epochs) == 1
    subs = {row.n: row.sub for row in folders.all}
    rows = MemorySink(job.name).rows()
    assert len(rows) == len(folders.all)
    for sub in set(subs.values()):
        places = sorted((row["place"], row["n"] // 7, row["side"]) for row in rows if subs[row["n"]] == sub)
        assert [place for place, _, _ in places] == list(range(len(places)))
        assert [rest for _, *rest in places] == sorted(rest for _, *rest in places)


def test_a_function_that_raises_names_input_key_and_record(spark, tmp_path: Path) -> None:
    class Fails(Sides):
        def process_element2(self, value: Any, ctx: Any) -> Any:
            return [(value.number, "two", 1 // (value.number - 25))]

    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    job = StreamJob("co-fails", root=str(tmp_path / "root"), parallelism=2)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    keyed = one.key_by("sub").connect(two.select("n as number", "sub").key_by("sub"))
    keyed.process(Fails(), PLACES, uid="sides").sink_to(MemorySink("co-fails"), uid="out")
    client = job.start(available_now=True)
    with pytest.raises(UserFunctionError, match=r"process_element2\(\) raised ZeroDivisionError") as caught:
        client.await_termination(120)
    sub = next(row.sub for row in folders.all if row.n == 25)
    assert f"Key: {sub!r}. Record: Row(number=25, sub={sub!r})" in str(caught.value)
    assert client.spark_jobs == 1


def test_a_failure_on_one_side_of_a_connect_is_reported_and_not_what_it_poisoned(spark, tmp_path: Path) -> None:
    class Fails(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            raise ValueError("cannot digest this")

    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    job = StreamJob("co-poison", root=str(tmp_path / "root"), parallelism=2)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    counts = one.key_by("sub").process(Count(), COUNTS, uid="good")
    fails = two.key_by("sub").process(Fails(), COUNTS, uid="bad")
    keyed = counts.connect(fails.select("n as number", "k")).key_by("k", "k")
    keyed.process(Sides(), PLACES, uid="sides").sink_to(MemorySink("co-poison"), uid="out")
    client = job.start(available_now=True)
    with pytest.raises(UserFunctionError, match=r"'bad'.*cannot digest this"):
        client.await_termination(120)
    assert MemorySink("co-poison").rows() == []


# What is refused --------------------------------------------------------------------------------------------------


class Two(NamedTuple):
    one: Any
    two: Any


@pytest.fixture
def job(tmp_path: Path) -> StreamJob:
    return StreamJob("refused", root=str(tmp_path / "root"), parallelism=2)


@pytest.fixture
def streams(spark, tmp_path: Path, job: StreamJob) -> Two:
    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    return Two(*(job.from_stream(source.stream(spark)) for source in folders.inputs))


def test_keys_of_two_types(streams: Two) -> None:
    connected = streams.one.connect(streams.two).key_by("k", "v")
    with pytest.raises(JobDefinitionError, match=r"by k \(string\), input 2 by v \(bigint\)") as caught:
        connected.process(Sides(), PLACES, uid="a")
    assert "cast" in caught.value.action
    with pytest.raises(JobDefinitionError, match=r"k, n \(string, bigint\).*k \(string\)"):
        streams.one.key_by("k", "n").connect(streams.two.key_by("k")).process(Sides(), PLACES, uid="a")


def test_orders_of_two_types(streams: Two) -> None:
    connected = streams.one.connect(streams.two).key_by("k", "k", order_by1=["n"], order_by2=["sub"])
    with pytest.raises(JobDefinitionError, match=r"ordered by n \(bigint\), input 2 by sub \(string\)"):
        connected.process(Sides(), PLACES, uid="a")


def test_a_keyed_stream_with_one_that_is_not(streams: Two) -> None:
    with pytest.raises(JobDefinitionError, match="got DataStream"):
        streams.one.key_by("k").connect(streams.two)
    with pytest.raises(JobDefinitionError, match="got KeyedStream"):
        streams.one.connect(streams.two.key_by("k"))


def test_a_stream_with_itself_or_with_one_of_another_job(spark, streams: Two, tmp_path: Path) -> None:
    other = StreamJob("other", root=str(tmp_path)).from_stream(Folders(tmp_path, 1).inputs[0].stream(spark))
    with pytest.raises(JobDefinitionError, match="'refused' and 'other'"):
        streams.one.connect(other)
    with pytest.raises(UnsupportedTopologyError, match="with itself"):
        streams.one.connect(streams.one.where("n > 3"))
    with pytest.raises(UnsupportedTopologyError, match="with itself"):
        streams.one.key_by("k").connect(streams.one.union(streams.two).key_by("k"))


def test_a_source_that_is_taken(streams: Two) -> None:
    streams.one.key_by("k").process(Count(), COUNTS, uid="count")
    with pytest.raises(UnsupportedTopologyError, match="Two operators read the source 'source'"):
        streams.two.connect(streams.one).map(Pairs(), PLACES, uid="pairs")


def test_functions_of_the_wrong_kind(streams: Two) -> None:
    connected = streams.one.connect(streams.two)
    for build, named in (
        (lambda: connected.process(Sides(), PLACES), "Sides"),
        (lambda: connected.key_by("k", "k").process(Plain(), PLACES), "Plain"),
        (lambda: connected.map(Several(), PLACES), "Several"),
        (lambda: connected.flat_map(Several, PLACES), "Several"),
        (lambda: connected.map(lambda row: row, PLACES), "function"),
    ):
        with pytest.raises(JobDefinitionError, match=named) as caught:
            build()
        assert caught.value.action


def test_state_without_key_is_refused(streams: Two) -> None:
    with pytest.raises(JobDefinitionError, match="has no key"):
        streams.one.connect(streams.two).flat_map(Several(), PLACES, uid="several")


def test_a_missing_uid_is_named_after_the_verb(streams: Two) -> None:
    with pytest.warns(UserWarning, match="'co-map-1'"):
        streams.one.connect(streams.two).map(Pairs(), PLACES)


def test_an_empty_epoch_runs_every_subtask_of_a_connected_operator(spark, tmp_path: Path, started) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)
    folders.add(1, 1)
    client = started(enrich_job(spark, folders, root, "co-idle", parallelism=3).start(trigger_interval_ms=200))
    assert [len(o.acks) for o in client.run_idle_epoch().manifest.operators.values()] == [3]
    client.stop()
