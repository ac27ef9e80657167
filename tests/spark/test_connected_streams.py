"""Two streams in one operator: each has its own columns, and both access the state of their key."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from enrichment import UNKNOWN, check_enriched, enrich_job
from support import COUNTS, Count, Folders, by_n, newest, run_all, state_of

from state_engine.api import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError, UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def test_an_enrichment_join_through_restart_restore_and_rescale(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)

    def job(**options: Any) -> StreamJob:
        return enrich_job(spark, folders, root, "enrich", **options)

    folders.add(2, 0, rows=20)  # all of them wait
    run_all(job())
    check_enriched(root, "enrich", folders)
    folders.add(1, 1, rows=6)
    run_all(job(), parallelism=3)
    check_enriched(root, "enrich", folders)
    folders.add(1, 1, rows=20)
    run_all(job())
    check_enriched(root, "enrich", folders)
    labels = folders.inputs[1].all
    assert len(MemorySink("enrich-unknown").rows()) == len(labels) - len({row.k for row in labels})
    run_all(job(), restore="epoch:1/3", parallelism=1)
    assert newest(root, "enrich").generation == 2
    check_enriched(root, "enrich", folders)


class Sides(KeyedCoProcessFunction):
    """Emits each record's place within its key, over both inputs."""

    def open(self, runtime_context: Any) -> None:
        self.place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def _next(self, n: int, side: str) -> list[Any]:
        place = self.place.value() or 0
        self.place.update(place + 1)
        return [(n, side, place)]

    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return self._next(value.n, "one")

    def process_element2(self, value: Any, ctx: Any) -> list[Any]:
        return self._next(value.number, "two")


PLACES = "n bigint, side string, place bigint"


@pytest.mark.parametrize("parallelism", [3, pytest.param(1, marks=pytest.mark.long)])
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


class Threshold(KeyedCoProcessFunction):
    """Emits the counts that are above the newest threshold of their key."""

    def open(self, runtime_context: Any) -> None:
        self.threshold = runtime_context.get_state(ValueStateDescriptor("threshold", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [(value.n, value.k, value.times)] if value.times > (self.threshold.value() or 0) else []

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.threshold.update(value.v)


@pytest.mark.long  # test_branches.py connects outputs of operators; `epoch/test_two_upstream_operators.py`
def test_an_operators_output_connected_with_a_source_and_a_third_operator_after_it(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)

    def job(**options: Any) -> StreamJob:
        job = StreamJob("threshold", root=str(root), **{"parallelism": 2, **options})
        events, rules = (job.from_stream(source.stream(spark)) for source in folders.inputs)
        counts = events.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
        counts.sink_to(MemorySink("threshold-counts"), uid="counts")
        rules = rules.where("v >= 0").select("v % 3 as v", "k as of")
        passed = counts.where("n % 5 <> 0").with_column("n", "n * 2").connect(rules).key_by("k", ["of"])
        above = passed.process(Threshold(), COUNTS, uid="threshold")
        total = (
            above.map(lambda row: (row.n, "all", row.times), COUNTS).key_by("k").process(Count(), COUNTS, uid="last")
        )
        total.sink_to(MemorySink("threshold"), uid="out")
        return job

    folders.add(0, 1)
    run_all(job())
    rules = {row.k: row.v % 3 for row in folders.inputs[1].all if row.v >= 0}
    assert set(state_of(root, "threshold", "threshold", "threshold")) == set(rules)
    held = state_of(root, "threshold", "threshold", "threshold")
    folders.add(2, 0)
    run_all(job(), parallelism=3)
    counts = by_n(MemorySink("threshold-counts").rows())
    expected = [2 * n for n, k, times in counts if n % 5 and times > held.get(k, 0)]
    rows = by_n(MemorySink("threshold").rows())
    assert [row[0] for row in rows] == sorted(expected)
    assert sorted(row[2] for row in rows) == list(range(1, len(expected) + 1))
    assert state_of(root, "threshold", "last", "count") == {"all": len(expected)}


class Pairs(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return (value.n, "one", value.v)

    def map2(self, value: Any) -> Any:
        return (value.n, value.sub, 0) if value.n % 2 else None


class Several(CoFlatMapFunction):
    """If it is keyed, keeps the last `n` of input 1, and emits it with each record of input 2."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def flat_map1(self, value: Any) -> None:
        self.last.update(max(value.n, self.last.value() or 0))

    def flat_map2(self, value: Any) -> Iterator[Any]:
        for side in ("a", "b"):
            yield value.n, side, self.last.value()


class Plain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return [(value.n, "one", ctx.timestamp())]

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield UNKNOWN, (value.n, value.sub)


def test_co_map_without_key(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(2, 1)
    job = StreamJob("co-map", root=str(tmp_path / "root"), parallelism=3)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    one.select("n", "v").connect(two.select("sub", "n")).map(Pairs(), PLACES, uid="pairs").sink_to(
        MemorySink("co-map"), uid="out"
    )
    run_all(job)
    expected = [(row.n, "one", row.v) for row in folders.inputs[0].all]
    expected += [(row.n, row.sub, 0) for row in folders.inputs[1].all if row.n % 2]
    assert by_n(MemorySink("co-map").rows()) == sorted(expected)


def test_co_flat_map_with_state(spark, tmp_path: Path) -> None:
    root, folders = tmp_path / "root", Folders(tmp_path, 2)

    def job() -> StreamJob:
        job = StreamJob("co-flat-map", root=str(root), parallelism=2)
        one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
        connected = one.key_by("k").connect(two.key_by("k"))
        connected.flat_map(Several(), PLACES, uid="several").sink_to(MemorySink("co-flat-map"), uid="out")
        return job

    folders.add(1, 0)
    run_all(job())
    folders.add(0, 1)
    run_all(job())
    last: dict[Any, int] = {}
    for row in folders.inputs[0].all:
        last[row.k] = max(row.n, last.get(row.k, 0))
    expected = [(row.n, side, last.get(row.k)) for row in folders.inputs[1].all for side in "ab"]
    assert by_n(MemorySink("co-flat-map").rows()) == sorted(expected)
    assert state_of(root, "co-flat-map", "several", "last") == last


def test_a_process_function_without_key(spark, tmp_path: Path) -> None:
    folders = Folders(tmp_path, 2)
    folders.add(1, 1)
    job = StreamJob("co-process", root=str(tmp_path / "root"), parallelism=2)
    one, two = (job.from_stream(source.stream(spark)) for source in folders.inputs)
    out = one.connect(two).process(Plain(), PLACES, uid="plain")
    out.sink_to(MemorySink("co-process"), uid="out")
    out.get_side_output(UNKNOWN).sink_to(MemorySink("co-process-two"), uid="two")
    run_all(job)
    assert by_n(MemorySink("co-process").rows()) == [(row.n, "one", None) for row in folders.inputs[0].all]
    assert by_n(MemorySink("co-process-two").rows()) == [(row.n, row.sub) for row in folders.inputs[1].all]


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
