"""Which objects a worker's garbage collection examines."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from state_engine.spark.worker import garbage
from state_engine.spark.worker.garbage import Garbage


class Node:
    """An object in a reference cycle."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_is_new_goes_with_each_collection() -> None:
    one = Garbage()
    for _ in range(5):
        node = weakref.ref(Node())
        one.collect()
        assert node() is None


def test_survivors_are_examined_again_when_something_was_released() -> None:
    one, node = Garbage(), Node()
    for _ in range(4):
        one.collect()  # as after tasks 1 to 4; the last collection is a full one
    seen = weakref.ref(node)
    del node
    one.collect()
    assert seen() is not None, "it was set aside"
    one.note_dropped()
    one.collect()
    assert seen() is None


def test_rows_of_a_batch_start_no_search() -> None:
    one = Garbage()
    one.collect()
    starts: list[str] = []
    heard = lambda phase, _: starts.append(phase)  # noqa: E731 - the same object goes
    gc.callbacks.append(heard)
    try:
        for _ in range(20):
            rows = [(key, [key]) for key in range(10_000)]
            assert len(rows) == 10_000
    finally:
        gc.callbacks.remove(heard)
    assert starts == []


def test_full_collections_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    full: list[int] = []
    one = Garbage()
    calls: dict[str, Any] = {"collect": lambda: None, "freeze": lambda: None, "set_threshold": lambda *_: None}
    calls["get_threshold"] = gc.get_threshold
    monkeypatch.setattr(garbage, "gc", type("Gc", (), {**{n: staticmethod(c) for n, c in calls.items()}}))
    for task in range(1, 100):
        monkeypatch.setattr(garbage.gc, "unfreeze", staticmethod(lambda task=task: full.append(task)), raising=False)
        one.collect()
    assert full == [1, 2, 4, 8, 16, 32, 64]
