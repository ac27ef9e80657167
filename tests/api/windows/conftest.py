"""Fake contexts of triggers, assigners and evictors, over plain dicts."""

from operator import add
from types import SimpleNamespace
from typing import Any

import pytest

from state_engine.api.windows import Evictor, MergingWindowAssigner, Trigger, Window, WindowAssigner


class FakeState:
    """Value and reducing state of one window, over the dict of all windows."""

    def __init__(self, store: dict[Any, Any], key: Any, reduce: Any) -> None:
        self._store, self._key, self._reduce = store, key, reduce

    def get(self) -> Any:
        return self._store.get(self._key)

    value = get

    def add(self, value: Any) -> None:
        before = self._store.get(self._key)
        self._store[self._key] = value if before is None else self._reduce(before, value)

    def update(self, value: Any) -> None:
        self._store[self._key] = value

    def clear(self) -> None:
        self._store.pop(self._key, None)


class FakeTriggerContext(Trigger.OnMergeContext):
    """The windows of one key: a test sets the time, and reads timers and states.

    Attributes:
        window: The current window.
        merged: The windows that `merge_partitioned_state` merges into it.
        event_timers: Times by window.
        processing_timers: Likewise.
        states: Values by state name and window.
    """

    def __init__(self) -> None:
        self.now = 0
        self.watermark = -(1 << 63)
        self.window: Any = None
        self.merged: list[Any] = []
        self.event_timers: dict[Any, set[int]] = {}
        self.processing_timers: dict[Any, set[int]] = {}
        self.states: dict[Any, Any] = {}

    def at(self, window: Window) -> "FakeTriggerContext":
        self.window = window
        return self

    def get_current_processing_time(self) -> int:
        return self.now

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.processing_timers.setdefault(self.window, set()).add(time)

    def register_event_time_timer(self, time: int) -> None:
        self.event_timers.setdefault(self.window, set()).add(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing_timers.get(self.window, set()).discard(time)

    def delete_event_time_timer(self, time: int) -> None:
        self.event_timers.get(self.window, set()).discard(time)

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        return FakeState(self.states, (state_descriptor.name, self.window), state_descriptor.get_reduce_function())

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        target = self.get_partitioned_state(state_descriptor)
        for window in self.merged:
            value = self.states.pop((state_descriptor.name, window), None)
            if value is not None:
                target.add(value)

    def nothing_left(self) -> bool:
        """Returns whether no window has a timer or a state."""
        return not self.states and not any([*self.event_timers.values(), *self.processing_timers.values()])


class FakeAssignerContext(WindowAssigner.WindowAssignerContext):
    """One key's context for assigners."""

    def __init__(self) -> None:
        self.now = 0
        self.states: dict[Any, Any] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_state=lambda descriptor: FakeState(self.states, descriptor.name, add))


class FakeEvictorContext(Evictor.EvictorContext):
    """The context of evictors; ours read no time."""

    def get_current_processing_time(self) -> int:
        raise AssertionError

    def get_current_watermark(self) -> int:
        raise AssertionError


class Merges(MergingWindowAssigner.MergeCallback[Any]):
    """Records the requested merges."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        self.calls.append((list(to_be_merged), merge_result))


@pytest.fixture
def trigger_context() -> FakeTriggerContext:
    return FakeTriggerContext()


@pytest.fixture
def assigner_context() -> FakeAssignerContext:
    return FakeAssignerContext()


@pytest.fixture
def evictor_context() -> FakeEvictorContext:
    return FakeEvictorContext()


@pytest.fixture
def merges() -> Merges:
    return Merges()
