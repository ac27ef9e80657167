"""Records are grouped by key, in order within a key; they stay in the order of arrival if grouping gains nothing."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import KeyedBatchProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from state_engine.runtime import by_key
from state_engine.runtime.by_key import RecordsByKey
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.types import parse_columns


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any: ...


class CountOfBatches(KeyedBatchProcessFunction):
    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> Any: ...


class Each(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any: ...


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any: ...

    def process_element2(self, value: Any, ctx: Any) -> Any: ...


def batches_of(keys: list[Any], size: int = 1_000) -> list[pa.RecordBatch]:
    columns = [pa.array(keys), pa.array(range(len(keys))), pa.array([None] * len(keys), pa.binary())]
    whole = pa.RecordBatch.from_arrays(columns, names=["k", "n", "control"])
    return [whole.slice(start, size) for start in range(0, len(keys), size)]


def through(batches: list[pa.RecordBatch], *key: str) -> list[pa.RecordBatch]:
    gathered = RecordsByKey(key or ("k",))
    return [*(part for batch in batches for part in gathered.add(batch)), *gathered.rest()]


def rows(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def in_order_of_first(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for record in records:
        found.setdefault(record[0], []).append(record)
    return [record for of_key in found.values() for record in of_key]


@pytest.mark.parametrize("text", [False, True])
def test_records_of_a_key_are_side_by_side_in_their_order(*, text: bool) -> None:
    drawn = random.Random(1)
    keys: list[Any] = [drawn.choice([None, drawn.randrange(3_000)]) for _ in range(25_000)]
    if text:
        keys = [None if key is None else f"key {key}" for key in keys]
    given = batches_of(keys)
    parts = through(given)
    assert rows(parts) == in_order_of_first(rows(given))
    assert rows(parts) != rows(given)
    assert [part.num_rows for part in parts] == [10_000, 10_000, 5_000]
    assert {part.schema for part in parts} == {given[0].schema}


def test_keys_of_several_columns_are_one_key() -> None:
    drawn = random.Random(2)
    columns = [[drawn.randrange(70) for _ in range(15_000)] for _ in range(2)]
    batch = pa.RecordBatch.from_arrays([*map(pa.array, columns), pa.array(range(15_000))], names=["a", "b", "n"])
    pairs = [(row[:2], *row[2:]) for row in rows(through([batch.slice(0, 9_000), batch.slice(9_000)], "a", "b"))]
    assert pairs == in_order_of_first([((a, b), n) for n, (a, b) in enumerate(zip(*columns, strict=True))])


@pytest.mark.parametrize(
    ("count", "number"),
    [(0, 1), (10_000, 3_000), (30_000, 1_500), (30_000, 29_000)],
    ids=["none", "few records", "few keys", "few of each key"],
)
def test_where_nothing_is_gained_records_go_on_as_they_came(count: int, number: int) -> None:
    drawn = random.Random(3)
    given = batches_of([drawn.randrange(number) if number < 29_000 else n for n in range(count)])
    assert through(given) == given


def test_records_with_event_times_do_not_wait() -> None:
    keys = [n % 5_000 for n in range(20_000)]
    given = [batch.append_column(EVENT_TIME, pa.array(range(batch.num_rows), pa.int64())) for batch in batches_of(keys)]
    gathered = RecordsByKey(["k"])
    for batch in given:
        assert list(gathered.add(batch)) == [batch]
    assert list(gathered.rest()) == []


def test_no_more_bytes_wait_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(4)
    given = batches_of([drawn.randrange(4_000) for _ in range(50_000)])
    for name, most in (("_MOST_BYTES", 20 * given[0].nbytes), ("_MOST_RECORDS", 20_000)):
        with monkeypatch.context() as patch:
            patch.setattr(by_key, name, most)
            gathered = RecordsByKey(["k"])
            each = [list(gathered.add(batch)) for batch in given]
        assert [sum(part.num_rows for part in parts) for parts in each if parts] == [20_000, 20_000]
        assert [n for n, parts in enumerate(each) if parts] == [20, 40]
        records = rows(given)
        assert rows(each[20]) == in_order_of_first(records[:20_000])
        assert rows(each[40]) == in_order_of_first(records[20_000:40_000])
        assert rows(list(gathered.rest())) == records[40_000:], "10,000 are one batch"


def test_a_batch_too_large_to_wait_follows_the_waiting_ones() -> None:
    small = batches_of([n * 7 % 3_000 for n in range(12_000)], 6_000)
    wide = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]), pa.array([12_000, 12_001]), pa.array([bytes(20 << 20)] * 2, pa.binary())],
        names=["k", "n", "control"],
    )
    gathered = RecordsByKey(["k"])
    given = [part for batch in (*small, wide) for part in gathered.add(batch)]
    assert given[-1] is wide
    assert [part.num_rows for part in given] == [10_000, 2_000, 2]
    assert list(gathered.rest()) == []


def test_columns_of_every_shape_go_along() -> None:
    drawn = random.Random(5)
    keys = [drawn.randrange(3_000) for _ in range(15_000)]
    columns = [
        pa.array(keys),
        pa.array([[n, None] if n % 3 else None for n in range(15_000)], pa.list_(pa.int64())),
        pa.array([{"a": n, "b": str(n)} if n % 4 else None for n in range(15_000)]),
        pa.array([[(str(n), n)] for n in range(15_000)], pa.map_(pa.string(), pa.int64())),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["k", "l", "s", "m"])
    assert rows(through([batch.slice(0, 7_500), batch.slice(7_500)])) == in_order_of_first(rows([batch]))


def specs() -> Iterator[tuple[OperatorSpec, bool]]:
    def spec(kind: Any, function: Any, *, key: str = "k bigint", order_by: tuple[str, ...] = ()) -> OperatorSpec:
        columns = parse_columns("k bigint, n bigint")
        return OperatorSpec("it", kind, function, columns, parse_columns(key) if key else (), order_by, columns)

    yield spec("keyed_process", Count()), True
    yield spec("keyed_process", Count(), order_by=("n",)), False
    yield spec("keyed_process", CountOfBatches()), False
    yield spec("keyed_co_process", Both()), False
    yield spec("process", Each(), key=""), False


@pytest.mark.parametrize(("spec", "gathers"), [*specs()], ids=["rows", "ordered", "batches", "two inputs", "no key"])
def test_only_where_no_order_is_required(spec: OperatorSpec, *, gathers: bool) -> None:
    assert (RecordsByKey.of(spec) is not None) is gathers
