"""What states with a time to live write to the log: a part of `StateSuite`."""

from typing import Any

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    TypeCodec,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.timers import TimeDomain
from state_engine.backends.time import MAX_WATERMARK
from state_engine.log.ops import Op
from state_engine.testing.state_folding_suite import Adding, Collecting, Last, OneForAll
from state_engine.testing.state_harness import StateHarness, same
from state_engine.testing.state_log_suite import StateLogSuite
from state_engine.testing.state_ttl_cases import CASES, START, TTL, after, count, lives, logged, routes, tags, with_ttl


class Celsius(TypeCodec[complex]):
    """A class that has no type of its own: an imaginary number for a temperature."""

    version = 1
    stored_type = "double"

    def encode(self, value: complex) -> Any:
        return value.imag

    def decode(self, stored: Any, version: int) -> complex:
        return complex(0, stored)


class TtlStampSuite(StateLogSuite):
    """Tests of the column `last_access`."""

    def starting(self, key: str = "k string") -> StateHarness:
        """Returns an empty backend at the time `START`."""
        return after(self.harness(key), 0)

    def test_ttl_writes_carry_their_time_and_removals_none(self) -> None:
        harness, config = self.starting(), lives().build()
        harness.state(count(config)).update(1)
        assert logged(harness.seal()) == [(Op.PUT, 1, 0)]
        after(harness, 10).state(count(config)).update(None)
        assert logged(harness.seal()) == [(Op.DELETE, None, None)]
        harness.state(tags(config)).update(["x", None])
        assert logged(harness.seal()) == [(Op.CLEAR, None, None), (Op.APPEND, "x", 10), (Op.APPEND, None, 10)]
        harness.state(routes(config)).put("a", None)
        harness.state(routes(config)).remove("b")
        assert logged(harness.seal()) == [(Op.PUT, None, 10), (Op.DELETE, None, None)]

    def test_ttl_reads_are_logged_where_they_prolong_life(self) -> None:
        config = lives().update_ttl_on_read_and_write().build()
        for restore in (False, True):
            harness = self.starting()
            harness.state(count(config)).update(1)
            assert harness.state(count(config)).value() == 1
            assert logged(harness.seal()) == [(Op.PUT, 1, 0)]
            harness = after(harness.reopened() if restore else harness, 10)
            for _ in range(3):
                assert harness.state(count(config)).value() == 1
            assert logged(harness.seal()) == [(Op.PUT, 1, 10)]
            assert harness.state(count(config)).value() == 1
            assert harness.seal() == {}, "the time has not moved"

    def test_ttl_a_list_that_is_read_is_written_again(self) -> None:
        config = lives().update_ttl_on_read_and_write().build()
        harness = self.starting()
        harness.state(tags(config)).add("x")
        harness.seal()
        after(harness, 60).state(tags(config)).add("y")
        assert logged(harness.seal()) == [(Op.APPEND, "y", 60)]
        assert list(after(harness, 120).state(tags(config)).get()) == ["y"]
        assert list(harness.state(tags(config)).get()) == ["y"]
        assert logged(harness.seal()) == [(Op.CLEAR, None, None), (Op.APPEND, "y", 120)]

    def test_ttl_reads_are_not_logged_otherwise(self) -> None:
        for case in CASES.values():
            descriptor, harness = case.describe(lives().build()), self.starting()
            case.write(harness.state(descriptor), 1)
            harness.seal()
            case.check(after(harness, TTL - 1).state(descriptor), 1)
            assert harness.seal() == {}

    def test_ttl_an_expired_value_is_removed_once(self) -> None:
        harness, config = self.starting(), lives().build()
        harness.state(count(config)).update(1)
        harness.seal()
        state = after(harness, TTL).state(count(config))
        assert (state.value(), state.value()) == (None, None)
        assert logged(harness.seal()) == [(Op.DELETE, None, None)]
        assert state.value() is None
        assert harness.seal() == {}

    def test_ttl_elements_keep_their_own_times(self) -> None:
        config = lives().build()
        for restore in (False, True):
            harness = self.starting()
            for ms, element in [(0, "x"), (40, "y"), (80, "z")]:
                after(harness, ms).state(tags(config)).add(element)
                harness.seal()
                harness = harness.reopened() if restore else harness
            assert list(after(harness, 99).state(tags(config)).get()) == ["x", "y", "z"]
            assert list(after(harness, 100).state(tags(config)).get()) == ["y", "z"]
            assert list(after(harness, 140).state(tags(config)).get()) == ["z"]
            assert harness.seal() == {}, "the rest of a list is not written again"
            assert list(after(harness, 180).state(tags(config)).get()) == []
            assert logged(harness.seal()) == [(Op.CLEAR, None, None)]

    def test_ttl_expired_elements_are_returned_until_all_have_expired(self) -> None:
        config = lives().return_expired_if_not_cleaned_up().build()
        harness = self.starting()
        harness.state(tags(config)).add("x")
        after(harness, 50).state(tags(config)).add("y")
        assert list(after(harness, 120).state(tags(config)).get()) == ["x", "y"]
        assert list(after(harness, 150).state(tags(config)).get()) == ["x", "y"]
        assert list(harness.state(tags(config)).get()) == []

    def test_ttl_entries_keep_their_own_times(self) -> None:
        config = lives().build()
        for restore in (False, True):
            harness = self.starting()
            harness.state(routes(config)).put_all({"x": 1, "y": 2})
            harness.seal()
            after(harness, 50).state(routes(config)).put("y", 3)
            harness.seal()
            harness = after(harness.reopened() if restore else harness, 120)
            state = harness.state(routes(config))
            assert not state.is_empty()
            assert harness.seal() == {}, "whether a map is empty is no read of its entries"
            assert (state.contains("x"), state.get("x"), state.get("y")) == (False, None, 3)
            assert (list(state.keys()), list(state.values()), "x" in state) == (["y"], [3], False)
            assert logged(harness.seal()) == [(Op.DELETE, None, None)]
            state = after(harness, 150).state(routes(config))
            assert state.is_empty()
            assert dict(state.items()) == {}
            harness.seal()
            assert harness.backend.rows == 0

    def test_ttl_only_the_entry_that_is_read_lives_on(self) -> None:
        config = lives().update_ttl_on_read_and_write().build()
        harness = self.starting()
        harness.state(routes(config)).put_all({"x": 1, "y": 2})
        harness.seal()
        assert after(harness, 50).state(routes(config)).contains("x")
        assert logged(harness.seal()) == [(Op.PUT, 1, 50)]
        assert dict(after(harness, 120).state(routes(config)).items()) == {"x": 1}
        assert sorted(logged(harness.seal())) == [(Op.PUT, 1, 120), (Op.DELETE, None, None)]

    def test_ttl_folding_starts_afresh_unless_expired_values_may_be_read(self) -> None:
        for builder, result in [(lives(), 2), (lives().return_expired_if_not_cleaned_up(), 3)]:
            descriptor = with_ttl(ReducingStateDescriptor("sum", Adding(), Types.LONG()), builder.build())
            for restore in (False, True):
                harness = self.starting()
                harness.state(descriptor).add(1)
                harness.seal()
                harness = after(harness.reopened() if restore else harness, TTL)
                harness.state(descriptor).add(2)
                assert harness.state(descriptor).get() == result
                assert logged(harness.seal()) == [(Op.PUT, result, TTL)]

    def test_ttl_accumulators_that_change_in_place(self) -> None:
        config = lives().update_ttl_on_read_and_write().build()
        descriptor = with_ttl(AggregatingStateDescriptor("all", Collecting(), "array<int>"), config)
        harness = self.starting()
        for number in (1, 2):
            harness.state(descriptor).add(number)
        harness.seal()
        harness.state(descriptor).add(3)
        harness.state(descriptor).get().append(99)
        assert harness.state(descriptor).get() == [1, 2, 3]
        harness.backend.forget()
        assert harness.state(descriptor).get() == [1, 2]

    def test_ttl_accumulators_that_somebody_else_holds(self) -> None:
        for function, both in [(Last(), [1, 2]), (OneForAll(), [1, 1, 2])]:
            descriptor = with_ttl(AggregatingStateDescriptor("all", function, "array<int>"), lives().build())
            harness, given = self.starting(), [1]
            for expected in ([1], both):
                harness.state(descriptor).add(given)
                given.append(2)
                function.shared.append(3)
                assert harness.state(descriptor).get() == expected

    def test_ttl_values_that_can_change_are_copies(self) -> None:
        harness, config = self.starting(), lives().build()
        value = with_ttl(ValueStateDescriptor("v", "array<int>"), config)
        elements = with_ttl(ListStateDescriptor("l", "array<int>"), config)
        entries = with_ttl(MapStateDescriptor("m", int, "array<int>"), config)
        given = [1]
        harness.state(value).update(given)
        harness.state(elements).add(given)
        harness.state(entries).put(7, given)
        given.append(2)
        for _ in range(3):
            read = [harness.state(value).value(), *harness.state(elements), *harness.state(entries).values()]
            assert [*read, harness.state(entries).get(7)] == [[1], [1], [1], [1]]
            for one in read:
                one.append(3)
            harness.seal()

    def test_ttl_values_of_a_codec(self) -> None:
        config = lives().update_ttl_on_read_and_write().build()
        value = with_ttl(ValueStateDescriptor("v", Celsius()), config)
        elements = with_ttl(ListStateDescriptor("l", Celsius()), config)
        entries = with_ttl(MapStateDescriptor("m", int, Celsius()), config)
        for restore in (False, True):
            harness = self.starting()
            harness.state(value).update(21j)
            harness.state(elements).add(21j)
            harness.state(entries).put(1, 21j)
            for ms in (50, 120, 190):
                harness.seal()
                harness = after(harness.reopened() if restore else harness, ms)
                read = [harness.state(value).value(), *harness.state(elements), harness.state(entries).get(1)]
                assert read == [21j, 21j, 21j]
            harness.seal()
            after(harness, 290)
            assert [harness.state(value).value(), *harness.state(elements), harness.state(entries).get(1)] == [None] * 2

    def test_ttl_values_of_a_later_epoch_are_what_a_load_gives(self) -> None:
        harness, config = self.starting(), lives().build()
        value = with_ttl(ValueStateDescriptor("v", "double"), config)
        elements = with_ttl(ListStateDescriptor("l", "double"), config)
        entries = with_ttl(MapStateDescriptor("m", "double", "double"), config)
        harness.state(value).update(3)
        harness.state(elements).add(3)
        harness.state(entries).put(3, 3)
        harness.seal()
        for place in (harness, harness.reopened()):
            values = [place.state(value).value(), *place.state(elements), *place.state(entries).values()]
            for one in [*values, *place.state(entries).keys()]:
                same(one, 3.0)

    def test_ttl_event_time_is_that_of_the_record_or_the_timer_or_else_the_watermark(self) -> None:
        harness, config = self.starting(), lives().use_event_time().build()
        state = harness.state(count(config))
        state.update(1)
        assert logged(harness.seal()) == [(Op.PUT, 1, None)], "there is no event time yet"
        harness.time.watermark = START
        state.update(2)
        assert logged(harness.seal()) == [(Op.PUT, 2, 0)]
        harness.time.timestamp = START + 70
        state.update(3)
        assert logged(harness.seal()) == [(Op.PUT, 3, 70)]
        harness.time.watermark, harness.time.firing = START + 30, TimeDomain.EVENT_TIME
        harness.time.timestamp = START + 20
        state.update(4)
        assert logged(harness.seal()) == [(Op.PUT, 4, 20)], "a timer has its own time"
        harness.time.timestamp, harness.time.firing = 1 << 50, TimeDomain.PROCESSING_TIME
        state.update(5)
        assert logged(harness.seal()) == [(Op.PUT, 5, 30)]

    def test_ttl_event_time_timers_read_by_their_own_times(self) -> None:
        harness, config = self.starting(), lives().use_event_time().build()
        harness.time.watermark = harness.time.timestamp = START
        harness.state(count(config)).update(1)
        harness.seal()
        harness.time.watermark, harness.time.firing = START + 5 * TTL, TimeDomain.EVENT_TIME
        for ms, value in [(TTL - 1, 1), (TTL, None)]:
            harness.time.timestamp = START + ms
            assert harness.state(count(config)).value() == value

    def test_ttl_the_end_of_the_input_is_no_time(self) -> None:
        harness, config = self.starting(), lives().use_event_time().build()
        harness.time.watermark = START
        harness.state(count(config)).update(1)
        harness.seal()
        harness.time.watermark = MAX_WATERMARK
        assert harness.state(count(config)).value() == 1
        harness.seal()
        assert harness.folded(count(config)).num_rows == 1

    def test_ttl_a_late_read_does_not_shorten_life(self) -> None:
        harness, config = self.starting(), lives().use_event_time().update_ttl_on_read_and_write().build()
        harness.time.watermark, harness.time.timestamp = START, START + 70
        harness.state(count(config)).update(1)
        harness.seal()
        harness.time.timestamp = START + 20
        assert harness.state(count(config)).value() == 1
        assert harness.seal() == {}


__all__ = ["TtlStampSuite"]
