"""What every keyed state backend must do: a suite of tests for PyFlink's semantics.

Derive a test class and give it the backend:

```python
class TestMyBackend(StateSuite):
    def make_backend(self, uid, codec, key_groups, context, time):
        return MyBackend(uid, codec, key_groups, context, time)
```

Most tests check three times: in the epoch that wrote, in the next one, and after a load from the log. Log rows are read
and written without the backend, so a backend that agrees only with itself fails. `state_log_suite.py`, which this suite
includes, tests how epochs end.
"""

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from state_engine.api import (
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    TypeCodec,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import JobDefinitionError
from state_engine.testing.state_edge_suite import EdgeSuite
from state_engine.testing.state_evolution_suite import StateEvolutionSuite
from state_engine.testing.state_folding_suite import FoldingStateSuite
from state_engine.testing.state_harness import At, refused, same
from state_engine.testing.state_key_suite import EqualKeysSuite
from state_engine.testing.state_log_suite import StateLogSuite
from state_engine.testing.state_merging_suite import MergingStateSuite
from state_engine.testing.state_ttl_change_suite import TtlCleanupSuite
from state_engine.testing.state_ttl_suite import TtlExpirySuite

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.STRING())
_SINGLE = float(np.float32(0.1))
ROUTES = MapStateDescriptor("routes", Types.STRING(), Types.LONG())


class Pair:
    """A mutable class that is not a dataclass."""

    def __init__(self, left: int, right: str) -> None:
        self.left = left
        self.right = right


class PairCodec(TypeCodec[Pair]):
    """Stores a `Pair` as a row."""

    version = 3
    stored_type = "struct<left:bigint,right:string>"

    def encode(self, value: Pair) -> Any:
        return value.left, value.right

    def decode(self, stored: Any, version: int) -> Pair:
        assert version == self.version
        return Pair(stored.left, stored.right)


@dataclass
class Basket:
    """A mutable value."""

    owner: str
    items: list[str]


class ValueStateSuite(StateLogSuite):
    """Tests of value state."""

    def test_value_is_none_before_the_first_update(self) -> None:
        self.harness().everywhere(COUNT, lambda at: same(at("a").value(), None))

    def test_value_is_what_was_updated_last(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.state(COUNT).update(2)
        harness.everywhere(COUNT, lambda at: same(at("a").value(), 2))

    def test_value_update_with_none_clears(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.seal()
        harness.state(COUNT).update(None)
        harness.everywhere(COUNT, lambda at: same(at("a").value(), None))
        assert harness.backend.rows == 0

    def test_value_clear_hides_what_earlier_epochs_wrote(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.seal()
        harness.state(COUNT).clear()
        harness.everywhere(COUNT, lambda at: same(at("a").value(), None))

    def test_value_update_after_clear(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.seal()
        harness.state(COUNT).clear()
        harness.state(COUNT).update(5)
        harness.everywhere(COUNT, lambda at: same(at("a").value(), 5))

    def test_value_has_its_default_until_the_first_update(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", "bigint", 7), self.harness()
        harness.everywhere(descriptor, lambda at: same(at("a").value(), 7))
        harness.state(descriptor).update(0)
        harness.everywhere(descriptor, lambda at: same((at("a").value(), at("b").value()), (0, 7)))
        harness.state(descriptor).clear()
        harness.everywhere(descriptor, lambda at: same(at("a").value(), 7))
        assert harness.backend.rows == 0, "a default is not stored"

    def test_value_default_that_can_change_is_a_copy_and_reads_as_a_value(self) -> None:
        given = ["pear"]
        descriptor, harness = ValueStateDescriptor("v", Basket, ("ann", given)), self.harness()
        state = harness.state(descriptor)
        given.append("plum")

        def spoil(at: At) -> None:
            at("a").value().items.append("fig")
            same(at("a").value(), Basket("ann", ["pear"]))

        spoil(lambda *_: state)
        harness.everywhere(ValueStateDescriptor("v", Basket, ("ann", ["pear"])), spoil)

    def test_value_default_of_another_type_is_refused(self) -> None:
        wrong = ValueStateDescriptor("v", "bigint", "seven")
        refused(JobDefinitionError, "'seven'", lambda: self.harness().state(wrong))

    def test_value_falsy_values_are_values(self) -> None:
        for number, value in enumerate([0, "", False, b"", [], {}]):
            hint: Any = [int, str, bool, bytes, "array<int>", "map<int,int>"][number]
            descriptor, harness = ValueStateDescriptor("v", hint), self.harness()
            harness.state(descriptor).update(value)
            harness.everywhere(descriptor, lambda at, value=value: same(at("a").value(), value))  # type: ignore[misc]

    def test_value_keys_do_not_share(self) -> None:
        harness = self.harness()
        for key, value in [("a", 1), ("b", 2), (None, 3), ("", 4)]:
            harness.state(COUNT, key).update(value)
        harness.everywhere(
            COUNT, lambda at: same([at(k).value() for k in ("a", "b", None, "", "c")], [1, 2, 3, 4, None])
        )

    def test_value_namespaces_do_not_share(self) -> None:
        harness = self.harness()
        for namespace, value in [(None, 1), ("w1", 2), ("w2", 3), ("", 4)]:
            harness.state(COUNT, "a", namespace).update(value)
        harness.state(COUNT, "b", "w1").update(5)
        harness.seal()
        harness.state(COUNT, "a", "w2").clear()
        harness.everywhere(
            COUNT, lambda at: same([at("a", n).value() for n in (None, "w1", "w2", "", "w3")], [1, 2, None, 4, None])
        )

    def test_value_of_composite_keys(self) -> None:
        harness = self.harness("a string, b bigint")
        for key in [("x", 1), ("x", None), (None, 1), (None, None)]:
            harness.state(COUNT, key).update(len(repr(key)))
        harness.everywhere(COUNT, lambda at: same(at((None, 1)).value(), len("(None, 1)")))
        harness.everywhere(COUNT, lambda at: same(at((None, None)).value(), len("(None, None)")))

    def test_value_of_a_codec(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", PairCodec()), self.harness()
        pair = Pair(1, "x")
        harness.state(descriptor).update(pair)
        pair.right = "y"
        harness.everywhere(descriptor, lambda at: same((at("a").value().left, at("a").value().right), (1, "x")))
        harness.everywhere(descriptor, lambda at: same(at("b").value(), None))

    def test_value_that_was_put_can_change_without_changing_the_state(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", Basket), self.harness()
        basket = Basket("ann", ["pear"])
        harness.state(descriptor).update(basket)
        basket.items.append("plum")
        harness.everywhere(descriptor, lambda at: same(at("a").value(), Basket("ann", ["pear"])))

    def test_value_that_was_handed_out_can_change_without_changing_the_state(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", "map<string,array<int>>"), self.harness()
        harness.state(descriptor).update({"a": [1]})

        def spoil(at: At) -> None:
            at("a").value()["a"].append(2)
            same(at("a").value(), {"a": [1]})

        harness.everywhere(descriptor, spoil)

    def test_value_reads_alike_in_every_epoch(self) -> None:
        utc = datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.UTC)
        given: list[tuple[Any, Any, Any]] = [
            ("struct<a:int,b:string>", (1, "x"), Row(a=1, b="x")),
            (Types.TUPLE([int, str]), Row(1, "x"), (1, "x")),
            (Basket, {"owner": "ann", "items": ("pear",)}, Basket("ann", ["pear"])),
            ("array<struct<a:int>>", ((1,), {"a": 2}), [Row(a=1), Row(a=2)]),
            ("binary", bytearray(b"x"), b"x"),
            ("timestamp", utc, utc),
            ("decimal(10,2)", decimal.Decimal("1.5"), decimal.Decimal("1.50")),
        ]
        for hint, put, expected in given:
            descriptor, harness = ValueStateDescriptor("v", hint), self.harness()
            harness.state(descriptor).update(put)
            harness.everywhere(descriptor, lambda at, expected=expected: same(at("a").value(), expected))  # type: ignore[misc]

    def test_value_is_at_once_what_a_load_gives(self) -> None:
        noon = datetime.datetime(2026, 3, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        given: list[tuple[Any, Any, Any]] = [
            ("double", 3, "3.0"),
            ("double", np.float64(1.5), "1.5"),
            ("float", 0.1, repr(_SINGLE)),
            ("float", 16_777_216, "16777216.0"),
            ("decimal(10,3)", decimal.Decimal("1.5"), "Decimal('1.500')"),
            ("decimal(10,3)", 2, "Decimal('2.000')"),
            ("timestamp", noon, repr(noon.astimezone(datetime.UTC))),
        ]
        for hint, put, expected in given:
            harness = self.harness()
            value, listed = ValueStateDescriptor("v", hint), ListStateDescriptor("l", hint)
            mapped, row = MapStateDescriptor("m", hint, hint), ValueStateDescriptor("r", f"struct<a:{hint}>")
            harness.state(value).update(put)
            harness.state(listed).add_all([put, put])
            harness.state(mapped).put(put, put)
            harness.state(row).update((put,))
            harness.everywhere(value, lambda at, e=expected: same(repr(at("a").value()), e))  # type: ignore[misc]
            harness.everywhere(listed, lambda at, e=expected: same(repr(list(at("a").get())), f"[{e}, {e}]"))  # type: ignore[misc]
            harness.everywhere(mapped, lambda at, e=expected: same(repr(list(at("a").items())), f"[({e}, {e})]"))  # type: ignore[misc]
            harness.everywhere(mapped, lambda at, p=put, e=expected: same(repr(at("a").get(p)), e))  # type: ignore[misc]
            harness.everywhere(row, lambda at, e=expected: same(repr(at("a").value().a), e))  # type: ignore[misc]

    def test_value_of_a_later_epoch_is_what_a_load_gives(self) -> None:
        given: list[tuple[Any, Any, Any]] = [("double", 3, 3.0), ("float", 0.1, _SINGLE), ("bigint", np.int64(3), 3)]
        for hint, put, expected in given:
            descriptors = [ValueStateDescriptor("v", hint), ListStateDescriptor("l", hint)]
            mapped, harness = MapStateDescriptor("m", hint, hint), self.harness()
            value, listed = (harness.state(descriptor) for descriptor in descriptors)
            value.update(put)
            listed.add(put)
            harness.state(mapped).put(put, put)
            harness.seal()
            for place in (harness, harness.reopened()):
                value, listed = (place.state(descriptor) for descriptor in descriptors)
                values = [value.value(), *listed.get(), *place.state(mapped).keys(), *place.state(mapped).values()]
                for each in values:
                    same(each, expected)


class ListStateSuite(StateLogSuite):
    """Tests of list state."""

    def test_list_is_empty_before_the_first_add(self) -> None:
        self.harness().everywhere(TAGS, lambda at: same(list(at("a").get()), []))

    def test_list_keeps_the_order_of_adding(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add("x")
        harness.seal()
        harness.state(TAGS).add_all(["y", "x"])
        harness.state(TAGS, "b").add("other")
        harness.state(TAGS).add("z")
        harness.everywhere(TAGS, lambda at: same(list(at("a")), ["x", "y", "x", "z"]))

    def test_list_of_many_elements_keeps_their_order(self) -> None:
        harness = self.harness("k bigint")
        for number in range(300):
            for key in range(20):
                harness.state(TAGS, key).add(str(number))
        order = [str(number) for number in range(300)]
        harness.everywhere(TAGS, lambda at: same([list(at(key)) for key in range(20)], [order] * 20))

    def test_list_update_replaces(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add_all(["x", "y"])
        harness.seal()
        harness.state(TAGS).add("z")
        harness.state(TAGS).update(["new"])
        harness.state(TAGS).add("more")
        harness.everywhere(TAGS, lambda at: same(list(at("a").get()), ["new", "more"]))

    def test_list_update_with_nothing_clears(self) -> None:
        ways: list[Callable[[Any], None]] = [lambda s: s.update([]), lambda s: s.clear()]
        for cleared in ways:
            harness = self.harness()
            harness.state(TAGS).add_all(["x", "y"])
            harness.seal()
            cleared(harness.state(TAGS))
            harness.everywhere(TAGS, lambda at: same(list(at("a").get()), []))
            assert harness.backend.rows == 0

    def test_list_add_after_clear(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add("x")
        harness.seal()
        harness.state(TAGS).clear()
        harness.state(TAGS).add("y")
        harness.everywhere(TAGS, lambda at: same(list(at("a").get()), ["y"]))

    def test_list_adding_nothing_writes_nothing(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add_all([])
        assert harness.seal() == {}

    def test_list_get_is_as_of_the_call(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add("x")
        elements = harness.state(TAGS).get()
        harness.state(TAGS).add("y")
        assert list(elements) == ["x"]

    def test_list_elements_may_be_null(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add_all([None, "x", None])
        harness.everywhere(TAGS, lambda at: same(list(at("a").get()), [None, "x", None]))

    def test_list_elements_that_can_change_are_copies(self) -> None:
        descriptor, harness = ListStateDescriptor("l", Basket), self.harness()
        basket = Basket("ann", ["pear"])
        given = [basket]
        harness.state(descriptor).add(basket)
        harness.state(descriptor, "b").update(given)
        basket.items.append("plum")
        given.append(basket)

        def spoil(at: At) -> None:
            for key in ("a", "b"):
                next(at(key).get()).items.append("fig")
                same(list(at(key).get()), [Basket("ann", ["pear"])])

        harness.everywhere(descriptor, spoil)

    def test_list_namespaces_do_not_share(self) -> None:
        harness = self.harness()
        harness.state(TAGS, "a", "w1").add("x")
        harness.state(TAGS, "a").add("y")
        harness.seal()
        harness.state(TAGS, "a").clear()
        harness.everywhere(TAGS, lambda at: same([list(at("a", "w1")), list(at("a"))], [["x"], []]))


class MapStateSuite(StateLogSuite):
    """Tests of map state."""

    def test_map_is_empty_before_the_first_put(self) -> None:
        def check(at: At) -> None:
            state = at("a")
            assert state.is_empty()
            assert state.get("x") is None
            assert not state.contains("x")
            assert (list(state.items()), list(state.keys()), list(state.values())) == ([], [], [])

        self.harness().everywhere(ROUTES, check)

    def test_map_put_and_remove(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put_all({"x": 1, "y": 2, "z": 3})
        harness.seal()
        harness.state(ROUTES).put("x", 10)
        harness.state(ROUTES).remove("y")
        harness.state(ROUTES).remove("never there")

        def check(at: At) -> None:
            state = at("a")
            assert dict(state.items()) == {"x": 10, "z": 3}
            assert sorted(state.keys()) == ["x", "z"]
            assert sorted(state.values()) == [3, 10]
            assert not state.contains("y")
            assert not state.is_empty()

        harness.everywhere(ROUTES, check)

    def test_map_operators(self) -> None:
        harness = self.harness()
        state = harness.state(ROUTES)
        state["x"] = 1
        state["y"] = 2
        del state["y"]
        harness.everywhere(ROUTES, lambda at: same((at("a")["x"], "x" in at("a"), "y" in at("a")), (1, True, False)))
        assert list(harness.state(ROUTES)) == ["x"]

    def test_map_is_empty_when_all_was_removed(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put("x", 1)
        harness.seal()
        harness.state(ROUTES).remove("x")
        harness.everywhere(ROUTES, lambda at: same((at("a").is_empty(), list(at("a").items())), (True, [])))
        assert harness.backend.rows == 0

    def test_map_clear_then_put(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put_all({"x": 1, "y": 2})
        harness.seal()
        harness.state(ROUTES).put("z", 3)
        harness.state(ROUTES).clear()
        harness.state(ROUTES).put("y", 20)
        harness.everywhere(ROUTES, lambda at: same((dict(at("a").items()), at("a").get("x")), ({"y": 20}, None)))

    def test_map_null_keys_and_null_values_are_not_absence(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put(None, 1)
        harness.state(ROUTES).put("x", None)

        def check(at: At) -> None:
            state = at("a")
            assert state.contains(None)
            assert state.get(None) == 1
            assert state.contains("x")
            assert state.get("x") is None
            assert dict(state.items()) == {None: 1, "x": None}

        harness.everywhere(ROUTES, check)
        harness.state(ROUTES).remove(None)
        harness.everywhere(ROUTES, lambda at: same(dict(at("a").items()), {"x": None}))

    def test_map_items_are_as_of_the_call(self) -> None:
        harness = self.harness()
        state = harness.state(ROUTES)
        state.put_all({"x": 1, "y": 2})
        for key, _ in state.items():
            state.remove(key)
            state.put(key * 2, 0)
        assert sorted(state.keys()) == ["xx", "yy"]

    def test_map_iterates_in_the_same_order_in_every_epoch(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put_all({"x": 1, "y": 2, "z": 3})
        harness.seal()
        harness.state(ROUTES).put("x", 9)
        harness.state(ROUTES).put("w", 4)
        order = list(harness.state(ROUTES).keys())
        harness.everywhere(ROUTES, lambda at: same(list(at("a").keys()), order))

    def test_map_values_that_can_change_are_copies(self) -> None:
        descriptor, harness = MapStateDescriptor("m", int, "array<int>"), self.harness()
        given = [1]
        harness.state(descriptor).put(7, given)
        given.append(2)

        def spoil(at: At) -> None:
            at("a").get(7).append(3)
            next(iter(at("a").values())).append(3)
            next(iter(at("a").items()))[1].append(3)
            same(at("a").get(7), [1])

        harness.everywhere(descriptor, spoil)

    def test_map_user_keys_may_be_rows(self) -> None:
        for hint in ("struct<a:int,b:string>", Types.TUPLE([Types.INT(), Types.STRING()])):
            descriptor, harness = MapStateDescriptor("m", hint, int), self.harness()
            harness.state(descriptor).put((1, "x"), 5)

            def check(at: At) -> None:
                state = at("a")
                same([state.get((1, "x")), state[Row(1, "x")], state[Row(a=1, b="x")]], [5, 5, 5])
                assert state.contains((1, "x"))
                same([tuple(key) for key in state], [(1, "x")])

            harness.everywhere(descriptor, check)
            harness.state(descriptor).remove((1, "x"))
            assert harness.state(descriptor).is_empty()


class StateSuite(
    ValueStateSuite,
    ListStateSuite,
    MapStateSuite,
    FoldingStateSuite,
    MergingStateSuite,
    EqualKeysSuite,
    EdgeSuite,
    TtlExpirySuite,
    TtlCleanupSuite,
    StateEvolutionSuite,
):
    """All tests of a keyed state backend."""


__all__ = ["ListStateSuite", "MapStateSuite", "StateSuite", "ValueStateSuite"]
