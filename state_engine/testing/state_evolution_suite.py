"""What happens to a state when its type changes: a part of `StateSuite`."""

from functools import partial
from typing import Any

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import StateMigrationError, StateTypeChangedError
from state_engine.log.ops import Op
from state_engine.testing.state_harness import MAX_PARALLELISM, StateHarness, refused, same
from state_engine.testing.state_log_suite import StateLogSuite

OLD = "struct<a:int,b:string,c:double>"
NEW = "struct<c:double,n:bigint,d:string>"


def _described(value: StateDescriptor) -> StateDescriptor:
    return value.with_alias("n", "a").with_default("d", "new")


class _Both(AggregateFunction):
    """Keeps the last added value."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def create_accumulator(self) -> Any:
        return self.of(0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.of(value)

    def get_result(self, accumulator: Any) -> Any:
        return tuple(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


def _old(n: int) -> Any:
    return (n, f"b{n}", n / 2)


def _new(n: int) -> Any:
    return (n / 2, n, "new")


def _last(_: Any, value: Any) -> Any:
    return value


class StateEvolutionSuite(StateLogSuite):
    """Tests of values that were written with one type and are read with another."""

    def test_evolved_values_of_every_shape_are_converted(self) -> None:
        for restart in (False, True):
            harness = self.harness()
            harness.state(ValueStateDescriptor("v", OLD)).update(_old(1))
            harness.state(ListStateDescriptor("l", OLD)).update([_old(1), None, _old(2)])
            harness.state(MapStateDescriptor("m", "string", OLD)).put("x", _old(1))
            harness.state(ReducingStateDescriptor("r", _last, OLD)).add(_old(1))
            harness.state(AggregatingStateDescriptor("g", _Both(_old), OLD)).add(1)
            harness.seal()
            harness = harness.reopened()
            for number in (1, 2):
                self._check_new(harness)
                harness.state(_described(ValueStateDescriptor("v", NEW)), f"other{number}").update(_new(9))
                harness.seal()
                harness = harness.reopened() if restart else harness
            same(tuple(harness.state(_described(ValueStateDescriptor("v", NEW)), "other1").value()), _new(9))

    def _check_new(self, harness: StateHarness) -> None:
        same(tuple(harness.state(_described(ValueStateDescriptor("v", NEW))).value()), _new(1))
        elements = list(harness.state(_described(ListStateDescriptor("l", NEW))).get())
        same([e and tuple(e) for e in elements], [_new(1), None, _new(2)])
        same(tuple(harness.state(_described(MapStateDescriptor("m", "string", NEW))).get("x")), _new(1))
        same(tuple(harness.state(_described(ReducingStateDescriptor("r", _last, NEW))).get()), _new(1))
        same(harness.state(_described(AggregatingStateDescriptor("g", _Both(_new), NEW))).get(), _new(1))

    def test_evolved_plain_values_are_widened(self) -> None:
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", Types.INT())).update(1)
        harness.state(ListStateDescriptor("l", Types.INT())).update([1, 2])
        harness.seal()
        harness = harness.reopened()
        same(harness.state(ValueStateDescriptor("v", Types.DOUBLE())).value(), 1.0)
        harness.state(ListStateDescriptor("l", Types.LONG())).add(1 << 40)
        harness.seal()
        same(list(harness.reopened().state(ListStateDescriptor("l", Types.LONG())).get()), [1, 2, 1 << 40])

    def test_evolved_fields_that_went_do_not_come_back(self) -> None:
        """This does not depend on a fold in between; only the sequence of types counts."""
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", OLD)).update(_old(1))
        harness.seal()
        harness = harness.reopened()
        harness.state(ValueStateDescriptor("v", "struct<a:int>"), "other").update((5,))
        harness.seal()
        harness = harness.reopened()
        same(tuple(harness.state(ValueStateDescriptor("v", OLD)).value()), (1, None, None))
        same(tuple(harness.state(ValueStateDescriptor("v", OLD), "other").value()), (5, None, None))

    def test_evolved_types_that_do_not_fit_are_refused(self) -> None:
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", OLD)).update(_old(1))
        harness.seal()
        for new, says in (("struct<a:string>", "field a was int, is string"), ("bigint", "value was struct")):
            error = refused(
                StateTypeChangedError, says, partial(harness.reopened().state, ValueStateDescriptor("v", new))
            )
            assert "migrate_from" in error.action

    def test_evolved_values_keep_the_time_of_their_last_access(self) -> None:
        config = StateTtlConfig.new_builder(Time.seconds(1)).build()

        def described(value: str) -> StateDescriptor:
            descriptor = ValueStateDescriptor("v", value)
            descriptor.enable_time_to_live(config)
            return descriptor

        harness = self.harness()
        harness.state(described("int")).update(1)
        harness.seal(1_000)
        harness = harness.reopened()
        harness.time.processing_time = 1_900
        same(harness.state(described("bigint")).value(), 1)
        assert harness.seal(1_900) == {}, "a conversion is no access"
        harness.time.processing_time = 2_000
        same(harness.state(described("bigint")).value(), None)

    # By a function ------------------------------------------------------------------------------------------------

    def _migrating(self, calls: list[Any]) -> ValueStateDescriptor:
        def convert(value: int) -> str:
            calls.append(value)
            return f"#{value}"

        return ValueStateDescriptor("v", Types.STRING()).migrate_from(Types.INT(), convert)

    def test_migrated_state_is_written_as_a_whole_once(self) -> None:
        harness = self.harness()
        calls: list[int] = []
        for key in ("a", "b", "c"):
            harness.state(ValueStateDescriptor("v", Types.INT()), key).update(ord(key))
        harness.seal(1_000)
        harness.state(ValueStateDescriptor("v", Types.INT()), "c").clear()
        harness.seal(1_100)
        harness = harness.reopened()
        descriptor = self._migrating(calls)
        harness.state(descriptor, "b").update("own")
        rows = harness.seal(2_000)["v"]
        assert sorted(calls) == [97, 98]
        assert [row["key_group"] for row in rows if row["op"] == Op.RESET_GROUP] == list(range(MAX_PARALLELISM))
        assert sorted(row["seq"] for row in rows) == list(range(len(rows)))
        puts = sorted((row["k"], row["value"], row["last_access"]) for row in rows if row["op"] == Op.PUT)
        assert puts == [("a", "#97", 1_000), ("b", "#98", 1_000), ("b", "own", 2_000)]
        assert harness.seal() == {}
        for plain in (descriptor, ValueStateDescriptor("v", Types.STRING())):
            new_harness = harness.reopened()
            assert [new_harness.state(plain, key).value() for key in ("a", "b", "c")] == ["#97", "own", None]
            assert new_harness.seal() == {}
        assert len(calls) == 2

    def test_migrated_state_is_written_again_by_the_next_attempt(self) -> None:
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", Types.INT()), "a").update(1)
        harness.seal(1_000)
        harness = harness.reopened()
        descriptor = self._migrating([])
        harness.state(descriptor, "b").update("lost")
        harness.backend.freeze(1_500)
        harness.backend.forget()
        assert harness.state(descriptor, "a").value() == "#1"
        rows = harness.seal(2_000)["v"]
        assert [(row["k"], row["value"]) for row in rows if row["op"] == Op.PUT] == [("a", "#1")]

    def test_migrated_lists_and_maps(self) -> None:
        harness = self.harness()
        harness.state(ListStateDescriptor("l", Types.INT())).update([1, None, 2])
        harness.state(MapStateDescriptor("m", Types.STRING(), Types.INT())).put("x", 1)
        harness.seal()
        harness = harness.reopened()
        of_list = ListStateDescriptor("l", Types.STRING()).migrate_from(Types.INT(), str)
        of_map = MapStateDescriptor("m", Types.STRING(), Types.STRING()).migrate_from(Types.INT(), str)
        for _ in range(2):
            same(list(harness.state(of_list).get()), ["1", None, "2"])
            same(harness.state(of_map).get("x"), "1")
            harness.seal()
            harness = harness.reopened()

    def test_a_function_that_fails_is_named_and_loses_nothing(self) -> None:
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", Types.INT()), "a").update(7)
        harness.seal()
        failing = ValueStateDescriptor("v", Types.STRING()).migrate_from(Types.INT(), lambda v: str(v // 0))
        refused(StateMigrationError, "'v'", partial(harness.reopened().state, failing))
        refused(StateMigrationError, "ZeroDivisionError", partial(harness.reopened().state, failing))
        refused(StateMigrationError, "Key: 'a'. Value: 7", partial(harness.reopened().state, failing))
        wrong = ValueStateDescriptor("v", Types.STRING()).migrate_from(Types.INT(), float)
        refused(StateMigrationError, "7.0 (float) is not string", partial(harness.reopened().state, wrong))
        same(harness.reopened().state(ValueStateDescriptor("v", Types.INT()), "a").value(), 7)


__all__ = ["StateEvolutionSuite"]
