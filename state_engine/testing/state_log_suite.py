"""How a keyed state backend ends epochs, what it logs, and how it follows a log: a part of `StateSuite`."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from state_engine.api import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.backends.keyed import KeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.stored_type import StateValueError
from state_engine.backends.time import OperatorTime
from state_engine.errors import DuplicateStateError, RoutingError, StateTypeChangedError, UnsupportedTypeError
from state_engine.key_groups import KeyGroupRange
from state_engine.log.ops import Op
from state_engine.testing.state_harness import ALL_KEY_GROUPS, MAX_PARALLELISM, StateHarness, refused

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.STRING())
ROUTES = MapStateDescriptor("routes", Types.STRING(), Types.LONG())


class StateLogSuite(ABC):
    """Tests of lifecycle and log; each test checks one guarantee."""

    @abstractmethod
    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> KeyedStateBackend:
        """Returns an empty backend."""

    def harness(self, key: str = "k string", key_groups: KeyGroupRange = ALL_KEY_GROUPS) -> StateHarness:
        """Returns an empty backend with an empty log."""
        return StateHarness(self.make_backend, key, key_groups=key_groups)

    def test_a_state_is_made_once(self) -> None:
        harness = self.harness()
        assert harness.state(COUNT) is harness.state(ValueStateDescriptor("count", int))
        assert [schema.name for schema in harness.backend.schemas] == ["count"]

    def test_one_name_with_two_types_is_refused(self) -> None:
        harness = self.harness()
        harness.state(COUNT)
        others: list[StateDescriptor] = [
            ValueStateDescriptor("count", str),
            ListStateDescriptor("count", int),
            MapStateDescriptor("count", str, int),
            ReducingStateDescriptor("count", max, int),
        ]
        for other in others:
            refused(DuplicateStateError, "'count'", partial(harness.state, other))
        refused(DuplicateStateError, "'routes'", self._two_maps)

    def _two_maps(self) -> None:
        harness = self.harness()
        harness.state(ROUTES)
        harness.state(MapStateDescriptor("routes", int, int))

    def test_a_type_other_than_the_logs_is_refused(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.state(ROUTES).put("x", 1)
        harness.seal()
        other: StateDescriptor
        others = [
            ValueStateDescriptor("count", str),
            ListStateDescriptor("count", int),
            ReducingStateDescriptor("count", max, int),  # it has the same rows, but a manifest would refuse it too
        ]
        for other in others:
            refused(StateTypeChangedError, "'count'", partial(harness.reopened().state, other))
        of_longs = MapStateDescriptor("routes", int, int)
        refused(StateTypeChangedError, "user key was string, is bigint", partial(harness.reopened().state, of_longs))

    def test_a_user_key_that_cannot_be_looked_up_is_refused(self) -> None:
        other = MapStateDescriptor("m", "array<int>", int)
        refused(UnsupportedTypeError, "array<int>", partial(self.harness().state, other))

    def test_an_epoch_without_writes_logs_nothing(self) -> None:
        harness = self.harness()
        harness.state(COUNT).value()
        assert harness.seal() == {}

    def test_rows_are_sorted_by_key_group_and_carry_it(self) -> None:
        harness = self.harness("k bigint")
        for key in range(200):
            harness.state(COUNT, key).update(key)
        rows = harness.seal()["count"]
        groups = [row["key_group"] for row in rows]
        assert groups == sorted(groups) == [harness.codec.key_group(row["k"]) for row in rows]
        assert set(groups) <= set(range(MAX_PARALLELISM))
        assert {row["k"]: row["value"] for row in rows} == {key: key for key in range(200)}

    def test_state_of_a_key_of_another_subtask_is_refused(self) -> None:
        harness = self.harness(key_groups=KeyGroupRange(0, 5))
        codec = harness.codec
        own_key, other_key = (
            next(k for k in map(str, range(99)) if (codec.key_group(k) <= 5) is mine) for mine in (True, False)
        )
        harness.state(COUNT, own_key).update(1)
        assert [row["k"] for row in harness.seal()["count"]] == [own_key]
        harness.state(COUNT, other_key).update(1)
        refused(RoutingError, repr(other_key), lambda: harness.backend.freeze(0))

    def test_seq_is_unique_across_states(self) -> None:
        harness = self.harness()
        for key in "abc":
            harness.state(COUNT, key).update(1)
            harness.state(TAGS, key).add_all(["x", "y"])
            harness.state(ROUTES, key).put("x", 1)
        rows = harness.seal()
        seqs = [row["seq"] for state in rows.values() for row in state]
        assert sorted(seqs) == list(range(12))

    def test_last_access_is_the_processing_time(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.state(TAGS).add("x")
        rows = harness.seal(processing_time=1_700_000_000_123)
        assert {row["last_access"] for state in rows.values() for row in state} == {1_700_000_000_123}

    def test_rows_that_remove_have_no_last_access(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.state(ROUTES).put_all({"x": 1, "y": 2})
        harness.state(ROUTES, "b").put("x", 1)
        harness.seal()
        harness.state(COUNT).clear()
        harness.state(COUNT, "b").update(2)
        harness.state(ROUTES).remove("x")
        harness.state(ROUTES).put("y", 3)
        harness.state(ROUTES, "b").clear()
        harness.state(ROUTES, "b").put("z", 3)
        harness.state(TAGS).update(["x", "y"])
        rows = [row for state in harness.seal(processing_time=123).values() for row in state]
        assert {(Op(row["op"]), row["last_access"]) for row in rows} == {
            (Op.PUT, 123),
            (Op.APPEND, 123),
            (Op.DELETE, None),
            (Op.CLEAR, None),
        }

    def test_a_value_is_logged_once_per_epoch(self) -> None:
        harness = self.harness()
        for number in range(5):
            harness.state(COUNT).update(number)
        assert _changes(harness.seal()["count"]) == [(Op.PUT, 4)]
        harness.state(COUNT).clear()
        assert _changes(harness.seal()["count"]) == [(Op.DELETE, None)]

    def test_appends_are_logged_as_appends(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add_all(["x", "y"])
        harness.seal()
        harness.state(TAGS).add("z")
        assert _changes(harness.seal()["tags"]) == [(Op.APPEND, "z")]

    def test_a_list_update_is_logged_as_clear_and_appends(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add("old")
        harness.seal()
        harness.state(TAGS).update(["x", "y"])
        harness.state(TAGS).add("z")
        expected = [(Op.CLEAR, None), (Op.APPEND, "x"), (Op.APPEND, "y"), (Op.APPEND, "z")]
        assert _changes(harness.seal()["tags"]) == expected

    def test_a_map_is_logged_entry_by_entry(self) -> None:
        harness = self.harness()
        harness.state(ROUTES).put_all({str(number): number for number in range(100)})
        harness.seal()
        harness.state(ROUTES).put("1", 10)
        harness.state(ROUTES).remove("2")
        rows = harness.seal()["routes"]
        assert [(row["op"], row["user_key"], row["value"]) for row in rows] == [
            (Op.PUT, "1", 10),
            (Op.DELETE, "2", None),
        ]
        harness.state(ROUTES).clear()
        harness.state(ROUTES).put("3", 3)
        rows = harness.seal()["routes"]
        assert [(row["op"], row["user_key"]) for row in rows] == [(Op.CLEAR, None), (Op.PUT, "3")]

    def test_namespaces_are_logged(self) -> None:
        harness = self.harness()
        harness.state(COUNT, "a", "w1").update(1)
        harness.state(COUNT, "a").update(2)
        assert {row["namespace"]: row["value"] for row in harness.seal()["count"]} == {"w1": 1, None: 2}

    def test_forgotten_changes_never_happened(self) -> None:
        harness = self.harness()
        harness.state(COUNT).update(1)
        harness.state(TAGS).add("x")
        harness.state(ROUTES).put("x", 1)
        harness.seal()
        harness.state(COUNT).update(2)
        harness.state(TAGS).clear()
        harness.state(ROUTES).remove("x")
        harness.backend.freeze(0)
        harness.backend.forget()
        assert harness.state(COUNT).value() == 1
        assert list(harness.state(TAGS).get()) == ["x"]
        assert harness.state(ROUTES).get("x") == 1
        harness.state(COUNT).update(3)
        harness.backend.forget()
        assert harness.state(COUNT).value() == 1
        assert harness.seal() == {}

    def test_a_wrong_value_is_refused_with_state_and_key_and_can_be_forgotten(self) -> None:
        harness = self.harness()
        harness.state(TAGS).add("x")
        harness.seal()
        harness.state(TAGS).add("y")
        harness.state(COUNT, "b").update("five")
        error = refused(StateValueError, "'five'", lambda: harness.backend.freeze(0))
        assert error.entry == "b"
        assert "state 'count'" in getattr(error, "__notes__", [])
        harness.backend.forget()
        assert list(harness.state(TAGS).get()) == ["x"]
        assert harness.state(COUNT, "b").value() is None

    def test_a_state_is_loaded_when_it_is_asked_for(self) -> None:
        harness = self.harness()
        harness.write_to_log(COUNT, [{"k": "a", "op": Op.PUT, "value": 1}, {"k": "b", "op": Op.PUT, "value": 2}])
        harness.write_to_log(COUNT, [{"k": "a", "op": Op.DELETE}, {"k": "b", "op": Op.PUT, "value": 3}])
        fresh = harness.reopened()
        assert fresh.backend.rows == 0
        assert [fresh.state(COUNT, key).value() for key in "ab"] == [None, 3]
        assert fresh.backend.rows == 1

    def test_rows_of_others_are_applied_to_states_in_use(self) -> None:
        harness = self.harness()
        harness.state(COUNT, "a").update(1)
        harness.state(TAGS, "a").add("x")
        harness.state(ROUTES, "a").put_all({"x": 1, "y": 2})
        harness.seal()
        written: list[tuple[StateDescriptor, list[dict[str, Any]]]] = [
            (COUNT, [{"k": "a", "op": Op.PUT, "value": 7}, {"k": None, "op": Op.PUT, "value": 8}]),
            (TAGS, [{"k": "a", "op": Op.APPEND, "value": "y"}, {"k": "b", "op": Op.APPEND, "value": "z"}]),
            (ROUTES, [{"k": "a", "op": Op.DELETE, "user_key": "x"}, {"k": "a", "op": Op.PUT, "user_key": None}]),
        ]
        for descriptor, rows in written:
            harness.backend.apply(descriptor.name, harness.write_to_log(descriptor, rows))
        assert [harness.state(COUNT, key).value() for key in ("a", None)] == [7, 8]
        assert [list(harness.state(TAGS, key).get()) for key in "ab"] == [["x", "y"], ["z"]]
        assert dict(harness.state(ROUTES, "a").items()) == {"y": 2, None: None}
        assert harness.reopened().state(COUNT).value() == 7

    def test_rows_of_a_state_that_nobody_uses_are_left_to_a_later_load(self) -> None:
        harness = self.harness()
        rows = harness.write_to_log(COUNT, [{"k": "a", "op": Op.PUT, "value": 1}])
        harness.backend.apply("count", rows)
        assert harness.backend.rows == 0
        assert harness.reopened().state(COUNT).value() == 1

    def test_a_reset_drops_a_key_group_and_no_other(self) -> None:
        shapes: list[tuple[StateDescriptor, Any, Any]] = [
            (COUNT, lambda s: s.update(1), lambda s: s.value()),
            (TAGS, lambda s: s.add("x"), lambda s: list(s.get())),
            (ROUTES, lambda s: s.put("x", 1), lambda s: dict(s.items())),
        ]
        for descriptor, write, read in shapes:
            harness = self.harness("k bigint")
            keys: list[Any] = [*range(50), None]
            for key in keys:
                for namespace in (None, "w"):
                    write(harness.state(descriptor, key, namespace))
            harness.seal()
            group = harness.codec.key_group(7)
            keys_there = [key for key in keys if harness.codec.key_group(key) == group]
            before, empty = read(harness.state(descriptor, 7)), read(harness.state(descriptor, 999))
            reset = {"key_group": group, "op": Op.RESET_GROUP}
            again: dict[str, Any] = {"k": 7, "op": Op.PUT if descriptor is not TAGS else Op.APPEND}
            again |= {"value": "x" if descriptor is TAGS else 1} | ({"user_key": "x"} if descriptor is ROUTES else {})
            rows = harness.write_to_log(descriptor, [reset, again])
            harness.backend.apply(descriptor.name, rows)
            for place in (harness, harness.reopened()):
                for key in keys:
                    for namespace in (None, "w"):
                        is_removed = key in keys_there and (key, namespace) != (7, None)
                        assert read(place.state(descriptor, key, namespace)) == (empty if is_removed else before)
                assert place.backend.rows == 2 * (len(keys) - len(keys_there)) + 1

    def test_statistics_count_rows_and_keys(self) -> None:
        harness = self.harness()
        for key in "ab":
            harness.state(COUNT, key).update(1)
            harness.state(TAGS, key).add_all(["x", "y", "z"])
        harness.state(ROUTES).put_all({"x": 1, "y": 2})
        assert {s.name: (s.rows, s.keys) for s in harness.backend.statistics()} == {
            "count": (0, 0), "tags": (0, 0), "routes": (0, 0),
        }  # fmt: skip
        harness.seal()
        for place in (harness, harness.reopened()):
            for descriptor in (COUNT, TAGS, ROUTES):
                place.state(descriptor)
            assert {s.name: (s.rows, s.keys) for s in place.backend.statistics()} == {
                "count": (2, 2), "tags": (6, 2), "routes": (2, 1),
            }  # fmt: skip
            assert place.backend.rows == 10


def _changes(rows: list[dict[str, Any]]) -> list[tuple[Op, Any]]:
    return [(Op(row["op"]), row["value"]) for row in rows]


__all__ = ["StateLogSuite"]
