"""The current key, and what the runtime context tells a function about its subtask."""

from collections.abc import Iterable
from typing import Any

from state_engine.api import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from state_engine.key_groups import KeyGroupRange, key_group_of
from state_engine.runtime.operators import operator_of


class Counting(KeyedProcessFunction):
    """Emits (key, records of this key so far)."""

    opened = closed = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened += 1
        self.context = runtime_context
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def close(self) -> None:
        self.closed += 1

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen = ctx
        return [(repr(ctx.get_current_key()), count)]


def counts(found: dict[str, list[dict[str, Any]]]) -> list[tuple[str, int]]:
    return [(row["k"], row["n"]) for row in found["main"]]


def test_state_is_that_of_the_current_key(run: Any) -> None:
    running = run(Counting())
    outputs = running.feed(("a", 0), ("b", 0), ("a", 0), (None, 0), (None, 0))
    assert counts(outputs) == [("'a'", 1), ("'b'", 1), ("'a'", 2), ("None", 1), ("None", 2)]
    assert counts(running.feed(("a", 0))) == [("'a'", 3)]


def test_a_key_of_several_columns_is_a_tuple(run: Any) -> None:
    running = run(Counting(), key=["n", "k"])
    outputs = running.feed(("a", 1), ("a", 2), ("a", 1), (None, None))
    assert counts(outputs) == [("(1, 'a')", 1), ("(2, 'a')", 1), ("(1, 'a')", 2), ("(None, None)", 1)]


def test_a_generator_sees_its_own_key_all_along(run: Any) -> None:
    class Twice(Counting):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            yield ctx.get_current_key(), 0
            yield ctx.get_current_key(), self.count.value() or 0

    assert counts(run(Twice()).feed(("a", 0), ("b", 0))) == [("a", 0), ("a", 0), ("b", 0), ("b", 0)]


def test_rows_of_the_log_have_their_keys_key_group(run: Any) -> None:
    running = run(Counting())
    running.feed(("a", 0), ("b", 0))
    ((schema, rows),) = running.operator.backend.freeze(5_000)
    assert schema.name == "count"
    groups = dict(zip(rows.column("k").to_pylist(), rows.column("key_group").to_pylist(), strict=True))
    assert groups == {key: key_group_of([key], ["string"], 13) for key in ("a", "b")}


def test_times_are_the_epochs(run: Any) -> None:
    running = run(Counting())
    running.feed(("a", 0))
    service = running.spec.function.seen.timer_service()
    assert service.current_processing_time() == 5_000
    assert service.current_watermark() == -(1 << 63)
    assert running.spec.function.seen.timestamp() is None
    running.operator.begin(6_000, 77, 0)
    assert (service.current_processing_time(), service.current_watermark()) == (6_000, 77)


def test_the_verbs_of_timers_may_be_kept_and_take_their_argument_by_name(run: Any) -> None:
    """A function may keep them before the first timer exists; a timer's key is still the current one."""

    class Kept(KeyedProcessFunction):
        kept: Any = None

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            timers = ctx.timer_service()
            if self.kept is None:
                self.kept = timers.register_event_time_timer, timers.delete_event_time_timer
            register, delete = self.kept
            register(timestamp=value.n)
            delete(timestamp=value.n + 1)
            timers.register_processing_time_timer(timestamp=value.n)
            timers.delete_processing_time_timer(timestamp=value.n)
            return []

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
            yield ctx.get_current_key(), timestamp

    running = run(Kept())
    running.feed(("a", 5), ("b", 7), ("b", 6))  # the last one deletes the timer at 7
    running.operator.snapshot(1, 1)
    running.operator.changes()
    running.operator.settle()
    running.operator.begin(9_000, 9, 0)
    rows = running.operator.advance()["main"].to_pylist()
    assert [(row["k"], row["n"]) for row in rows] == [("a", 5), ("b", 6)]


def test_where_an_instance_runs(spec: Any) -> None:
    function = Counting()
    operator = operator_of(spec(function, parameters={"mode": "fast"}), 1, 4)
    operator.open()
    operator.begin(0, None, 3)
    context = function.context
    assert context.get_task_name() == "op"
    assert context.get_task_name_with_subtasks() == "op (2/4)"
    assert context.get_index_of_this_subtask() == 1
    assert context.get_number_of_parallel_subtasks() == 4
    assert context.get_max_number_of_parallel_subtasks() == 13
    assert context.get_attempt_number() == 3
    assert context.get_job_parameter("mode", "slow") == "fast"
    assert context.get_job_parameter("other", "slow") == "slow"
    assert operator.backend is not None
    assert operator.backend.key_groups == KeyGroupRange(4, 6)


def test_an_instance_is_closed_once(spec: Any) -> None:
    function = Counting()
    operator = operator_of(spec(function), 0, 1)
    operator.close()
    operator.open()
    operator.close()
    operator.close()
    assert (function.opened, function.closed) == (1, 1)


def test_states_may_be_requested_while_records_come(run: Any) -> None:
    class Lazy(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.context = runtime_context

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            state = self.context.get_state(ValueStateDescriptor(f"of-{value.k}", Types.LONG()))
            state.update(value.n)
            return []

    running = run(Lazy(), key=["n"])
    running.feed(("a", 1), ("b", 1))
    assert [schema.name for schema in running.operator.backend.schemas] == ["of-a", "of-b"]


def test_columns_with_odd_names(run: Any) -> None:
    class Odd(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            return [(value["class"], value["a b"] + value[2])]

    running = run(Odd(), input="class string, `a b` bigint, n bigint", key=["a b"])
    assert running.feed(("x", 1, 2)) == {"main": [{"k": "x", "n": 3}]}
