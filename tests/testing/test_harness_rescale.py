"""State and timers go to the subtask of their key group, at even and uneven parallelisms, subtask by subtask."""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import (
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from state_engine.key_groups import key_group_of, subtask_of
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, OperatorSubtaskState, repackage_state

GROUPS = 128
KEYS = range(-200, 200)


class Remembers(KeyedProcessFunction):
    """Holds the number of a key, also under a name that only its key group has; timers of both clocks emit it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.number.update(value.n)
        self.seen.put("first", value.n)
        group = key_group_of([value.k], ["bigint"], GROUPS)
        self.context.get_state(ValueStateDescriptor(f"of_{group % 5}", Types.LONG())).update(value.n)
        ctx.timer_service().register_event_time_timer(value.n)
        ctx.timer_service().register_processing_time_timer(value.n)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert self.number.value() == self.seen.get("first")
        yield ctx.get_current_key(), self.number.value(), ctx.time_domain().name


def make(parallelism: int, subtask: int, snapshot: OperatorSubtaskState | None = None) -> Any:
    harness = KeyedOneInputStreamOperatorTestHarness(
        Remembers(),
        "k",
        "k bigint, n bigint",
        "k bigint, n bigint, clock string",
        parallelism=parallelism,
        max_parallelism=GROUPS,
        subtask=subtask,
    )
    if snapshot is not None:
        harness.initialize_state(snapshot)
    return harness


def keys_of(subtask: int, parallelism: int) -> list[int]:
    return [k for k in KEYS if subtask_of(key_group_of([k], ["bigint"], GROUPS), parallelism, GROUPS) == subtask]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (2, 2), (15, 77), (77, 15)])
def test_each_subtask_has_what_belongs_to_its_key_groups(before: int, after: int) -> None:
    parts = []
    for subtask in range(before):
        with make(before, subtask) as harness:
            harness.process_elements([(key, key + 1_000) for key in keys_of(subtask, before)])
            parts.append(harness.snapshot())
    whole = repackage_state(*parts)
    assert whole.states()["number"] == {key: key + 1_000 for key in KEYS}
    parts, fired = [], []
    for subtask in range(after):
        with make(after, subtask, whole) as harness:
            mine = keys_of(subtask, after)
            snapshot = harness.snapshot()
            assert snapshot.states()["number"] == {key: key + 1_000 for key in mine}
            assert snapshot.states()["seen"] == {key: {"first": key + 1_000} for key in mine}
            for clock in TimeDomain:
                assert snapshot.timers(clock) == {key: [key + 1_000] for key in mine}
            harness.process_watermark(1_000)
            harness.set_processing_time(1_000)
            fired.extend(harness.extract_output_values())
            parts.append(harness.snapshot())
    clocks = [clock.name for clock in TimeDomain]
    assert sorted(fired) == sorted((k, k + 1_000, clock) for k in KEYS if k <= 0 for clock in clocks)
    together = repackage_state(*parts)
    assert together.states() == whole.states()
    assert together.timers(TimeDomain.EVENT_TIME) == {key: [key + 1_000] for key in KEYS if key > 0}
