"""Which user keys are equal: a part of `StateSuite`.

Tests create each key anew, because a dict finds an object by its identity.
"""

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from state_engine.api import MapStateDescriptor, Row, StateTtlConfig, Time, Types, ValueStateDescriptor
from state_engine.log.ops import Op
from state_engine.serialization.convert import ValueTypeError
from state_engine.testing.state_harness import At, StateHarness, refused, same
from state_engine.testing.state_log_suite import StateLogSuite

DOUBLES = MapStateDescriptor("doubles", Types.DOUBLE(), Types.LONG())
FLOATS = MapStateDescriptor("floats", Types.FLOAT(), Types.LONG())
ROWS = MapStateDescriptor("rows", "struct<x:double,of:struct<y:float,z:decimal(5,2)>>", Types.LONG())
PAIRS = MapStateDescriptor("pairs", Types.TUPLE([Types.STRING(), Types.DOUBLE()]), Types.LONG())
DECIMALS = MapStateDescriptor("decimals", "decimal(5,2)", Types.LONG())


def nan(bits: int = 0x7FF8_0000_0000_0000) -> float:
    """Returns a NaN with these bits, as a new object."""
    number: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return number


def _as_it_is(number: float) -> Any:
    return number


_KINDS: list[tuple[MapStateDescriptor, Callable[[float], Any]]] = [
    (DOUBLES, _as_it_is),
    (FLOATS, _as_it_is),
    (ROWS, lambda number: Row(number, Row(number, Decimal(1)))),
    (PAIRS, lambda number: ("a", number)),
]


def _remove(key: Any, state: Any) -> None:
    state.remove(key)


def _clear(state: Any) -> None:
    state.clear()


class EqualKeysSuite(StateLogSuite):
    """Tests that NaN equals NaN and -0.0 equals 0.0, also inside a row, and that an entry keeps its first spelling."""

    def test_nan_is_one_user_key(self) -> None:
        for descriptor, key in _KINDS:
            harness = self.harness()
            for count in range(1, 5):
                state = harness.state(descriptor)
                number = state.get(key(nan()))
                state.put(key(nan(0xFFF8_0000_0000_0001)), (number or 0) + 1)
                if count != 2:
                    harness.seal()
            self._has(harness, descriptor, key(nan()), 4)
            harness.state(descriptor).remove(key(nan()))
            harness.everywhere(descriptor, lambda at: same(at("a").is_empty(), True))
            assert harness.backend.rows == 0

    def test_both_zeros_are_one_user_key(self) -> None:
        for descriptor, key in _KINDS:
            harness = self.harness()
            for count, zero in enumerate([0.0, -0.0, 0.0, -0.0], start=1):
                state = harness.state(descriptor)
                number = state.get(key(zero))
                state.put(key(zero), (number or 0) + 1)
                if count != 2:
                    harness.seal()
            for zero in (0.0, -0.0):
                self._has(harness, descriptor, key(zero), 4)
            harness.state(descriptor).remove(key(-0.0))
            harness.everywhere(descriptor, lambda at: same(at("a").is_empty(), True))

    @staticmethod
    def _has(harness: StateHarness, descriptor: MapStateDescriptor, key: Any, value: int) -> None:
        def check(at: At) -> None:
            state = at("a")
            same((state.get(key), state.contains(key), list(state.values())), (value, True, [value]))
            same([state.get(one) for one in state], [value])  # the keys that it lists can be looked up

        harness.everywhere(descriptor, check)
        assert harness.backend.rows == 1

    def test_an_entry_keeps_its_first_spelling_until_it_goes(self) -> None:
        for descriptor, key in _KINDS:
            for seals in (False, True):
                first = self._spelled(descriptor, [key(-0.0)], seals)
                assert "-0.0" in first
                assert self._spelled(descriptor, [key(-0.0), key(0.0), key(0.0)], seals) == first
                assert "-0.0" not in self._spelled(descriptor, [key(0.0), key(-0.0), key(0.0)], seals)
                for remove in (partial(_remove, key(0.0)), _clear):
                    assert "-0.0" not in self._spelled(descriptor, [key(-0.0), key(0.0)], seals, remove)

    def _spelled(
        self, descriptor: MapStateDescriptor, keys: list[Any], seals: bool, between: Callable[[Any], None] = iter
    ) -> str:
        """Puts equal keys, calls `between` after the first put, and returns the keys as the map lists them."""
        harness = self.harness()
        for number, key in enumerate(keys):
            if number == 1:
                between(harness.state(descriptor))
            harness.state(descriptor).put(key, number)
            if seals:
                harness.seal()
        spellings: list[str] = []
        harness.everywhere(descriptor, lambda at: spellings.append(repr(list(at("a")))))
        assert len(set(spellings)) == 1, spellings
        return spellings[0]

    def test_an_expired_entry_keeps_no_spelling(self) -> None:
        config = StateTtlConfig.new_builder(Time.milliseconds(100)).disable_cleanup_in_background().build()
        descriptor = MapStateDescriptor("doubles", Types.DOUBLE(), Types.LONG())
        descriptor.enable_time_to_live(config)
        for later, spelled in ((1_050, "[-0.0]"), (1_100, "[0.0]")):
            harness = self.harness()
            harness.state(descriptor).put(-0.0, 1)
            harness.seal()
            harness.time.processing_time = later
            harness.state(descriptor).put(0.0, 2)

            def check(at: At, spelled: str = spelled) -> None:
                same((repr(list(at("a"))), at("a").get(-0.0)), (spelled, 2))

            harness.everywhere(descriptor, check)

    def test_rows_that_an_earlier_release_logged_are_one_entry_the_last_of_them(self) -> None:
        """Earlier releases logged several entries of NaN, and the last spelling of a zero."""
        harness = self.harness()
        harness.write_to_log(
            DOUBLES,
            [
                {"k": "a", "op": Op.PUT, "user_key": nan(), "value": 1},
                {"k": "a", "op": Op.PUT, "user_key": 0.0, "value": 2},
                {"k": "a", "op": Op.PUT, "user_key": nan(0xFFF8_0000_0000_0001), "value": 3},
            ],
        )
        harness.write_to_log(DOUBLES, [{"k": "a", "op": Op.PUT, "user_key": -0.0, "value": 4}])
        harness = harness.reopened()

        def check(at: At) -> None:
            state = at("a")
            same([(repr(key), value) for key, value in state.items()], [("nan", 3), ("-0.0", 4)])
            same((state.get(nan()), state.get(0.0)), (3, 4))

        harness.everywhere(DOUBLES, check)
        assert harness.backend.rows == 2
        assert harness.folded(DOUBLES).num_rows == 2

    def test_nan_is_one_key_of_a_map_that_is_a_value(self) -> None:
        """Functions can look it up by `math.nan`, which is a single object, as soon as the map is stored."""
        for kind in ("map<double,bigint>", "map<float,bigint>", "array<map<double,bigint>>"):
            harness, listed = self.harness(), kind.startswith("array")
            descriptor = ValueStateDescriptor("rates", kind)
            rates = {nan(): 1, nan(): 2, -0.0: 3}
            harness.state(descriptor).update([rates] if listed else rates)

            def check(at: At, listed: bool = listed) -> None:
                value = at("a").value()[0] if listed else at("a").value()
                same((value.get(math.nan), value.get(0.0), repr(list(value))), (2, 3, "[nan, -0.0]"))

            harness.everywhere(descriptor, check)

    def test_decimals_are_one_user_key_if_they_are_equal(self) -> None:
        harness = self.harness()
        harness.state(DECIMALS).put(Decimal("-0"), 1)
        harness.state(DECIMALS).put(Decimal("1.5"), 2)

        def check(at: At) -> None:
            same([str(key) for key in at("a")], ["0.00", "1.50"])
            same((at("a").get(Decimal("0.000")), at("a").get(Decimal("1.50"))), (1, 2))

        harness.everywhere(DECIMALS, check)

    def test_a_decimal_that_is_no_number_is_refused_by_name_as_a_user_key(self) -> None:
        for text in ("NaN", "sNaN", "Infinity"):
            number = Decimal(text)
            calls: list[tuple[MapStateDescriptor, Any]] = [(DECIMALS, number), (ROWS, Row(1.0, Row(1.0, number)))]
            for descriptor, key in calls:
                state = self.harness().state(descriptor)
                for call in (state.get, state.contains, state.remove, partial(state.put, value=1)):
                    refused(ValueTypeError, "is not decimal(5,2): it is no finite number", partial(call, key))


__all__ = ["EqualKeysSuite"]
