"""Values by place, with namespaces that appear and disappear with their keys: nothing is left of them."""

from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api import TimeDomain, Types, ValueStateDescriptor
from state_engine.api.keys import Keys, indices
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.backends.entry_index import NamespaceNumbers
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.layout import Layout
from state_engine.testing.state_harness import StateHarness


def made() -> tuple[StateHarness, Any, Any]:
    harness = StateHarness(HeapKeyedStateBackend, "k bigint")
    harness.backend.timers_by_columns = True
    state = harness.backend.state(ValueStateDescriptor("a", Types.LONG()), Layout.PLACES)
    return harness, state, harness.backend.timers(TimeDomain.EVENT_TIME)


def sessions(first: int, count: int) -> NamespacedKeys:
    """Returns `count` keys, each with its own namespaces, of two sessions."""
    plain = Keys([pa.array(range(first, first + count))], lambda columns: columns[0].to_pylist())
    names = [f"{first + n}/{n}" for n in range(2 * count)]
    return NamespacedKeys([indices(np.arange(2 * count) // 2), indices(np.arange(2 * count))], plain, names)


def test_namespaces_of_which_nothing_is_left_are_forgotten() -> None:
    harness, state, timers = made()
    table: Any = harness.backend._tables["a"]  # type: ignore[attr-defined]
    stays = sessions(1_000_000, 10)
    state.columns.put_many(stays, list(range(20)))
    timers.register_keys(stays, np.arange(20) + 10_000)
    for epoch in range(20):
        some = sessions(1_000 * epoch, 1_000)
        state.columns.put_many(some, [epoch] * len(some))
        timers.register_keys(some, np.full(len(some), epoch))
        harness.seal(epoch)
        fired = timers.due_keys(epoch)
        assert len(fired) == len(some)
        assert state.columns.get_many(fired).to_pylist() == [epoch] * len(some)
        state.columns.remove_many(fired)
        harness.seal(epoch)
        harness.backend.commit("sealed")
        assert len(harness.backend._index.namespaces) < 10_000
    assert state.columns.get_many(stays).to_pylist() == list(range(20))
    [remaining] = [timers.due_keys(1 << 40)]
    assert sorted(map(str, remaining.entries)) == sorted(map(str, stays.entries))
    assert list(table.store) == [None]
    assert table.rows == 20


def test_what_waits_for_the_end_of_an_epoch_keeps_its_place_when_numbers_change() -> None:
    harness, state, _ = made()
    for epoch in range(8):
        some = sessions(10_000 * epoch, 1_000)
        state.columns.put_many(some, [epoch] * len(some))
        harness.seal(epoch)
        state.columns.remove_many(some)
        kept = sessions(5, 3)
        state.columns.put_many(kept, [epoch] * len(kept))
        harness.backend.commit("between")  # checks which numbers are in use, during an epoch
        assert state.columns.get_many(kept).to_pylist() == [epoch] * len(kept)
        harness.seal(epoch)
    reopened = harness.reopened()
    descriptor = ValueStateDescriptor("a", Types.LONG())
    assert reopened.backend.state(descriptor, Layout.PLACES).columns.get_many(sessions(5, 3)).to_pylist() == [7] * 6
    assert reopened.backend.rows == 6


def texts(numbers: NamespaceNumbers) -> list[str | None]:
    return numbers.texts_of(np.arange(len(numbers))).to_pylist()  # type: ignore[no-any-return]


def test_few_of_many_texts_are_gathered() -> None:
    numbers = NamespaceNumbers()
    numbers.of([str(n) for n in range(1000)])
    gathered = numbers.texts_of(np.array([1000, 1, 1000, 0]))
    assert gathered.to_pylist() == ["999", "0", "999", None]
    assert len(gathered.dictionary) == 3


def test_numbers_of_namespaces_follow_them() -> None:
    numbers = NamespaceNumbers()
    numbers.limit = 0
    assert numbers.of(["a", None, "b", "a"]).tolist() == [1, 0, 2, 1]
    assert numbers.of(["c"]).tolist() == [3]
    assert texts(numbers) == [None, "a", "b", "c"]
    assert numbers.drop_unused(iter([np.array([3, 2])])).tolist() == [0, 0, 1, 2]  # type: ignore[union-attr]
    assert texts(numbers) == [None, "b", "c"]
    assert numbers.of(["c", "d", "b"]).tolist() == [2, 3, 1]
    numbers.limit = 0
    assert numbers.drop_unused(iter([np.array([1, 2, 3])])) is None
