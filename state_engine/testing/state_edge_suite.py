"""Edge cases on which authors come to rely: a part of `StateSuite`.

It tests several states side by side, values equal to a default, nulls in unusual places, and reads during writes.
"""

from collections.abc import Callable
from typing import Any

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.testing.state_folding_suite import Adding, Mean
from state_engine.testing.state_harness import StateHarness, same
from state_engine.testing.state_log_suite import StateLogSuite
from state_engine.testing.state_ttl_cases import lives, routes, tags, with_ttl

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.STRING())
ROUTES = MapStateDescriptor("routes", Types.STRING(), Types.LONG())
SIZES = MapStateDescriptor("sizes", Types.LONG(), Types.LONG())
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
TOTAL = ReducingStateDescriptor("total", Adding(), Types.LONG())

ALL: list[tuple[StateDescriptor, Callable[[Any], None], Callable[[Any], Any], Any, Any]] = [
    (COUNT, lambda s: s.update(1), lambda s: s.value(), 1, None),
    (TAGS, lambda s: s.add("x"), lambda s: list(s.get()), ["x"], []),
    (ROUTES, lambda s: s.put("x", 1), lambda s: dict(s.items()), {"x": 1}, {}),
    (TOTAL, lambda s: s.add(1), lambda s: s.get(), 1, None),
    (MEAN, lambda s: s.add(1), lambda s: s.get(), 1.0, None),
]
"""For each state: descriptor, write, read, the result of `read` after `write`, its result for an empty state."""


class Counting(AggregateFunction):
    """Counts all added values, including nulls."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return f"{accumulator} added"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def _refuses(call: Callable[[], object], *kinds: type[Exception]) -> None:
    """Asserts that a call raises one of these errors."""
    try:
        call()
    except kinds:
        return
    raise AssertionError(f"none of {kinds} was raised")


def _sealed(harness: StateHarness) -> StateHarness:
    harness.seal()
    return harness


class SideBySideSuite(StateLogSuite):
    """Tests of several states of one operator, and of keys that are added and removed."""

    def test_edge_states_of_several_names_do_not_share(self) -> None:
        """States of the same kind and type do not share either."""
        other, harness = ValueStateDescriptor("other", Types.LONG()), self.harness()
        harness.state(COUNT).update(1)
        harness.everywhere(other, lambda at: same(at("a").value(), None))
        harness.state(other).update(13)
        harness.everywhere(COUNT, lambda at: same(at("a").value(), 1))
        harness.everywhere(other, lambda at: same(at("a").value(), 13))

    def test_edge_clearing_one_state_leaves_the_others_of_its_key(self) -> None:
        for cleared, *_ in ALL:
            harness = self.harness()
            for descriptor, write, *_ in ALL:
                write(harness.state(descriptor))
                write(harness.state(descriptor, "b"))
            harness.seal()
            harness.state(cleared).clear()
            for place in (harness, _sealed(harness), harness.reopened()):
                for descriptor, _, read, full, empty in ALL:
                    assert read(place.state(descriptor)) == (empty if descriptor is cleared else full)
                    assert read(place.state(descriptor, "b")) == full

    def test_edge_clearing_what_is_not_there_is_no_error_and_leaves_nothing(self) -> None:
        for descriptor, write, read, full, empty in ALL:
            harness = self.harness()
            harness.state(descriptor).clear()
            harness.seal()
            assert harness.backend.rows == harness.folded(descriptor).num_rows == 0
            assert read(harness.state(descriptor)) == empty
            harness.state(descriptor).clear()
            harness.state(descriptor).clear()
            write(harness.state(descriptor))
            assert read(harness.state(descriptor)) == full

    def test_edge_cleared_and_written_in_turn_within_one_epoch(self) -> None:
        for descriptor, write, read, full, empty in ALL:
            harness = self.harness()
            write(harness.state(descriptor))
            harness.seal()
            state = harness.state(descriptor)
            state.clear()
            assert read(state) == empty
            write(state)
            assert read(state) == full
            state.clear()
            assert read(state) == empty
            harness.everywhere(descriptor, lambda at, r=read, e=empty: same(r(at("a")), e))  # type: ignore[misc]
            assert harness.backend.rows == harness.folded(descriptor).num_rows == 0

    def test_edge_entries_are_counted_as_they_come_and_go(self) -> None:
        harness = self.harness()

        def counted() -> int:
            harness.seal()
            return harness.backend.rows

        harness.state(COUNT).update(1)
        harness.state(COUNT).update(2)
        assert counted() == 1
        harness.state(COUNT, "b").update(3)
        assert counted() == 2
        harness.state(COUNT).clear()
        assert counted() == 1
        harness.state(COUNT, "b").clear()
        assert counted() == 0

    def test_edge_what_was_sealed_is_not_changed_by_what_comes_after(self) -> None:
        harness = self.harness("k bigint")
        for key in range(10):
            harness.state(COUNT, key).update(key)
        harness.seal()
        snapshot = harness.reopened()
        for key in range(5, 15):
            harness.state(COUNT, key).update(key + 1)
        harness.seal()
        assert [snapshot.state(COUNT, key).value() for key in (0, 5, 9, 11)] == [0, 5, 9, None]
        assert [harness.state(COUNT, key).value() for key in (0, 5, 9, 11)] == [0, 6, 10, 12]


class NullAndDefaultSuite(StateLogSuite):
    """Tests of nulls, and of values that equal a default or are empty."""

    def test_edge_update_with_none_reads_as_the_default(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", "bigint", 42), self.harness()
        state = harness.state(descriptor)
        state.update(1)
        harness.seal()
        state = harness.state(descriptor)
        state.clear()
        assert state.value() == 42
        state.update(17)
        state.update(None)
        harness.everywhere(descriptor, lambda at: same(at("a").value(), 42))
        assert harness.backend.rows == 0

    def test_edge_a_default_of_none_is_none(self) -> None:
        descriptor, harness = ValueStateDescriptor("v", "string", None), self.harness()
        harness.everywhere(descriptor, lambda at: same(at("a").value(), None))
        harness.state(descriptor).update("x")
        harness.everywhere(descriptor, lambda at: same(at("a").value(), "x"))
        harness.state(descriptor).clear()
        harness.everywhere(descriptor, lambda at: same(at("a").value(), None))

    def test_edge_a_value_equal_to_the_default_is_a_value(self) -> None:
        """The value is stored, and does not change when the next release has another default."""
        harness = self.harness()
        harness.state(ValueStateDescriptor("v", "bigint", 7)).update(7)
        harness.seal()
        assert harness.backend.rows == 1
        later = ValueStateDescriptor("v", "bigint", 8)
        fresh = harness.reopened()
        assert [fresh.state(later, key).value() for key in "ab"] == [7, 8]

    def test_edge_none_in_place_of_several_is_refused_and_changes_nothing(self) -> None:
        for config in (None, lives().build()):
            harness = self.harness()
            harness.state(tags(config)).add("x")
            harness.state(routes(config)).put("x", 1)
            harness.seal()
            calls: list[Callable[[], object]] = [
                lambda h=harness, c=config: h.state(tags(c)).add_all(None),  # type: ignore[misc]
                lambda h=harness, c=config: h.state(tags(c)).update(None),  # type: ignore[misc]
                lambda h=harness, c=config: h.state(routes(c)).put_all(None),  # type: ignore[misc]
            ]
            for call in calls:
                _refuses(call, TypeError, AttributeError)
            assert harness.seal() == {}
            assert list(harness.state(tags(config)).get()) == ["x"]
            assert dict(harness.state(routes(config)).items()) == {"x": 1}

    def test_edge_putting_nothing_writes_nothing(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put_all({})
        harness.state(TAGS).add_all([])
        assert harness.seal() == {}

    def test_edge_a_null_that_is_added_goes_to_the_function(self) -> None:
        """Except the first value of a reducing state, for which no function is called; PyFlink does the same."""
        either = ReducingStateDescriptor("r", lambda old, new: old if new is None else old + new, int)
        counted = AggregatingStateDescriptor("c", Counting(), Types.LONG())
        harness = self.harness()
        harness.state(either).add(None)
        assert harness.state(either).get() is None
        for value in (3, None, 4):
            harness.state(either).add(value)
            harness.state(counted).add(value)
        harness.everywhere(either, lambda at: same(at("a").get(), 7))
        harness.everywhere(counted, lambda at: same(at("a").get(), "3 added"))

    def test_edge_nulls_of_every_type(self) -> None:
        """List elements, map values and user keys may be null. A null in a value or folded state means no value."""
        nested = ["array<int>", "map<string,int>", "array<struct<a:int>>"]
        for hint in ["bigint", "string", "boolean", "double", "binary", "date", "struct<a:int,b:string>", *nested]:
            harness = self.harness()
            value, listed = ValueStateDescriptor("v", hint), ListStateDescriptor("l", hint)
            entries, keys = MapStateDescriptor("m", "string", hint), MapStateDescriptor("k", hint, "int")
            last = ReducingStateDescriptor("r", lambda old, new: new, hint)
            harness.state(value).update(None)
            harness.state(last).add(None)
            harness.state(listed).add_all([None, None])
            harness.state(entries).put("x", None)
            expected: list[Any] = [None, None, [None, None], {"x": None}]
            if hint not in nested:
                harness.state(keys).put(None, 1)
                expected.append({None: 1})
            for place in (harness, _sealed(harness), harness.reopened()):
                values = [place.state(value).value(), place.state(last).get(), list(place.state(listed).get())]
                values.extend(
                    dict(place.state(m).items()) for m in ((entries, keys) if hint not in nested else [entries])
                )
                assert values == expected, hint

    def test_edge_a_function_that_raises_leaves_the_state_as_it_was(self) -> None:
        harness = self.harness()
        for descriptor in (TOTAL, MEAN):
            harness.state(descriptor).add(1)
        harness.seal()
        for descriptor in (TOTAL, MEAN):
            harness.state(descriptor).add(2)
            _refuses(lambda d=descriptor: harness.state(d).add("x"), TypeError)  # type: ignore[misc]
        harness.everywhere(TOTAL, lambda at: same(at("a").get(), 3))
        harness.everywhere(MEAN, lambda at: same(at("a").get(), 1.5))

    def test_edge_an_accumulator_of_zero_is_one(self) -> None:
        harness = self.harness()
        harness.state(TOTAL).add(5)
        harness.state(TOTAL).add(-5)
        harness.everywhere(TOTAL, lambda at: same(at("a").get(), 0))
        assert harness.backend.rows == 1


class ReadingWhileWritingSuite(StateLogSuite):
    """Tests of iterators and values that were read before the state changed."""

    def test_edge_a_list_may_be_written_with_what_it_holds(self) -> None:
        for descriptor in (tags(None), tags(lives().build())):
            harness = self.harness()
            harness.state(descriptor).add_all(["x", "y"])
            for sealed in (False, True):
                if sealed:
                    harness.seal()
                state = harness.state(descriptor)
                state.update(state.get())
                assert list(state.get()) == ["x", "y"]
                state.update(tag for tag in state if tag == "x")
                assert list(state.get()) == ["x"]
                state.add_all(state.get())
                assert list(state.get()) == ["x", "x"]
                for tag in state:
                    state.add(tag + "!")
                harness.everywhere(descriptor, lambda at: same(list(at("a")), ["x", "x", "x!", "x!"]))
                state.update(["x", "y"])

    def test_edge_what_was_read_stays_that_of_its_key(self) -> None:
        harness = self.harness()
        for sealed in (False, True):
            for key in "ab":
                harness.state(TAGS, key).update([key])
                harness.state(ROUTES, key).put(key, 1)
            if sealed:
                harness.seal()
            tags = harness.state(TAGS).get()
            entries, keys, values = (getattr(harness.state(ROUTES), name)() for name in ("items", "keys", "values"))
            harness.at("b")
            harness.backend.state(ROUTES).clear()
            assert [list(tags), list(entries), list(keys), list(values)] == [["a"], [("a", 1)], ["a"], [1]]

    def test_edge_entries_of_a_large_map_go_while_it_is_iterated(self) -> None:
        for config in (None, lives().build()):
            self._thin_out(with_ttl(MapStateDescriptor("sizes", Types.LONG(), Types.LONG()), config))

    def _thin_out(self, descriptor: MapStateDescriptor) -> None:
        size, harness = 1_500, self.harness()
        for key in range(size):
            harness.state(descriptor).put(key, 2 * key)
            if key == size // 2:
                harness.seal()
        seen = []
        for key, value in harness.state(descriptor).items():
            seen.append((key, value))
            if key % 3 == 0:
                harness.state(descriptor).remove(key)
                harness.state(descriptor).remove(key)  # a second time is no error
            if key % 3 == 1:
                harness.state(descriptor).put(key, -1)
        assert sorted(seen) == [(key, 2 * key) for key in range(size)]
        left = {key: -1 if key % 3 == 1 else 2 * key for key in range(size) if key % 3}
        harness.everywhere(descriptor, lambda at: same(dict(at("a").items()), left))

    def test_edge_a_map_is_empty_only_without_its_last_entry(self) -> None:
        size, harness = 200, self.harness()
        for sealed in (False, True):
            state = harness.state(SIZES)
            for key in range(size):
                state.put(key, key)
                assert not state.is_empty()
            if sealed:
                harness.seal()
                state = harness.state(SIZES)
            for key in range(size):
                assert not state.is_empty()
                state.remove(key)
            assert state.is_empty()
        harness.seal()
        assert harness.backend.rows == 0

    def test_edge_an_entry_that_was_removed_may_come_again(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put("x", 1)
        harness.seal()
        state = harness.state(ROUTES)
        del state["x"]
        assert ("x" in state, state["x"], state.is_empty()) == (False, None, True)
        state["x"] = 2
        harness.everywhere(ROUTES, lambda at: same(list(at("a").items()), [("x", 2)]))
        assert harness.backend.rows == 1

    def test_edge_maps_of_keys_that_begin_alike_do_not_share(self) -> None:
        """Tests keys, namespaces and user keys with joined bytes that could be confused."""
        places: list[Any] = [("1", None), ("11", None), ("1", "1"), ("1", "11"), ("", "1"), ("1\0", "1")]
        harness = self.harness()
        for number, place in enumerate(places):
            harness.state(ROUTES, *place).put_all({"1": number, "11": -number, "": 100 + number})
        harness.seal()
        harness.state(ROUTES, "1", "1").clear()
        harness.state(ROUTES, "11", None).remove("1")

        def check(at: Callable[..., Any]) -> None:
            for number, place in enumerate(places):
                full = {"1": number, "11": -number, "": 100 + number}
                if place == ("1", "1"):
                    full = {}
                if place == ("11", None):
                    del full["1"]
                assert dict(at(*place).items()) == full, place

        harness.everywhere(ROUTES, check)


class EdgeSuite(SideBySideSuite, NullAndDefaultSuite, ReadingWhileWritingSuite):
    """All edge cases."""


__all__ = ["EdgeSuite"]
