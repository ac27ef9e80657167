"""`map`, `flat_map`, `filter`, `reduce` and running aggregations in jobs equal a plain loop, over a restart."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import Input, Record, by_n, run_all, state_of

from state_engine.api import FilterFunction, FlatMapFunction, MapFunction, ReduceFunction, Types, ValueStateDescriptor
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


class Numbered(MapFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self.times = runtime_context.get_state(ValueStateDescriptor("times", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.times.update((self.times.value() or 0) + 1)
        return value.n, value.k, self.times.value()


class Repeated(FlatMapFunction):
    """Emits a key's records none, one, two and three times in turn, and numbers them."""

    def flat_map(self, value: Any) -> Iterator[Any]:
        for part in range(value.times % 4):
            yield value.n, value.k, value.times, part


class NotFirst(FilterFunction):
    """Drops records that come twice in a row, and the first record of a key."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def filter(self, value: Any) -> bool:
        before = self.last.value()
        self.last.update(value.part)
        return before is not None and before != value.part


class Joined(ReduceFunction):
    """Combines fields of both records."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1.n, value1.k, max(value1.sub, value2.sub), value1.v + value2.v


class Halved(MapFunction):
    """Halves the value, and emits the task's name."""

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()

    def map(self, value: Any) -> Any:
        return value.n, self.name, value.v // 2


def keyed(stream: Any) -> Any:
    mapped = stream.key_by("k", order_by=["n"]).map(Numbered(), "n bigint, k string, times bigint", uid="map")
    flat = mapped.key_by("k", order_by=["n"]).flat_map(
        Repeated(), "n bigint, k string, times bigint, part bigint", uid="repeat"
    )
    return flat.key_by("k", order_by=["n", "part"]).filter(NotFirst(), uid="filter")


def without_key(stream: Any) -> Any:
    halved = stream.map(Halved(), "n bigint, name string, half bigint", uid="halve")
    positive = halved.filter(lambda value: value.half > 0, uid="positive")
    renamed = positive.map(lambda value: (value.n, value.name.upper(), value.half), halved.columns)
    flat = renamed.flat_map(lambda value: [value] * (value.half % 3), halved.columns, uid="flat")
    return flat.map(lambda value: (value.n, value.name, -value.half), halved.columns, uid="negate")


def pipelines(changed: str) -> dict[str, Callable[[Any], Any]]:
    """Returns what is built on each source; `changed` is the verb of the operator that differs in each release."""
    return {
        "keyed": keyed,
        "without key": without_key,
        "reduce": lambda stream: stream.key_by("k", order_by=["n"]).reduce(Joined(), uid="reduce"),
        "sum": lambda stream: stream.key_by("k", order_by=["n"]).sum("v", uid="sum"),
        "max_by": lambda stream: stream.key_by("k", order_by=["n"]).max_by("v", uid="max-by"),
        "changed": lambda stream: getattr(stream.key_by("k", order_by=["n"]), changed)("v", uid="changed"),
    }


class Ran(NamedTuple):
    """Input, state root and outputs of the job."""

    records: list[Record]
    root: Path
    rows: dict[str, list[Any]]


FIRST_RUN = 80
"""How many records the first release reads."""


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Runs one job with all pipelines, adds input, and starts it again with another parallelism."""
    folder = tmp_path_factory.mktemp("functions")
    source, root = Input(folder / "in"), folder / "root"
    for parallelism, files, changed in ((2, 2, "sum"), (3, 1, "max")):
        source.add_many(files, rows=FIRST_RUN // 2, seed=parallelism)
        job = StreamJob("functions", root=str(root), parallelism=parallelism)
        for name, build in pipelines(changed).items():
            build(job.from_stream(source.stream(spark))).sink_to(MemorySink(name), uid=f"{name}-out".replace(" ", "-"))
        run_all(job)
    rows = {name: by_n(MemorySink(name).rows()) for name in pipelines("sum")}
    assert all(rows.values())
    return Ran(sorted(source.all, key=lambda record: record.n), root, rows)


def test_keyed_map_flat_map_and_filter(ran: Ran) -> None:
    times: dict[Any, int] = {}
    last: dict[Any, int] = {}
    expected = []
    for record in ran.records:
        times[record.k] = times.get(record.k, 0) + 1
        for part in range(times[record.k] % 4):
            if last.get(record.k) not in (None, part):
                expected.append((record.n, record.k, times[record.k], part))
            last[record.k] = part
    assert ran.rows["keyed"] == expected
    assert state_of(ran.root, "functions", "map", "times") == times


def test_functions_without_key(ran: Ran) -> None:
    halves = [(r.n, r.v // 2) for r in ran.records if r.v // 2 > 0]
    assert ran.rows["without key"] == [(n, "HALVE", -half) for n, half in halves for _ in range(half % 3)]


def test_reduce(ran: Ran) -> None:
    kept: dict[Any, Any] = {}
    expected = []
    for record in ran.records:
        old = kept.get(record.k)
        new = record if old is None else (old[0], old[1], max(old[2], record.sub), old[3] + record.v)
        kept[record.k] = tuple(new)
        expected.append(kept[record.k])
    assert ran.rows["reduce"] == sorted(expected)
    state = read_state(str(ran.root), "functions", "reduce", "reduced").to_pylist()
    assert {row["k"]: tuple(row["value"].values()) for row in state} == kept


@pytest.mark.parametrize("verb", ["sum", "max_by"])
def test_running_aggregations(ran: Ran, verb: str) -> None:
    kept: dict[Any, Any] = {}
    expected = []
    for record in ran.records:
        old = kept.get(record.k)
        if old is not None:
            record = old._replace(v=old.v + record.v) if verb == "sum" else max(old, record, key=lambda r: r.v)
        kept[record.k] = record
        expected.append(tuple(record))
    assert ran.rows[verb] == sorted(expected)


def test_another_aggregation_under_the_same_uid_starts_afresh(ran: Ran) -> None:
    """It must not take a sum for a maximum."""
    kept: dict[Any, Any] = {}
    expected = []
    for record in ran.records:
        if record.n == FIRST_RUN:
            kept.clear()
        first = record.n < FIRST_RUN
        old = kept.get(record.k, record._replace(v=0 if first else record.v))
        kept[record.k] = old._replace(v=old.v + record.v if first else max(old.v, record.v))
        expected.append(tuple(kept[record.k]))
    assert ran.rows["changed"] == sorted(expected)


# What is refused, and what it is called -----------------------------------------------------------------------------


@pytest.fixture
def stream(spark, tmp_path: Path) -> Any:
    job = StreamJob("functions-refused", root=str(tmp_path / "root"), parallelism=2)
    return job.from_stream(Input(tmp_path / "in").add_many(1).stream(spark))


def test_a_plain_map_before_the_first_operator_says_that_a_uid_helps(stream) -> None:
    with pytest.raises(UnsupportedTopologyError) as caught:
        stream.map(lambda value: value, stream.columns)
    assert "map(..., uid=...)" in caught.value.action
    assert stream.map(lambda value: value, stream.columns, uid="map").columns == stream.columns


@pytest.mark.parametrize("verb", ["sum", "min", "max", "min_by", "max_by"])
def test_a_field_that_is_not_there(stream, verb: str) -> None:
    with pytest.raises(JobDefinitionError, match=rf"{verb}\(\) got the field 'w'; the stream has n, k, sub, v"):
        getattr(stream.key_by("k"), verb)("w", uid="a")


def test_without_a_uid_the_warning_names_what_was_called_and_points_at_the_job(stream) -> None:
    with pytest.warns(UserWarning, match=r"'max-by-1' .* Give max_by\(\.\.\., uid=\.\.\.\)") as caught:
        stream.key_by("k").max_by("v")
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_map_function_without_key_has_no_keyed_state(stream) -> None:
    with pytest.raises(JobDefinitionError, match=r"'times'.*no key"):
        stream.map(Numbered(), "n bigint, k string, times bigint", uid="a")
