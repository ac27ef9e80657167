"""Lists in a database that are read by columns: they equal the heap's entries, and so does their log."""

import random
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lists_by_columns import ListsByColumns
from test_namespaced import SPACES, asked, statistics

from state_engine.api import ListStateDescriptor
from state_engine.api.keys import Keys
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.layout import Layout
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, bases, column_lists, headers
from state_engine.backends.rocksdb.cells import is_head
from state_engine.backends.rocksdb.store import FORMAT_VERSION, Changes, Meta
from state_engine.backends.stored_type import StateValueError
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

KEYS = range(40)
VALUES: dict[str, list[Any]] = {
    "bigint": [None, 0, -(1 << 63), (1 << 63) - 1, *range(5)],
    "string": ["", None, "x", "語" * 20],
    "double": [float("nan"), -0.0, 0.0, 1.5],
    "rows": [(1, "x"), (2, None)],
    "boolean": [True, False],
}
ROWS = "struct<n:bigint,text:string>"
DESCRIPTORS = {name: ListStateDescriptor(name, ROWS if name == "rows" else name) for name in VALUES}
LONGS = DESCRIPTORS["bigint"]
Begun = Callable[..., StateHarness]


@pytest.fixture
def opened() -> Iterator[list[LocalDatabase]]:
    made: list[LocalDatabase] = []
    yield made
    for database in made:
        database.close()


@pytest.fixture
def begin(tmp_path: Path, opened: list[LocalDatabase]) -> Begun:
    """Makes a backend on a folder; its state is that of the manifest that its database names."""

    def begin(folder: str = "range", make: Any = ListsByColumns, key: str = "k bigint") -> StateHarness:
        opened.append(LocalDatabase(tmp_path / folder, Tuning()))
        harness = StateHarness(lambda *args: make(*args, opened[-1]), key)
        backend: Any = harness.backend
        if backend.resume() is None:
            backend.start("0")
        backend.attach((), harness._load)
        return harness

    return begin


def plain(drawn: random.Random, size: int) -> Keys:
    keys = pa.array([drawn.choice(KEYS) for _ in range(size)], pa.int64())
    return Keys([keys], lambda columns: columns[0].to_pylist())


def change(drawn: random.Random, name: str, keys: Keys, harnesses: list[StateHarness]) -> None:
    """Makes the same random call on a state of several backends, by columns or row by row."""
    what, values = drawn.random(), VALUES[name]
    added = [drawn.choice(values) for _ in range(len(keys))]
    lists = [[drawn.choice(values) for _ in range(drawn.choice([0, 1, 3, 30]))] for _ in range(len(keys))]
    for harness in harnesses:
        state = harness.backend.state(DESCRIPTORS[name])
        if what < 0.4:
            state.columns.add_many(keys, added)
        elif what < 0.6:
            state.columns.put_many(keys, lists)
        elif what < 0.8:
            state.columns.remove_many(keys)
        else:
            for entry, elements in zip(keys.entries, lists, strict=False):
                harness.context.entry = entry
                state.update(elements) if len(elements) == 1 else state.add_all(elements)


def looks(drawn: random.Random, harness: StateHarness, keys: Keys) -> Any:
    """Returns the state as a function sees it, as text, in which NaN equals itself."""
    names = sorted(DESCRIPTORS)
    columns = [harness.backend.state(DESCRIPTORS[name]).columns for name in names]
    shown = [(repr(one.get_many(keys).to_pylist()), one.contains_many(keys).to_pylist()) for one in columns]
    places = [(name, key, space) for name in names for key in KEYS for space in (None, SPACES[0])]
    singly = [repr(list(harness.state(DESCRIPTORS[n], k, s).get())) for n, k, s in drawn.sample(places, 20)]
    return shown, singly, statistics(harness)


def logged(harness: StateHarness) -> Any:
    """Returns the log's last epoch; without rows that clear a list without elements: the heap writes none."""
    lines: list[str] = []
    existing: set[Any] = set()
    for epoch in harness.epochs:
        lines = []
        for schema, rows in epoch:
            for row in rows.to_pylist():
                place = schema.name, row["k"], row["namespace"]
                if row["op"] == Op.APPEND:
                    existing.add(place)
                elif place not in existing:
                    continue
                else:
                    existing.discard(place)
                lines.append(repr((place, {**row, "seq": None})))
    of_places: dict[str, list[str]] = {}
    for row in lines:  # rows of one list keep their order
        of_places.setdefault(row.partition("), {")[0], []).append(row)
    return of_places


def end(harness: StateHarness, how: str, begin: Begun) -> StateHarness:
    """Ends an epoch in one of several ways; returns the backend that continues."""
    backend: Any = harness.backend
    if how == "catch up":  # another attempt was sealed: the same changes come from the log
        epoch = backend.freeze(1_000)
        backend.forget()
        for schema, rows in epoch:
            backend.apply(schema.name, rows)
        harness.epochs.append(epoch)
    else:
        harness.seal()
    if how == "settle":
        return harness
    backend.commit(str(len(harness.epochs)))
    if how == "another owner":
        backend.database.close()
        backend.resume()
        backend.attach(backend.schemas, harness._load)
    elif how == "another worker":
        backend.database.close()
        fresh, made = begin(), harness.backend
        fresh.epochs = harness.epochs
        fresh.backend.attach(made.schemas, harness._load)
        for name in DESCRIPTORS:
            fresh.backend.state(DESCRIPTORS[name])
        return fresh
    return harness


SIZES = {
    "as it is": {},
    "all spread": {(headers, "SMALL"): -1, (headers, "PIECE"): 3, (headers, "FEW"): 2},
    "small pieces": {(headers, "SMALL"): 40, (headers, "PIECE"): 2, (headers, "FEW"): 1, (column_lists, "AT_ONCE"): 7},
    "nothing kept": {(bases, "READ_BYTES"): -1},
}


@pytest.mark.slow
@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_columns_rows_and_log_are_those_of_the_heaps_entries(
    begin: Begun, monkeypatch: pytest.MonkeyPatch, sizes: str, seed: int
) -> None:
    for (module, name), value in SIZES[sizes].items():
        monkeypatch.setattr(module, name, value)
    drawn = random.Random(f"{sizes} {seed}")
    ours, heap = begin(), StateHarness(HeapKeyedStateBackend, "k bigint")
    for _ in range(8):
        for _ in range(4):
            change(
                drawn,
                drawn.choice(list(VALUES)),
                drawn.choice([asked, plain])(drawn, drawn.choice([1, 9, 80])),
                [ours, heap],
            )
            keys, state = drawn.choice([asked, plain])(drawn, 30), drawn.getstate()
            first = looks(drawn, ours, keys)[:2]
            drawn.setstate(state)
            assert first == looks(drawn, heap, keys)[:2]
        if drawn.random() < 0.2:
            for one in (ours, heap):
                one.backend.freeze(0)
                one.backend.forget()
        else:
            heap.seal()
            ours = end(ours, drawn.choice(["settle", "commit", "another owner", "another worker", "catch up"]), begin)
            assert logged(ours) == logged(heap)
        assert statistics(ours) == statistics(heap)
    loaded = begin("loaded")
    loaded.epochs = ours.epochs
    loaded.backend.attach(ours.backend.schemas, loaded._load)
    for one in (ours, loaded, StateHarness(HeapKeyedStateBackend, "k bigint", ours.epochs)):
        assert contents(one) == contents(heap)
        assert statistics(one) == statistics(heap)


def contents(harness: StateHarness) -> dict[Any, str]:
    places = product(DESCRIPTORS, KEYS, [None, *SPACES])
    return {(n, key, space): repr(list(harness.state(DESCRIPTORS[n], key, space).get())) for n, key, space in places}


def column(*keys: int) -> Keys:
    return Keys([pa.array(keys, pa.int64())], lambda columns: columns[0].to_pylist())


def cells(harness: StateHarness) -> tuple[int, int]:
    """Returns the number of headers in the database, and the number of pieces."""
    base: Any = harness.backend._in_database["bigint"]  # type: ignore[attr-defined]
    heads = [is_head(key) for key, _ in base._opened.store.scan(*base.cells.groups(0, 12))]
    return sum(heads), len(heads) - sum(heads)


def seal(harness: StateHarness) -> None:
    harness.seal()
    harness.backend.commit(str(len(harness.epochs)))


def test_a_list_is_one_cell_until_it_has_grown_and_again_once_it_was_replaced(begin: Begun) -> None:
    harness = begin()
    tags = harness.backend.state(LONGS).columns
    for more in range(3):
        tags.add_many(column(1, 1), [more, more])
        seal(harness)
        assert cells(harness) == (1, 0)
    tags.add_many(column(*[1] * 1000), list(range(1000)))
    seal(harness)
    assert cells(harness) == (1, 2)
    tags.add_many(column(1), [-1])
    seal(harness)
    assert cells(harness) == (1, 3)
    assert tags.get_many(column(1)).to_pylist() == [[0, 0, 1, 1, 2, 2, *range(1000), -1]]
    tags.put_many(column(1), [[8]])
    seal(harness)
    assert (cells(harness), tags.get_many(column(1)).to_pylist()) == ((1, 0), [[8]])
    tags.remove_many(column(1, 2))
    seal(harness)
    assert cells(harness) == (0, 0)


def test_pieces_of_a_list_that_was_emptied_are_gone_however_many_and_whether_or_not_they_were_written(
    begin: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "FEW", 2)
    harness, many = begin(), list(range(3000))
    tags = harness.backend.state(LONGS).columns
    tags.add_many(column(*[1] * 3000), many)
    seal(harness)
    assert cells(harness) == (1, 6)
    for _ in range(2):
        tags.put_many(column(1), [[8]])
        harness.seal()
        tags.add_many(column(*[1] * 3000), many)
        harness.seal()
    assert tags.get_many(column(1)).to_pylist() == [[8, *many]]
    tags.put_many(column(1), [[9]])
    seal(harness)
    assert (cells(harness), tags.get_many(column(1)).to_pylist()) == ((1, 0), [[9]])


def test_adding_to_a_list_that_is_spread_reads_its_header_alone(begin: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = begin()
    tags, store = harness.backend.state(LONGS).columns, harness.backend.database.store  # type: ignore[attr-defined]
    tags.add_many(column(*[1] * 2000), list(range(2000)))
    seal(harness)
    read, get_many = [], store.get_many
    monkeypatch.setattr(store, "get_many", lambda keys: read.extend(keys) or get_many(keys))
    tags.add_many(column(1), [5])
    seal(harness)
    assert [is_head(key) for key in read] == [True]


@pytest.mark.parametrize("first", [RocksDBKeyedStateBackend, ListsByColumns])
def test_what_another_form_of_function_left_is_loaded_anew(begin: Begun, first: Any) -> None:
    before = begin(make=first)
    for key in KEYS:
        before.state(LONGS, key).add_all([key] * (1 + 20 * key))
    seal(before)
    before.backend.close()
    after = begin(make=ListsByColumns if first is RocksDBKeyedStateBackend else RocksDBKeyedStateBackend)
    assert after.backend.token == "1"
    after.epochs = before.epochs
    after.backend.attach(before.backend.schemas, after._load)
    assert after.state(LONGS) is not None
    assert not after.backend.lacks("bigint")
    assert after.backend.state(LONGS).columns.get_many(column(*KEYS)).to_pylist() == [
        [key] * (1 + 20 * key) for key in KEYS
    ]
    assert statistics(after) == statistics(before)


def test_another_form_is_not_caught_up_and_is_loaded_once_it_is_known_from_where(begin: Begun) -> None:
    before = begin(make=RocksDBKeyedStateBackend)
    before.state(LONGS, 1).add(1)
    seal(before)
    before.backend.close()
    after = begin()
    backend: Any = after.backend
    backend.resume()
    backend.database.close()
    backend.resume()
    backend.state(LONGS)
    assert backend.lacks("bigint")
    after.epochs = before.epochs
    backend.apply("bigint", after.write_to_log(LONGS, [{"k": 1, "op": Op.APPEND, "value": 2}]))
    backend.commit("2")
    backend.attach(before.backend.schemas, after._load)
    assert list(after.state(LONGS, 1).get()) == [1, 2]


def test_a_folder_of_the_format_before_this_one_is_not_read(begin: Begun) -> None:
    before = begin()
    before.state(LONGS, 1).add(1)
    seal(before)
    store = before.backend.database.store  # type: ignore[attr-defined]
    store.meta = Meta(FORMAT_VERSION - 1, "1", store.meta.states)
    store.write(Changes())
    before.backend.close()
    after = begin()
    assert after.backend.token == "0"
    assert list(after.state(LONGS, 1).get()) == []


def test_a_value_that_does_not_fit_changes_nothing(begin: Begun) -> None:
    harness = begin()
    state = harness.backend.state(LONGS)
    state.columns.add_many(column(1, 2), [1, 2])
    seal(harness)
    for call in (
        lambda: state.columns.add_many(column(1, 2), pa.array(["x", "y"])),
        lambda: state.columns.add_many(column(1, 2), [3, 1.5]),
        lambda: state.columns.put_many(column(1, 2), [[3], ["x"]]),
        lambda: state.columns.add_many(column(1, 2), [3]),
    ):
        with pytest.raises((TypeError, ValueError), match="state 'bigint'"):
            call()
    assert harness.seal() == {}
    harness.at(1)
    state.add(1.5)
    with pytest.raises(StateValueError):
        harness.backend.freeze(0)
    harness.backend.forget()
    assert harness.seal() == {}
    assert state.columns.get_many(column(1, 2)).to_pylist() == [[1], [2]]


@pytest.mark.parametrize("written", [True, False])
def test_a_key_group_that_was_reset_is_gone(begin: Begun, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    monkeypatch.setattr(headers, "SMALL", 40)
    harness = begin()
    state = harness.backend.state(LONGS).columns
    for _ in range(2):
        state.add_many(column(*KEYS, 0, 0, 0, 0, 1, 1, 1, 1), list(range(48)))
        harness.seal()
        if written:
            harness.backend.commit("1")
    group = harness.codec.key_group(0)
    kept = [key for key in KEYS if harness.codec.key_group(key) != group]
    reset, again = {"key_group": group, "op": Op.RESET_GROUP}, {"k": 0, "op": Op.APPEND, "value": 7}
    rows = harness.write_to_log(LONGS, [reset, again, reset, reset, again])
    before = state.get_many(column(*kept)).to_pylist()
    harness.backend.apply("bigint", rows)
    for _ in range(2):
        assert state.get_many(column(0)).to_pylist() == [[7]]
        assert state.get_many(column(*kept)).to_pylist() == before
        assert statistics(harness)["bigint"] == (sum(map(len, before)) + 1, len(kept) + 1)
        harness.backend.commit("2")
    assert sum(cells(harness)) == sum(cells_of(before)) + 1


def cells_of(lists: list[list[int]]) -> list[int]:
    """Returns how many cells each list takes if each epoch added the same number of elements."""
    return [1 if len(elements) <= 4 else 3 for elements in lists]


@pytest.mark.parametrize("key", ["k string", "k bigint", "a int, b string", "d decimal(10,2)"])
def test_keys_of_any_type_and_null_ones(begin: Begun, key: str) -> None:
    values = {"k string": ["", "x", None, "x\x00"], "k bigint": [1, None, -1, 1 << 62]}
    pairs = [(1, "x"), (None, "x"), (1, None)]
    listed: list[Any] = values.get(key) or (pairs if key.startswith("a ") else [1, 2, None])
    harness, heap = begin(key=key), StateHarness(HeapKeyedStateBackend, key)
    for one in (harness, heap):
        keys = Keys(one.codec.write(listed), one.codec.read)
        one.backend.state(LONGS).columns.add_many(keys, list(range(len(listed))))
        one.seal()
        one.backend.commit("1")
        assert one.backend.state(LONGS).columns.get_many(keys).to_pylist() == [[n] for n in range(len(listed))]
        assert [list(one.state(LONGS, entry).get()) for entry in keys.entries] == [[n] for n in range(len(listed))]
    assert [rows.to_pylist() for _, rows in harness.epochs[0]] == [rows.to_pylist() for _, rows in heap.epochs[0]]


def test_numbers_of_keys_and_what_was_read_do_not_outlive_an_epoch(
    begin: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.backends.rocksdb.backend._LOAD_ROWS", 6_000)
    harness, numbered = begin(make=RocksDBKeyedStateBackend), count()
    descriptor = ListStateDescriptor("bigint", "bigint")
    for _ in range(3):
        keys = column(*[next(numbered) for _ in range(10_000)])
        harness.backend.state(descriptor, Layout.COLUMNS).columns.add_many(keys, np.arange(10_000))
        seal(harness)
        assert len(harness.backend._index.keys) < 5_000  # type: ignore[attr-defined]
    loaded = begin("loaded", RocksDBKeyedStateBackend)
    loaded.epochs = harness.epochs
    loaded.backend.attach(harness.backend.schemas, loaded._load)
    loaded.backend.state(descriptor, Layout.COLUMNS)
    assert len(loaded.backend._index.keys) < 5_000  # type: ignore[attr-defined]
    assert statistics(loaded) == {"bigint": (30_000, 30_000)}


def test_no_keys_are_asked_and_changed_for_nothing(begin: Begun) -> None:
    state = begin().backend.state(LONGS).columns
    state.add_many(column(), [])
    state.put_many(column(), [])
    assert state.get_many(column()).equals(pa.array([], pa.list_(pa.field("element", pa.int64()))))
    assert state.contains_many(column()).equals(pa.array([], pa.bool_()))


def test_what_was_read_is_dropped_when_it_is_much(begin: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_lists, "AT_ONCE", 100)
    monkeypatch.setattr(bases, "READ_BYTES", 100_000)
    harness = begin()
    state = harness.backend.state(LONGS)
    state.columns.add_many(column(*range(2_000)), np.arange(2_000))
    seal(harness)
    assert state.columns.get_many(column(*range(2_000))).to_pylist() == [[n] for n in range(2_000)]
    assert 10_000 < harness.backend._in_database["bigint"]._held < 120_000  # type: ignore[attr-defined]
