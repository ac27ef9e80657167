"""A function's new version starts from the state of the old one."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from state_engine.api import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    RuntimeContext,
    StateDescriptor,
    TypeCodec,
    Types,
    ValueStateDescriptor,
    alias,
)
from state_engine.errors import DuplicateStateError, JobDefinitionError, StateMigrationError, StateTypeChangedError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.operator_state import OperatorSubtaskState, repackage_state


class Keeping(KeyedProcessFunction):
    """Emits what its state holds, as text, and puts what `write` makes of the record; sets a timer per key."""

    def __init__(self, descriptor: StateDescriptor, write: Callable[[Any], Any], *, lazily: bool = False) -> None:
        self.descriptor = descriptor
        self.write = write
        self.lazily = lazily

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        if not self.lazily:
            self.ask()

    def ask(self) -> Any:
        if isinstance(self.descriptor, ListStateDescriptor):
            return self.context.get_list_state(self.descriptor)
        if isinstance(self.descriptor, MapStateDescriptor):
            return self.context.get_map_state(self.descriptor)
        return self.context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        state = self.ask()
        if isinstance(self.descriptor, ListStateDescriptor):
            yield value.k, repr(list(state.get()))
            state.add(self.write(value.n))
        elif isinstance(self.descriptor, MapStateDescriptor):
            yield value.k, repr(dict(state.items()))
            state.put(str(value.n), self.write(value.n))
        else:
            yield value.k, repr(state.value())
            state.update(self.write(value.n))
        ctx.timer_service().register_event_time_timer(1_000 + value.n)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), f"timer {timestamp}"


def harness(
    descriptor: StateDescriptor, write: Callable[[Any], Any] = lambda n: n, **given: Any
) -> KeyedOneInputStreamOperatorTestHarness:
    function = Keeping(descriptor, write, lazily=given.pop("lazily", False))
    return KeyedOneInputStreamOperatorTestHarness(
        function, "k", "k string, n bigint", "k string, found string", max_parallelism=13, **given
    )


def written(
    descriptor: StateDescriptor, write: Callable[[Any], Any] = lambda n: n, **given: Any
) -> OperatorSubtaskState:
    with harness(descriptor, write, **given) as run:
        run.process_elements([("a", 1), ("b", 2), ("c", 3)])
        return run.snapshot()


def test_a_warm_function_and_its_new_version_agree() -> None:
    """The new version reads the same whether its records come in one epoch or in several, and after another restore."""

    @dataclass
    class Account:
        amount: int
        owner: str

    @dataclass
    class Address:
        city: str = "?"

    @dataclass
    class NewAccount:
        owner: str
        balance: float = field(metadata=alias("amount"))
        currency: str = "EUR"
        tags: list[str] = field(default_factory=list)
        address: Address | None = None
        opened: float | None = field(default_factory=time.time)

    NewAccount.__annotations__ |= {"address": Address, "opened": float}
    old = ValueStateDescriptor("account", Types.ROW_NAMED(["amount", "owner"], [Types.INT(), Types.STRING()]))
    snapshot = written(old, lambda n: (n, f"o{n}"), parallelism=2)
    now = ValueStateDescriptor("account", NewAccount)

    def write(n: int) -> Any:
        return NewAccount("new", n / 2, "USD", ["x"], Address("Rome"), 0.0)

    records = [("a", 10), ("b", 20), ("a", 30), ("d", 40)]
    outputs = []
    for cuts in ([4], [2, 2], [1, 1, 1, 1]):
        with harness(now, write, parallelism=3) as run:
            run.initialize_state(snapshot)
            rest = list(records)
            for cut in cuts:
                run.process_elements(rest[:cut])
                rest = rest[cut:]
            outputs.append(sorted(run.extract_output_values()))
            after = run.snapshot()
    assert outputs[0] == outputs[1] == outputs[2]
    first = NewAccount("o1", 1.0, "EUR", [], None, None)
    assert ("a", repr(first)) in outputs[0]
    with harness(now, write) as run:
        run.initialize_state(after)
        run.process_element(("c", 5))
        run.process_element(("a", 5))
        expected = [NewAccount("o3", 3.0, "EUR", [], None, None), write(30)]
        assert run.extract_output_values() == [("c", repr(expected[0])), ("a", repr(expected[1]))]


def test_lists_and_maps() -> None:
    snapshot = written(ListStateDescriptor("s", "struct<a:int>"), lambda n: (n,))
    with harness(ListStateDescriptor("s", "struct<b:bigint>").with_alias("b", "a"), lambda n: (n,)) as run:
        run.initialize_state(snapshot)
        run.process_elements([("a", 7), ("a", 8)])
        assert run.extract_output_values() == [("a", "[Row(b=1)]"), ("a", "[Row(b=1), Row(b=7)]")]
    snapshot = written(MapStateDescriptor("s", str, "int"))
    with harness(MapStateDescriptor("s", str, "double"), float) as run:
        run.initialize_state(snapshot)
        run.process_element(("a", 7))
        assert run.extract_output_values() == [("a", "{'1': 1.0}")]


def test_timers_are_what_they_were() -> None:
    snapshot = written(ValueStateDescriptor("s", "int"), parallelism=2)
    for descriptor in (
        ValueStateDescriptor("s", "bigint"),
        ValueStateDescriptor("s", "string").migrate_from("int", str),
    ):
        with harness(descriptor) as run:
            run.initialize_state(snapshot)
            run.process_watermark(1_002)
            assert run.extract_output_values() == [("a", "timer 1001"), ("b", "timer 1002")]
            assert run.num_event_time_timers() == 1


def types(snapshot: OperatorSubtaskState) -> list[tuple[str, list[str]]]:
    keyed = [schema for schema in snapshot.manifest.schemas if schema.kind == "keyed"]
    return [(schema.value, [former.value for former in schema.former]) for schema in keyed]


def test_a_snapshot_after_the_change_has_the_new_type_only() -> None:
    with harness(ValueStateDescriptor("s", "bigint")) as run:
        run.initialize_state(written(ValueStateDescriptor("s", "int")))
        assert types(run.snapshot()) == [("int", [])], "nothing was written yet"
        run.process_element(("a", 5))
        snapshot = run.snapshot()
    assert snapshot.states() == {"s": {"a": 5, "b": 2, "c": 3}}
    assert types(snapshot) == [("bigint", ["int"])]
    with harness(ValueStateDescriptor("s", "int")) as run, pytest.raises(StateTypeChangedError, match="bigint, is int"):
        run.initialize_state(snapshot)


def test_what_is_said_about_earlier_types_is_reported_with_a_change_only() -> None:
    old, new = (
        ValueStateDescriptor("s", "struct<a:int>"),
        ValueStateDescriptor("s", "struct<b:int>").with_alias("b", "a"),
    )

    def reported(run: KeyedOneInputStreamOperatorTestHarness) -> list[bool]:
        (operator,) = run._instances._running
        return [schema.declared is not None for schema in operator.schemas if schema.kind == "keyed"]

    with harness(new, lambda n: (n,)) as run:
        run.process_element(("a", 1))
        assert reported(run) == [False]
    with harness(new, lambda n: (n,)) as run:
        run.initialize_state(written(old, lambda n: (n,)))
        run.open()
        assert reported(run) == [True]
        run.process_element(("a", 1))
        assert reported(run) == [False]


def test_what_is_refused_names_state_field_types_and_remedy() -> None:
    snapshot = written(ValueStateDescriptor("s", "struct<p:struct<n:bigint>>"), lambda n: ((n,),))
    with harness(ValueStateDescriptor("s", "struct<p:struct<n:int>>")) as run:
        with pytest.raises(
            StateTypeChangedError, match=r"'s' \(keyed\) of operator 'operator'.*p.n was bigint, is int"
        ) as no:
            run.initialize_state(snapshot)
        assert "migrate_from()" in no.value.action


def test_a_function_migrates_every_value_once_at_any_parallelism() -> None:
    snapshot = written(ValueStateDescriptor("s", "int"), parallelism=2)
    migrating = ValueStateDescriptor("s", "string").migrate_from("int", lambda n: f"#{n}")
    with harness(migrating, str, parallelism=3) as run:
        run.initialize_state(snapshot)
        run.process_elements([("a", 7), ("a", 8)])
        assert run.extract_output_values() == [("a", "'#1'"), ("a", "'7'")]
        after = run.snapshot()
    assert after.states() == {"s": {"a": "8", "b": "#2", "c": "#3"}}
    with harness(ValueStateDescriptor("s", "string"), str) as run:
        run.initialize_state(after)
        run.process_elements([("b", 1)])
        assert run.extract_output_values() == [("b", "'#2'")]


def test_a_function_that_fails_keeps_the_state_and_the_next_start_goes_on() -> None:
    snapshot = written(ValueStateDescriptor("s", "int"))
    failing = ValueStateDescriptor("s", "string").migrate_from("int", lambda n: 1 // (n - 2))
    with harness(failing) as run:
        run.initialize_state(snapshot)
        with pytest.raises(
            StateMigrationError, match=r"'s' of operator 'operator'.*ZeroDivisionError.*Key: 'b'\. Value: 2"
        ):
            run.process_element(("a", 1))
        kept = run.snapshot()
    assert kept.states() == snapshot.states()
    with harness(ValueStateDescriptor("s", "string").migrate_from("int", str), str) as run:
        run.initialize_state(kept)
        run.process_element(("b", 1))
        assert run.extract_output_values() == [("b", "'2'")]


def test_an_epoch_that_fails_after_the_migration_migrates_again() -> None:
    def write(n: int) -> str:
        if n == 0:
            raise ValueError("no zero")
        return str(n)

    with harness(ValueStateDescriptor("s", "string").migrate_from("int", lambda n: f"#{n}"), write) as run:
        run.initialize_state(written(ValueStateDescriptor("s", "int")))
        with pytest.raises(Exception, match="no zero"):
            run.process_elements([("a", 1), ("b", 0)])
        run.process_element(("b", 5))
        assert run.snapshot().states() == {"s": {"a": "#1", "b": "5", "c": "#3"}}


def test_a_state_that_a_function_migrates_is_asked_for_in_open() -> None:
    migrating = ValueStateDescriptor("s", "string").migrate_from("int", str)
    with harness(migrating, str, parallelism=3, lazily=True) as run:
        run.initialize_state(written(ValueStateDescriptor("s", "int")))
        with pytest.raises(StateTypeChangedError, match=r"only 1 of 3 subtasks.*Ask for the state in open\(\)"):
            run.process_element(("a", 1))
        assert run.snapshot().states() == {"s": {"a": 1, "b": 2, "c": 3}}


def test_rules_need_no_open() -> None:
    with harness(ValueStateDescriptor("s", "bigint"), parallelism=3, lazily=True) as run:
        run.initialize_state(written(ValueStateDescriptor("s", "int")))
        run.process_element(("a", 1 << 40))
        run.process_element(("b", 7))
        assert run.extract_output_values() == [("a", "1"), ("b", "2")]
        assert run.snapshot().states() == {"s": {"a": 1 << 40, "b": 7, "c": 3}}


def test_snapshots_of_two_types_do_not_fit_together() -> None:
    parts = [written_part(ValueStateDescriptor("s", kind), subtask) for subtask, kind in enumerate(["int", "bigint"])]
    with pytest.raises(StateTypeChangedError, match="bigint in one snapshot and int in another"):
        repackage_state(*parts)


def written_part(descriptor: StateDescriptor, subtask: int) -> OperatorSubtaskState:
    with harness(descriptor, parallelism=2, subtask=subtask) as run:
        run.open()
        run.process_elements([])
        return run.snapshot()


class Point:
    """A value that a codec serializes."""

    def __init__(self, x: int, y: int, z: int) -> None:
        self.at = (x, y, z)

    def __repr__(self) -> str:
        return f"Point{self.at}"


class FlatCodec(TypeCodec[Point]):
    version = 0
    stored_type = "struct<x:int,y:int>"

    def encode(self, value: Point) -> Any:
        return value.at[:2]

    def decode(self, stored: Any, version: int) -> Point:
        return Point(stored.x, stored.y, 0)


class SpaceCodec(FlatCodec):
    version = 1
    stored_type = "struct<x:bigint,y:bigint,z:bigint>"

    def encode(self, value: Point) -> Any:
        return value.at

    def decode(self, stored: Any, version: int) -> Point:
        return Point(stored.x, stored.y, stored.z if version else -1)


def test_what_a_codec_stores_may_change() -> None:
    snapshot = written(ValueStateDescriptor("s", FlatCodec()), lambda n: Point(n, n, n))
    with harness(ValueStateDescriptor("s", SpaceCodec()), lambda n: Point(n, n, n)) as run:
        run.initialize_state(snapshot)
        run.process_elements([("a", 5), ("a", 6)])
        assert run.extract_output_values() == [("a", "Point(1, 1, -1)"), ("a", "Point(5, 5, 5)")]


class Buffer(ProcessFunction, CheckpointedFunction):
    """Keeps all records in an operator list, and emits them."""

    def __init__(self, descriptor: ListStateDescriptor, *, union: bool = False) -> None:
        self.descriptor = descriptor
        self.union = union

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.stored = (store.get_union_list_state if self.union else store.get_list_state)(self.descriptor)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield (repr(sorted(tuple(row) for row in self.stored)),)
        self.stored.add((value.n,) * len(self.descriptor.type_info.names))  # type: ignore[attr-defined]


@pytest.mark.parametrize("union", [False, True])
def test_operator_lists_follow_the_rules(union: bool) -> None:
    def buffer(descriptor: ListStateDescriptor, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
        function = Buffer(descriptor, union=union)
        return KeyedOneInputStreamOperatorTestHarness(function, (), "n int", "found string", **given)

    with buffer(ListStateDescriptor("s", "struct<a:int>"), parallelism=2) as run:
        run.process_elements([(1,), (2,), (3,)])
        snapshot = run.snapshot()
    now = ListStateDescriptor("s", "struct<new:int,b:bigint>").with_alias("b", "a").with_default("new", 9)
    for parallelism in (1, 3):
        with buffer(now, parallelism=parallelism) as run:
            run.initialize_state(snapshot)
            run.process_elements([(7,)])
            if parallelism == 1 or union:
                assert run.extract_output_values() == [(repr([(9, 1), (9, 2), (9, 3)]),)]
            after = run.snapshot()
        with buffer(now) as run:
            run.initialize_state(after)
            run.process_elements([(8,)])
            assert run.extract_output_values() == [(repr([(7, 7), (9, 1), (9, 2), (9, 3)]),)]
    with pytest.raises(StateTypeChangedError, match=r"\(operator\).*a was int, is string"):
        buffer(ListStateDescriptor("s", "struct<a:string>")).initialize_state(snapshot)
    with pytest.raises(JobDefinitionError, match="is not keyed state"):
        buffer(ListStateDescriptor("s", "bigint").migrate_from("int", str)).open()


WRONG: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("field", lambda: ValueStateDescriptor("s", "struct<a:int>").with_alias("b", "x"), JobDefinitionError, "one of a"),
    ("no field", lambda: ValueStateDescriptor("s", "int").with_default("b", 1), JobDefinitionError, "has no fields"),
    ("no name", lambda: ValueStateDescriptor("s", "struct<a:int>").with_alias("a"), JobDefinitionError, "at least one"),
    (
        "same type",
        lambda: ValueStateDescriptor("s", "int").migrate_from("int", str),
        JobDefinitionError,
        "one function for each",
    ),
    (
        "two functions",
        lambda: ValueStateDescriptor("s", "int").migrate_from("string", int).migrate_from("string", len),
        JobDefinitionError,
        "one function for each",
    ),
    (
        "default",
        lambda: harness(ValueStateDescriptor("s", "struct<a:int>").with_default("a", "x")),
        JobDefinitionError,
        "'a' of state 's' does not fit its type",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "says"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_said_about_earlier_types_is_checked(
    make: Callable[[], object], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_a_name_is_used_with_one_set_of_aliases() -> None:
    class Twice(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", "struct<a:int>"))
            runtime_context.get_state(ValueStateDescriptor("s", "struct<a:int>").with_alias("a", "b"))

        def process_element(self, value: Any, ctx: Any) -> Any: ...

    with pytest.raises(DuplicateStateError, match="two sets of aliases"):
        KeyedOneInputStreamOperatorTestHarness(Twice(), "k", "k string", "k string")
