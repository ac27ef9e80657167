"""Lists and maps are in one cell while they are small, and in many once they have grown; functions cannot see which."""

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types, ValueStateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import Namespaced
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, bases, headers
from state_engine.backends.rocksdb.cells import is_head
from state_engine.testing.state_harness import StateHarness

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.LONG())
ROUTES = MapStateDescriptor("routes", Types.LONG(), Types.LONG())
FACTORS = MapStateDescriptor("factors", Types.DOUBLE(), Types.LONG())
NESTED = MapStateDescriptor("nested", Types.LONG(), Types.LIST(Types.LIST(Types.LONG())))
PRICES = MapStateDescriptor("prices", "decimal(5,2)", Types.LONG())
KEYS = range(2)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StateHarness]:
    database = LocalDatabase(tmp_path / "range", Tuning())
    yield begun(database)
    database.close()


def begun(database: LocalDatabase) -> StateHarness:
    made = StateHarness(lambda *args: RocksDBKeyedStateBackend(*args, database), "k bigint")
    made.backend.resume()
    made.backend.start("0")
    made.backend.attach((), made._load)
    return made


def seal(harness: StateHarness) -> None:
    harness.seal()
    harness.backend.commit(str(len(harness.epochs)))


def base_of(harness: StateHarness, name: str) -> Any:
    """Returns the object that the table of a state has instead of dicts."""
    return harness.backend._tables[name].base  # type: ignore[attr-defined]


def cells(harness: StateHarness, name: str) -> tuple[int, int]:
    """Returns how many headers a state has in the database, and how many cells that belong to them."""
    base = base_of(harness, name)
    heads = [is_head(key) for key, _ in base.raw(*base.cells.groups(0, 12))]
    return sum(heads), len(heads) - sum(heads)


def test_a_small_map_is_one_cell_until_it_has_grown_and_again_once_it_was_cleared(harness: StateHarness) -> None:
    routes = harness.state(ROUTES, 1)
    routes.put_all({n: n for n in range(10)})
    seal(harness)
    assert cells(harness, "routes") == (1, 0)
    routes.put_all({n: n for n in range(100, 300)})
    routes.remove(3)
    seal(harness)
    assert cells(harness, "routes") == (1, 209)
    routes.put(5, 55)
    routes.remove(4)
    seal(harness)
    assert cells(harness, "routes") == (1, 208)
    assert list(routes.keys()) == [0, 1, 2, *range(6, 10), *range(100, 300), 5]
    routes.clear()
    routes.put(7, 77)
    seal(harness)
    assert cells(harness, "routes") == (1, 0)
    assert list(routes.items()) == [(7, 77)]
    routes.remove(7)
    seal(harness)
    assert cells(harness, "routes") == (0, 0)


def test_a_small_map_keeps_the_order_of_its_puts(harness: StateHarness) -> None:
    routes = harness.state(ROUTES, 1)
    routes.put_all({1: 1, 2: 2, 3: 3})
    seal(harness)
    routes.put(1, 11)
    seal(harness)
    assert cells(harness, "routes") == (1, 0)
    assert list(routes.items()) == [(2, 2), (3, 3), (1, 11)]


def test_a_small_list_is_one_cell_until_it_has_grown_and_again_once_it_was_replaced(harness: StateHarness) -> None:
    tags = harness.state(TAGS, 1)
    for more in range(3):
        tags.add(more)
        seal(harness)
        assert cells(harness, "tags") == (1, 0)
    tags.add_all(list(range(1000)))
    seal(harness)
    assert cells(harness, "tags") == (1, 2)
    tags.add(-1)
    seal(harness)
    assert cells(harness, "tags") == (1, 3)
    assert list(tags.get()) == [0, 1, 2, *range(1000), -1]
    tags.update([8])
    seal(harness)
    assert (cells(harness, "tags"), list(tags.get())) == ((1, 0), [8])
    tags.clear()
    seal(harness)
    assert cells(harness, "tags") == (0, 0)


@pytest.mark.parametrize("size", [3, 300])
def test_a_decimal_is_found_by_what_equals_it_however_large_the_map_is(harness: StateHarness, size: int) -> None:
    prices = harness.state(PRICES, 1)
    prices.put_all({Decimal(number): number for number in range(size)})
    seal(harness)
    keys: list[Any] = [Decimal("1.00"), 1, 1.0, "1", (0, (1,), 0)]
    assert [prices.get(one) for one in keys] == [1, 1, 1, None, None]


def test_nan_is_one_user_key(harness: StateHarness) -> None:
    factors = harness.state(FACTORS, 1)
    for number in range(3):
        factors.put(float("nan"), number)
        seal(harness)
    assert factors.get(math.nan) == 2
    assert [value for _, value in factors.items()] == [2]
    assert harness.backend.rows == 1


@pytest.fixture
def asked(harness: StateHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of cells that each read requests from the database."""
    store, counts = harness.backend.database.store, []  # type: ignore[attr-defined]
    get_many = store.get_many
    monkeypatch.setattr(store, "get_many", lambda keys: (counts.append(len(keys)) if keys else None) or get_many(keys))
    return counts


def forget(harness: StateHarness) -> None:
    """Drops cached reads, but not the record whether batches read ahead."""
    for state in (ROUTES, TAGS):
        base_of(harness, state.name).forget_reads()


def test_a_batch_of_small_ones_is_read_at_once(harness: StateHarness, asked: list[int]) -> None:
    many = range(500)
    for key in many:
        harness.state(ROUTES, key).put(1, key)
        harness.state(TAGS, key).add(key)
    seal(harness)
    for _ in range(2):
        asked.clear()
        harness.backend.prefetch(list(many))
        assert [harness.state(ROUTES, key).get(1) for key in many] == list(many)
        assert [list(harness.state(TAGS, key).get()) for key in many] == [[key] for key in many]
        forget(harness)
    assert asked == [500, 500]


def test_lists_that_were_read_ahead_are_read_once(
    harness: StateHarness, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large they are, and whatever else is read: small lists, and keys that are not in the batch."""
    monkeypatch.setattr(bases, "READ_BYTES", 100_000)
    spread, small, beyond = range(100), 100, 101
    harness.state(ROUTES)
    for key in spread:
        harness.state(TAGS, key).add_all(list(range(300)))
    for key in (small, beyond):
        harness.state(TAGS, key).add(key)
    seal(harness)
    for _ in range(2):
        asked.clear()
        harness.backend.prefetch([*spread, small])
        assert list(harness.state(TAGS, small).get()) == [small]
        assert list(harness.state(TAGS, beyond).get()) == [beyond]
        assert all(list(harness.state(TAGS, key).get()) == list(range(300)) for key in spread)
        assert len(base_of(harness, "tags")._spread) <= len(spread)
        forget(harness)
    assert asked == [len(spread) + 1, len(spread), 1]


def test_lists_that_were_read_one_by_one_are_dropped_and_the_headers_of_the_batch_are_not(
    harness: StateHarness, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "READ_BYTES", 100_000)
    base: Any = harness.state(TAGS) and base_of(harness, "tags")
    for key in range(100):
        harness.state(TAGS, key).add_all(list(range(300)))
    seal(harness)
    asked.clear()
    base._reads_ahead = True
    harness.backend.prefetch(list(range(100)))
    for key in range(100):
        assert len(list(harness.state(TAGS, key).get())) == 300
        assert len(base._spread) < 12
    assert asked == [100] + [1] * 100


def test_lists_that_were_read_ahead_are_dropped_before_the_next_batch_if_they_are_much(
    harness: StateHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "READ_BYTES", 100_000)
    base: Any = harness.state(TAGS) and base_of(harness, "tags")
    for key in range(100):
        harness.state(TAGS, key).add_all(list(range(300)))
    seal(harness)
    base._reads_ahead = base._reads_pieces = True
    for start in range(0, 100, 20):
        harness.backend.prefetch(list(range(start, start + 20)))
        assert list(base._spread) == list(range(start, start + 20))


@pytest.mark.parametrize("descriptor", [COUNT, TAGS, ROUTES], ids=lambda descriptor: descriptor.name)
def test_batches_read_ahead_once_one_has_read_many_and_not_because_a_small_one_follows(
    harness: StateHarness, descriptor: Any
) -> None:
    harness.state(descriptor)
    base = base_of(harness, descriptor.name)
    base.get(0)  # before the first batch
    harness.backend.prefetch(list(range(1000)))
    base.get(1)
    harness.backend.prefetch(list(range(3)))
    assert not base._reads_ahead
    base.get(2)
    harness.backend.prefetch(list(range(1000)))
    assert base._reads_ahead


def test_pieces_are_read_ahead_once_a_batch_has_read_many_and_not_because_a_small_one_follows(
    harness: StateHarness, asked: list[int]
) -> None:
    base: Any = harness.state(TAGS) and base_of(harness, "tags")
    for key in range(20):
        harness.state(TAGS, key).add_all(list(range(300)))
    seal(harness)
    for batch in range(10):  # one in each of many batches is no more than one
        harness.backend.prefetch(list(range(20)))
        base.get(batch)
    harness.backend.prefetch([18, 19])
    assert not base._reads_pieces
    base.get(18)
    harness.backend.prefetch(list(range(20)))
    assert base._reads_pieces


def test_windows_count_where_batches_name_them(harness: StateHarness) -> None:
    harness.state(TAGS)
    base = base_of(harness, "tags")
    windows = [Namespaced(key, "w") for key in range(10)]
    for _ in range(2):
        harness.backend.prefetch(list(range(10)))
        for window in windows:
            base.get(window)
    harness.backend.prefetch([*range(10), *windows])
    assert not base._reads_ahead
    base.get(Namespaced(10, "w"))
    harness.backend.prefetch(windows)
    assert base._reads_ahead


@pytest.mark.parametrize("descriptor", [NESTED, TAGS], ids=lambda descriptor: descriptor.name)
def test_what_was_decoded_of_headers_in_one_batch_has_a_limit(
    harness: StateHarness, asked: list[int], monkeypatch: pytest.MonkeyPatch, descriptor: Any
) -> None:
    """Also for a few rows that consist of many objects."""
    many = range(200)
    for key in many:
        if descriptor is NESTED:
            harness.state(NESTED, key).put(1, [[] for _ in range(240)])
        else:
            harness.state(TAGS, key).add_all(list(range(100)))
    seal(harness)
    monkeypatch.setattr(bases, "READ_BYTES", 300_000)
    base = base_of(harness, descriptor.name)
    base._reads_ahead = True
    asked.clear()
    harness.backend.prefetch(list(many))
    most = 0
    for key in many:
        value = base.get(key)
        assert base.get(key) is value
        most = max(most, len(base._wholes))
    assert 10 < most < 100
    assert asked == [len(many)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 3), st.integers(-5, 5)),
            st.tuples(st.just("remove"), st.integers(0, 3)),
            st.tuples(st.just("add"), st.integers(0, 300)),
            st.tuples(st.just("update"), st.lists(st.integers(0, 9), max_size=5)),
            st.tuples(st.sampled_from(["clear map", "clear list"])),
        ),
    ),
    min_size=3,
    max_size=8,
)
ENDS = st.sampled_from(["settle", "commit", "another owner", "catch up"])


def act(harness: StateHarness, key: int, step: tuple[Any, ...]) -> None:
    routes, tags = harness.state(ROUTES, key), harness.state(TAGS, key)
    name, *arguments = step
    calls = {"clear map": routes.clear, "clear list": tags.clear, "put": routes.put, "remove": routes.remove}
    (calls | {"add": tags.add, "update": tags.update})[name](*arguments)


def contents(harness: StateHarness) -> Any:
    content = [(list(harness.state(ROUTES, k).items()), list(harness.state(TAGS, k).get())) for k in KEYS]
    single = [[harness.state(ROUTES, key).get(user_key) for user_key in range(4)] for key in KEYS]
    sizes = {s.name: (s.rows, s.keys) for s in harness.backend.statistics()}
    return content, single, sizes


def end(harness: StateHarness, how: str) -> None:
    """Ends an epoch of the database in one of several ways."""
    backend: Any = harness.backend
    if how == "catch up":  # another worker's attempt was sealed: the same changes come from the log
        epoch = backend.freeze(1_000)
        backend.forget()
        for schema, rows in epoch:
            backend.apply(schema.name, rows)
        harness.epochs.append(epoch)
    else:
        harness.seal()
    if how != "settle":
        backend.commit(str(len(harness.epochs)))
    if how == "another owner":
        backend.database.close()
        backend.resume()
        backend.attach(backend.schemas, harness._load)


@settings(max_examples=settings.default.max_examples // 5)
@given(
    st.lists(st.tuples(STEPS, ENDS), min_size=2, max_size=6), st.sampled_from([6, 256]), st.sampled_from([-1, 1 << 24])
)
def test_they_hold_what_the_heap_holds(epochs: list[Any], small: int, read_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(headers, "SMALL", small)
        patch.setattr(bases, "READ_BYTES", read_bytes)
        database = LocalDatabase(Path(folder) / "range", Tuning())
        ours, heap = begun(database), StateHarness(HeapKeyedStateBackend, "k bigint")
        for steps, how in epochs:
            ours.backend.prefetch([key for key, _ in steps])
            for key, step in steps:
                act(ours, key, step)
                act(heap, key, step)
            heap.seal()
            end(ours, how)
            assert contents(ours) == contents(heap)
        database.close()
