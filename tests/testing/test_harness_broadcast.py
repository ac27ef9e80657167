"""Broadcast state in the harness: the same in every subtask, written by one side only, restored at any parallelism."""

from collections.abc import Iterator
from typing import Any

import pytest

from state_engine.api import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import (
    BroadcastDivergenceError,
    JobDefinitionError,
    ReadOnlyStateError,
    StateTypeChangedError,
    UserFunctionError,
)
from state_engine.testing import KeyedBroadcastOperatorTestHarness, repackage_state

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
LIMITS = MapStateDescriptor("limits", Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LIST(Types.DOUBLE()))


class Match(KeyedBroadcastProcessFunction):
    """Multiplies values by the rule of their key, and counts them; a rule of 0 removes one, -1 removes all."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value.k, value.v * (ctx.get_broadcast_state(RULES).get(value.k) or 0), self.count.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        if value.factor == -1:
            rules.clear()
        elif value.factor == 0:
            del rules[value.name]
        else:
            rules[value.name] = value.factor


def harness_of(function: Any = None, **given: Any) -> KeyedBroadcastOperatorTestHarness:
    return KeyedBroadcastOperatorTestHarness(
        function or Match(),
        given.pop("key", "k"),
        "k string, v bigint",
        "name string, factor bigint",
        "k string, product bigint, times bigint",
        given.pop("descriptors", [RULES]),
        **given,
    )


def taken(harness: KeyedBroadcastOperatorTestHarness) -> list[Any]:
    rows = sorted(harness.extract_output_values())
    harness.clear_output()
    return rows


def test_every_subtask_has_the_rules_and_the_log_has_them_once() -> None:
    with harness_of(parallelism=3) as harness:
        harness.process_elements([(2, ("a", 2)), (2, ("b", 3)), (2, ("c", 4))])
        harness.process_elements([(1, (k, 10)) for k in "abcd"])
        assert taken(harness) == [("a", 20, 1), ("b", 30, 1), ("c", 40, 1), ("d", 0, 1)]
        snapshot = harness.snapshot()
        assert snapshot.broadcast_states() == {"rules": {"a": 2, "b": 3, "c": 4}}
        assert snapshot.table("rules").num_rows == 3
        assert set(snapshot.table("rules").column("key_group").to_pylist()) == {0}


def test_elements_come_before_the_records_of_an_epoch() -> None:
    with harness_of() as harness:
        harness.process_elements([(1, ("a", 1)), (2, ("a", 5)), (1, ("a", 1))])
        assert taken(harness) == [("a", 5, 1), ("a", 5, 2)]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_restored_at_another_parallelism(parallelism: int) -> None:
    with harness_of(parallelism=2) as before:
        before.process_elements([(2, ("a", 2)), (2, ("b", 3)), (1, ("a", 1))])
        before.process_elements([(2, ("a", 7)), (2, ("b", 0))])
    with harness_of(parallelism=parallelism) as after:
        after.initialize_state(before.snapshot())
        after.process_elements([(1, ("a", 1)), (1, ("b", 1))])
        assert taken(after) == [("a", 7, 2), ("b", 0, 1)]
        after.process_broadcast_element(("x", -1))
        after.process_broadcast_element(("b", 9))
        assert after.snapshot().broadcast_states() == {"rules": {"b": 9}}


class Weigh(BroadcastProcessFunction):
    """Emits the rules; holds them as the descriptor says."""

    def __init__(self, rules: MapStateDescriptor) -> None:
        self.rules = rules

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (repr(ctx.get_broadcast_state(self.rules).items()),)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        fields = len(self.rules.type_info.names)  # type: ignore[attr-defined]
        ctx.get_broadcast_state(self.rules).put(value.name, (value.factor,) * fields)


def test_the_type_of_a_broadcast_state_may_change() -> None:
    def weighing(rules: MapStateDescriptor, parallelism: int = 2) -> KeyedBroadcastOperatorTestHarness:
        columns = ("k string", "name string, factor int", "found string")
        return KeyedBroadcastOperatorTestHarness(Weigh(rules), (), *columns, [rules], parallelism=parallelism)

    with weighing(MapStateDescriptor("rules", Types.STRING(), "struct<f:int>")) as before:
        before.process_broadcast_element(("a", 2))
        snapshot = before.snapshot()
    now = MapStateDescriptor("rules", Types.STRING(), "struct<unit:int,factor:bigint>").with_alias("factor", "f")
    now.with_default("unit", 10)
    with weighing(now) as after:
        after.initialize_state(snapshot)
        after.process_element(("x",))
        after.process_broadcast_element(("b", 3))
        after.process_element(("x",))
        for restored in (after, weighing(now, 3)):
            if restored is not after:
                restored.initialize_state(after.snapshot())
                restored.process_element(("x",))
            assert "('a', Row(unit=10, factor=2))" in taken(restored)[0][0]
        assert after.snapshot().broadcast_states()["rules"]["b"].factor == 3
    narrower = MapStateDescriptor("rules", Types.STRING(), "struct<f:smallint>")
    with pytest.raises(StateTypeChangedError, match=r"'rules' \(broadcast\).*f was int, is smallint"):
        weighing(narrower).initialize_state(snapshot)


def test_a_map_keeps_its_order_warm_as_restored() -> None:
    class Show(Match):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            rules = ctx.get_broadcast_state(RULES)
            seen = f"{rules.items()} {list(rules.keys())} {list(rules)} {'a' in rules}"
            yield seen, sum(rules.values()), len(list(rules))

    with harness_of(Show()) as warm, harness_of(Show()) as anew:
        for rules in ([("b", 1), ("a", 2)], [("b", 3)], [("a", 0), ("c", 1), ("a", 4)], [("x", -1), ("z", 1)]):
            for harness in (warm, anew):
                harness.process_elements([*((2, rule) for rule in rules), (1, ("k", 1))])
                harness.process_element(("k", 1))
            assert taken(warm) == taken(anew)
            anew.close()


def test_rows_and_lists_in_the_map() -> None:
    class Limits(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            limits = ctx.get_broadcast_state(LIMITS)
            assert limits.contains((value.k, value.v))
            next(iter(limits.values())).append(1.0)
            yield value.k, int(sum(limits.get((value.k, value.v)))), 0

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            limits = ctx.get_broadcast_state(LIMITS)
            limits.put_all({(value.name, value.factor): [1, 2]})
            assert not limits.is_empty()
            limits.remove(("absent", 1))

    with harness_of(Limits(), key=(), descriptors=[LIMITS], parallelism=2) as harness:
        harness.process_broadcast_element(("a", 1))
        for _ in range(2):
            harness.process_element(("a", 1))
            harness.close()
        assert taken(harness) == [("a", 3, 0), ("a", 3, 0)]


@pytest.mark.parametrize(
    "write",
    [
        lambda state: state.put("a", 1),
        lambda state: state.put_all({"a": 1}),
        lambda state: state.remove("a"),
        lambda state: state.clear(),
        lambda state: state.__setitem__("a", 1),
        lambda state: state.__delitem__("a"),
    ],
)
@pytest.mark.parametrize("side", ["element", "timer"])
def test_the_side_of_the_data_may_not_write(write: Any, side: str) -> None:
    class Writing(Match):
        def process_element(self, value: Any, ctx: Any) -> None:
            if side == "element":
                write(ctx.get_broadcast_state(RULES))
            ctx.timer_service().register_processing_time_timer(5)

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            write(ctx.get_broadcast_state(RULES))

    def live() -> None:
        harness.process_element(("a", 1))
        harness.set_processing_time(5)

    with harness_of(Writing()) as harness:
        with pytest.raises(UserFunctionError, match=r"ReadOnlyStateError: The broadcast state 'rules'") as found:
            live()
        assert isinstance(found.value.__cause__, ReadOnlyStateError)


def test_subtasks_that_differ_are_named_and_nothing_is_kept() -> None:
    class Diverging(Match):
        def open(self, runtime_context: Any) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put(value.name, value.factor + (self.subtask == 1))

    with harness_of(Diverging(), parallelism=3) as harness:
        with pytest.raises(BroadcastDivergenceError, match=r"'rules'.*subtask 0, 2 against subtask 1"):
            harness.process_broadcast_element(("a", 1))
        assert harness.snapshot().manifest.epoch == 0


def test_the_broadcast_side_has_no_key() -> None:
    class Keyless(Match):
        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            self.count.update(1)

    with harness_of(Keyless()) as harness, pytest.raises(UserFunctionError, match="no current key"):
        harness.process_broadcast_element(("a", 1))


def test_a_value_of_another_type_is_named() -> None:
    class Wrong(Match):
        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put(value.name, "much")

    with harness_of(Wrong()) as harness, pytest.raises(StateTypeChangedError, match="broadcast state 'rules'"):
        harness.process_broadcast_element(("a", 1))


def test_only_declared_states_are_there() -> None:
    with harness_of(descriptors=[LIMITS]) as harness, pytest.raises(UserFunctionError, match="declared are 'limits'"):
        harness.process_broadcast_element(("a", 1))


def test_functions_of_the_wrong_kind_are_refused() -> None:
    class Other(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            return None

    with pytest.raises(JobDefinitionError, match="KeyedBroadcastProcessFunction"):
        harness_of(Other())
    with pytest.raises(JobDefinitionError, match="BroadcastProcessFunction"):
        harness_of(Match(), key=())


def test_subtasks_are_put_together() -> None:
    parts = [harness_of(parallelism=2, subtask=n) for n in range(2)]
    for part in parts:
        part.process_broadcast_element(("a", 2))
    assert repackage_state(*(part.snapshot() for part in parts)).broadcast_states() == {"rules": {"a": 2}}
