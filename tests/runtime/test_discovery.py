"""The states that a function will access are discovered when the job is built."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.core.broadcast import _from_id

from state_engine.api import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    RuntimeContext,
    StateInitializationContext,
    StateSnapshotContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import DuplicateStateError, JobDefinitionError, UnsupportedTypeError
from state_engine.runtime.discovery import discover_states


def sent(function: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(function))


class Base(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return None


class Two(Base):
    opened = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = True
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.again = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.routes = runtime_context.get_map_state(MapStateDescriptor("routes", str, int))


def test_states_are_found_on_a_copy(spec: Any) -> None:
    function = Two()
    schemas = discover_states(spec(function), sent).states
    assert [(s.name, s.shape, s.value) for s in schemas] == [("count", "value", "bigint"), ("routes", "map", "bigint")]
    assert [c.name for c in schemas[0].key] == ["k"]
    assert not function.opened


def test_a_function_without_states(spec: Any) -> None:
    assert discover_states(spec(Base()), sent).states == ()


class Raw(Base, CheckpointedFunction):
    def initialize_state(self, context: StateInitializationContext) -> None:
        self.keyed = list(context.get_raw_keyed_state_inputs())
        self.partitions = list(context.get_raw_operator_state_inputs())

    def snapshot_state(self, context: StateSnapshotContext) -> None: ...


def test_raw_states_that_are_read_are_found(spec: Any) -> None:
    keyed, partitions = discover_states(spec(Raw()), sent).states
    assert (keyed.name, keyed.kind, keyed.shape) == ("_raw_keyed_state", "keyed", "value")
    assert (partitions.name, partitions.kind, partitions.shape) == ("_raw_operator_state", "operator", "list")
    assert [(schema.key, schema.value) for schema in (keyed, partitions)] == [((), "binary")] * 2


class Needing(Base):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        raise ConnectionError("only a worker can reach it")


class ClosingBadly(Two):
    def close(self) -> None:
        raise ConnectionError("was never open")


@pytest.mark.parametrize(("kind", "names"), [(Needing, ["count"]), (ClosingBadly, ["count", "routes"])])
def test_an_open_that_needs_a_worker_does_no_harm(spec: Any, kind: type, names: list[str]) -> None:
    discovered = discover_states(spec(kind()), sent)
    assert [s.name for s in discovered.states] == names
    assert discovered.all_known is (kind is ClosingBadly), "only if open() came to its end"


def test_one_name_with_two_types_is_refused(spec: Any) -> None:
    class Twice(Base):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", Types.LONG()))
            runtime_context.get_list_state(ListStateDescriptor("s", Types.LONG()))

    with pytest.raises(DuplicateStateError, match="'s'"):
        discover_states(spec(Twice()), sent)


def test_a_type_without_a_stored_form_is_refused(spec: Any) -> None:
    class Odd(Base):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", complex))

    with pytest.raises(UnsupportedTypeError, match="complex"):
        discover_states(spec(Odd()), sent)


def test_a_state_that_is_used_in_open_is_refused(spec: Any) -> None:
    class Hasty(Base):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", Types.LONG())).value()

    with pytest.raises(JobDefinitionError, match=r"value\(\) was called on a state inside open"):
        discover_states(spec(Hasty()), sent)


def test_a_function_without_keys_may_not_ask(spec: Any) -> None:
    class Hoping(ProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", Types.LONG()))

        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
            return None

    with pytest.raises(JobDefinitionError, match="no key"):
        discover_states(spec(Hoping()), sent)


def test_a_function_that_cannot_be_sent_is_refused(spec: Any) -> None:
    class Locked(Base):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(JobDefinitionError, match=r"'op' cannot be sent to a worker.*lock") as refused:
        discover_states(spec(Locked()), sent)
    assert "open()" in refused.value.action


class Variable:
    """Pickles as `sc.broadcast(...)` does."""

    def __reduce__(self) -> Any:
        return _from_id, (3,)


def test_a_broadcast_variable_of_spark_is_refused_with_what_to_do_instead(spec: Any) -> None:
    function = Base()
    function.rates = Variable()
    with pytest.raises(JobDefinitionError, match=r"Broadcast variable .* not loaded") as refused:
        discover_states(spec(function), sent)
    assert "Keep the value itself" in refused.value.action
