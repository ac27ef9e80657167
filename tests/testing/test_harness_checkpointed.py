"""Checkpointed functions, notifications and the end of the input in the harness: order, restore, rescale, failures."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import DuplicateStateError, JobDefinitionError, StateTypeChangedError, UserFunctionError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, check_restorable, repackage_state

BUFFER = ListStateDescriptor("buffer", Types.LONG())


class Buffer(ProcessFunction, CheckpointedFunction):
    """Emits records three at a time, and the rest at the end."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.stored = context.get_operator_state_store().get_list_state(BUFFER)
        self.held = list(self.stored)
        self.restored = context.is_restored()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.held)

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        self.held.append(value.n)
        if len(self.held) >= 3:
            yield from ((n,) for n in self.held)
            self.held = []

    def finish(self) -> Iterable[Any]:
        yield from ((n,) for n in self.held)
        self.held = []


def buffers(function: Any = None, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(function or Buffer(), (), "n bigint", "n bigint", **given)


def feed(harness: KeyedOneInputStreamOperatorTestHarness, *numbers: int) -> list[int]:
    """Processes records as one epoch; returns the output."""
    harness.process_elements([(n,) for n in numbers])
    return taken(harness)


def taken(harness: KeyedOneInputStreamOperatorTestHarness) -> list[int]:
    numbers_out = [n for (n,) in harness.extract_output_values()]
    harness.clear_output()
    return numbers_out


def test_fields_go_on_through_operator_state() -> None:
    with buffers() as harness:
        assert feed(harness, 1, 2) == []
        assert harness.snapshot().operator_states() == {"buffer": [[1, 2]]}
        assert not harness.functions[0].restored
        harness.close()
        assert feed(harness, 3) == [1, 2, 3]
        assert harness.functions[0].restored
        assert harness.snapshot().operator_states() == {"buffer": []}


def test_rescaled_from_two_to_three_to_one() -> None:
    with buffers(parallelism=2) as two:
        feed(two, 1, 2, 3, 4)
    assert two.snapshot().operator_states() == {"buffer": [[1, 3], [2, 4]]}
    with buffers(parallelism=3) as three:
        three.initialize_state(two.snapshot())
        assert feed(three) == []
        assert three.snapshot().operator_states() == {"buffer": [[1, 3], [2], [4]]}
        assert feed(three, 5) == [1, 3, 5]
    with buffers() as one:
        one.initialize_state(three.snapshot())
        one.end_input()
        assert taken(one) == [2, 4]
        assert one.snapshot().operator_states() == {"buffer": []}


def test_a_snapshot_before_the_first_epoch_has_what_was_restored() -> None:
    with buffers(parallelism=3) as three:
        feed(three, 1, 2, 3, 4, 5)
    with buffers() as one:
        one.initialize_state(three.snapshot())
        again = one.snapshot()
    assert again.operator_states() == {"buffer": [[1, 4], [2, 5], [3]]}
    with buffers(parallelism=2) as two:
        two.initialize_state(again)
        feed(two)
        assert two.snapshot().operator_states() == {"buffer": [[1, 4, 2], [5, 3]]}


def test_state_that_no_code_asks_for_stays_and_is_cut_anew() -> None:
    class Forgetful(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return None

    with buffers(parallelism=2) as before:
        feed(before, 1, 2, 3)
    with buffers(Forgetful(), parallelism=3) as between:
        between.initialize_state(before.snapshot())
        feed(between, 4)
    assert between.snapshot().operator_states() == {"buffer": [[1], [3], [2]]}
    with buffers() as after:
        after.initialize_state(between.snapshot())
        assert feed(after, 5, 6, 7) == [1, 3, 2, 5]
        assert after.snapshot().operator_states() == {"buffer": [[6, 7]]}


def test_a_failed_epoch_leaves_nothing() -> None:
    class Failing(Buffer):
        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            super().snapshot_state(context)
            if 13 in self.held:
                raise OSError("no luck")

    with buffers(Failing()) as harness:
        feed(harness, 1)
        with pytest.raises(UserFunctionError, match=r"snapshot_state\(\) raised OSError: no luck"):
            feed(harness, 13)
        assert feed(harness, 2) == []
        assert harness.snapshot().operator_states() == {"buffer": [[1, 2]]}


def test_an_element_of_another_type_is_named() -> None:
    class Wrong(Buffer):
        def process_element(self, value: Any, ctx: Any) -> None:
            self.held.append("one")

    with buffers(Wrong()) as harness, pytest.raises(StateTypeChangedError, match="operator state 'buffer' that"):
        feed(harness, 1)


def test_subtasks_are_put_together() -> None:
    parts = [buffers(parallelism=2, subtask=n) for n in range(2)]
    for n, part in enumerate(parts):
        feed(part, n)
    with buffers() as whole:
        whole.initialize_state(repackage_state(*(part.snapshot() for part in parts)))
        assert feed(whole, 2) == [0, 1, 2]
    with pytest.raises(ValueError, match="Subtasks"):
        repackage_state(parts[0].snapshot(), parts[0].snapshot())


# Functions that differ when they are made anew --------------------------------------------------------------------


class Forgets(Buffer):
    """Keeps records in a field, without storing them."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass


EPOCHS = [[(1,), (2,)], [(3,)], [], [(4,), (5,), (6,), (7,)]]


def test_a_function_that_stores_its_fields_is_restorable() -> None:
    check_restorable(lambda: buffers(parallelism=2), EPOCHS)


def test_one_that_does_not_is_found() -> None:
    with pytest.raises(AssertionError, match="epoch 2"):
        check_restorable(lambda: buffers(Forgets()), EPOCHS)


# Order ------------------------------------------------------------------------------------------------------------

CALLS: list[str] = []


class Recorder(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Records every call."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        restored = context.get_restored_checkpoint_id(), context.get_restored_checkpoint_timestamp()
        CALLS.append(f"initialize_state {restored if context.is_restored() else 'fresh'}")
        self.seen = context.get_keyed_state_store().get_state(ValueStateDescriptor("seen", Types.LONG()))

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append("open")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CALLS.append(f"aborted {checkpoint_id}")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        CALLS.append(f"record {value.n}")
        ctx.timer_service().register_event_time_timer(value.n + 100)
        self.seen.update(value.n)
        yield (value.n,)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        CALLS.append(f"timer {timestamp}")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        CALLS.append(
            f"snapshot {context.get_checkpoint_id()} {context.get_epoch()} {context.get_checkpoint_timestamp()}"
        )

    def finish(self) -> Iterable[Any]:
        CALLS.append("finish")
        return [(-1,)]

    def close(self) -> None:
        CALLS.append("close")


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def recorders(function: Any = None, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(function or Recorder(), "n", "n bigint", "n bigint", **given)


def test_the_order_of_all_calls() -> None:
    harness = recorders()
    assert CALLS == ["initialize_state fresh", "open", "close"], "to find out its states, on a copy"
    CALLS.clear()
    harness.process_elements([(1,), (2,)], timestamps=[1, 2])
    harness.process_watermark(101)
    harness.set_processing_time(50)
    harness.notify_of_completed_checkpoint(3)
    harness.notify_of_aborted_checkpoint(4)
    harness.end_input()
    harness.close()
    harness.close()
    assert [
        *("initialize_state fresh", "open", "record 1", "record 2", "snapshot 1 1 0"),
        *("timer 101", "snapshot 1 2 0"),
        "snapshot 1 3 50",
        *("complete 3", "snapshot 4 4 50"),
        *("aborted 4", "snapshot 5 5 50"),
        *("timer 102", "finish", "snapshot 5 6 50"),
        "close",
    ] == CALLS
    assert harness.extract_output_values() == [(1,), (2,), (-1,)]


def test_a_restored_instance_knows_from_where() -> None:
    with recorders() as before:
        before.set_processing_time(70)
        before.notify_of_completed_checkpoint(8)
    with recorders() as after:
        CALLS.clear()
        after.initialize_state(before.snapshot())
        after.open()
        assert " ".join(CALLS) == "initialize_state (9, 70) open"


@pytest.mark.parametrize("call", ["initialize_state", "open", "notify_checkpoint_complete", "finish", "snapshot_state"])
def test_what_raises_is_named_and_the_instance_closed(call: str) -> None:
    class Raising(Recorder):
        armed = False

    def fail(self: Any, *_: Any) -> None:
        if self.armed:
            raise OSError("no luck")
        return getattr(Recorder, call)(self, *_)

    setattr(Raising, call, fail)
    harness = recorders(Raising())
    CALLS.clear()
    Raising.armed = True
    run: Callable[[], None] = lambda: harness.process_element((1,))  # noqa: E731
    if call == "notify_checkpoint_complete":
        run = lambda: harness.notify_of_completed_checkpoint(1)  # noqa: E731
    if call == "finish":
        run = harness.end_input
    with pytest.raises(UserFunctionError, match=rf"{call}\(\) raised OSError: no luck"):
        run()
    assert CALLS.count("close") == 1
    assert CALLS[-1] == "close"
    assert harness.snapshot().manifest.epoch == 0


@pytest.mark.parametrize("call", ["initialize_state", "open", "notify_checkpoint_complete", "finish", "snapshot_state"])
def test_there_is_no_key_outside_of_records_and_timers(call: str) -> None:
    class Keyless(Recorder):
        armed = False

    def use(self: Any, *given: Any) -> Any:
        result = getattr(Recorder, call)(self, *given)
        if self.armed:
            self.seen.update(1)
        return result

    setattr(Keyless, call, use)
    harness = recorders(Keyless())
    Keyless.armed = True

    def live() -> None:
        harness.process_element((1,))
        harness.notify_of_completed_checkpoint(1)
        harness.end_input()

    with pytest.raises(JobDefinitionError, match="no current key"):
        live()


def test_one_name_for_two_kinds_of_state_is_refused() -> None:
    class Both(Recorder):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("buffer", Types.LONG()))

        def initialize_state(self, context: FunctionInitializationContext) -> None:
            context.get_operator_state_store().get_list_state(BUFFER)

    with pytest.raises(DuplicateStateError, match="'buffer' for keyed and for operator"):
        recorders(Both())
