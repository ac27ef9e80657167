"""How the settings of a time to live may change, and what is cleaned up: a part of `StateSuite`."""

from typing import Any

from state_engine.api import StateTtlConfig
from state_engine.errors import DuplicateStateError, TtlTimeChangedError
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness, refused
from state_engine.testing.state_ttl_cases import CASES, START, TTL, after, count, lives, logged, routes, tags
from state_engine.testing.state_ttl_log_suite import TtlStampSuite


class TtlChangeSuite(TtlStampSuite):
    """Tests of settings that change between starts, and of rows with an unknown last access."""

    def test_ttl_one_name_with_two_times_to_live_is_refused(self) -> None:
        harness = self.starting()
        harness.state(count(lives().build()))
        assert harness.state(count(lives().build())) is harness.state(count(lives().build()))
        refused(DuplicateStateError, "'count'", lambda: harness.state(count(None)))
        refused(DuplicateStateError, "'count'", lambda: harness.state(count(lives(1).build())))

    def test_ttl_may_come_later_and_go_again(self) -> None:
        """Flink: testRestoreTtlAndRegisterNonTtlStateCompatFailure, and the opposite change; both work here."""
        for case in CASES.values():
            plain, mortal = case.describe(None), case.describe(lives().build())
            harness = self.starting()
            case.write(harness.state(plain), 1)
            harness.seal()
            restored = after(harness.reopened(), TTL - 1)
            case.check(restored.state(mortal), 1)
            restored.seal()
            case.check(after(restored.reopened(), 5 * TTL).state(plain), 1)
            case.check(after(restored.reopened(), TTL).state(mortal))

    def test_ttl_may_change(self) -> None:
        for case in CASES.values():
            harness = self.starting()
            case.write(harness.state(case.describe(lives(100).build())), 1)
            harness.seal()
            case.check(after(harness.reopened(), 50).state(case.describe(lives(50).build())))
            case.check(after(harness.reopened(), 150).state(case.describe(lives(200).build())), 1)

    def test_ttl_another_time_is_refused_unless_old_rows_may_count_as_unknown(self) -> None:
        processing, event = lives(), lives().use_event_time()
        for before, now in [(None, event), (processing, event), (event, processing)]:
            for case in CASES.values():
                harness = self.starting()
                harness.time.timestamp = harness.time.watermark = START
                case.write(harness.state(case.describe(before.build() if before else None)), 1)
                harness.seal()
                strict = harness.reopened()
                refused(TtlTimeChangedError, "'s'", lambda now=now, c=case, h=strict: h.state(c.describe(now.build())))  # type: ignore[misc]

    def test_ttl_rows_of_another_time_count_as_unknown_where_that_is_allowed(self) -> None:
        processing, event = lives(), lives().use_event_time()
        for before, now in [(None, event), (processing, event), (event, processing)]:
            for case in CASES.values():
                self._change_time(case, before, now)

    def _change_time(self, case: Any, before: StateTtlConfig.Builder | None, now: StateTtlConfig.Builder) -> None:
        allowed = lives().set_ttl_time_characteristic(now.build().get_ttl_time_characteristic())
        changed = case.describe(allowed.allow_time_characteristic_change().build())
        harness = self.starting()
        harness.time.timestamp = harness.time.watermark = START
        case.write(harness.state(case.describe(before.build() if before else None)), 1)
        case.write(harness.state(case.describe(before.build() if before else None), "later"), 1)
        harness.seal()
        harness = self._at(harness.reopened(), 3 * TTL)
        case.check(harness.state(changed), 1)
        harness.seal()
        for place in (harness, harness.reopened()):
            self._at(place, 4 * TTL - 1)
            case.check(place.state(case.describe(now.build()) if place is not harness else changed), 1)
            self._at(place, 4 * TTL)
            case.check(place.state(case.describe(now.build()) if place is not harness else changed))
        unread = self._at(harness.reopened(), 9 * TTL)
        case.check(unread.state(case.describe(now.build()), "later"), 1)

    @staticmethod
    def _at(harness: StateHarness, ms: int) -> StateHarness:
        after(harness, ms)
        harness.time.watermark = harness.time.timestamp = START + ms
        return harness

    def test_ttl_that_went_by_event_time_leaves_unknown_rows_when_it_goes(self) -> None:
        harness, case = self.starting(), CASES["value"]
        harness.time.timestamp = harness.time.watermark = START
        case.write(harness.state(case.describe(lives().use_event_time().build())), 1)
        harness.seal()
        harness = harness.reopened()
        case.check(harness.state(case.describe(None)), 1)
        harness.seal()
        harness = after(harness.reopened(), 9 * TTL)
        case.check(harness.state(case.describe(lives().build())), 1)

    def test_ttl_of_an_unknown_time_begins_at_the_watermark_if_the_record_is_late(self) -> None:
        harness, config = self.starting(), lives().use_event_time().build()
        harness.write_to_log(count(config), [{"k": "a", "op": Op.PUT, "value": 1}])
        harness = harness.reopened()
        harness.time.watermark, harness.time.timestamp = START + 5 * TTL, START
        assert harness.state(count(config)).value() == 1
        assert logged(harness.seal()) == [(Op.PUT, 1, 5 * TTL)]

    def test_ttl_of_an_unknown_time_begins_with_the_first_read(self) -> None:
        config = lives().build()
        for restore in (False, True):
            harness = self.starting()
            harness.write_to_log(count(config), [{"k": "a", "op": Op.PUT, "value": 1}])
            harness.write_to_log(tags(config), [{"k": "a", "op": Op.APPEND, "value": "x"}])
            harness.write_to_log(routes(config), [{"k": "a", "op": Op.PUT, "user_key": "x", "value": 1}])
            harness = after(harness.reopened(), 7 * TTL)
            assert harness.state(count(config)).value() == 1
            assert logged(harness.seal()) == [(Op.PUT, 1, 7 * TTL)]
            assert list(harness.state(tags(config)).get()) == ["x"]
            assert logged(harness.seal()) == [(Op.CLEAR, None, None), (Op.APPEND, "x", 7 * TTL)]
            assert dict(harness.state(routes(config)).items()) == {"x": 1}
            assert logged(harness.seal()) == [(Op.PUT, 1, 7 * TTL)]
            harness = harness.reopened() if restore else harness
            assert after(harness, 8 * TTL - 1).state(count(config)).value() == 1
            assert after(harness, 8 * TTL).state(count(config)).value() is None
            assert list(harness.state(tags(config)).get()) == []
            assert harness.state(routes(config)).is_empty()


class TtlCleanupSuite(TtlChangeSuite):
    """Tests of the clean-up of values that are not read: in working state, and in the fold.

    Attributes:
        incremental_cleanup: Whether the backend cleans up incrementally; a backend may have a better method.
    """

    incremental_cleanup = True

    def _many(self, config: StateTtlConfig, keys: int = 20) -> StateHarness:
        harness = self.starting("k bigint")
        for key in range(keys):
            harness.state(count(config), key).update(key)
            harness.state(tags(config), key).add_all(["x", "y"])
            harness.state(routes(config), key).put_all({"x": 1, "y": 2})
        harness.seal()
        assert harness.backend.rows == 5 * keys
        return harness

    @staticmethod
    def _folded(harness: StateHarness, config: StateTtlConfig) -> int:
        return sum(harness.folded(descriptor).num_rows for descriptor in (count(config), tags(config), routes(config)))

    @staticmethod
    def _reopened_rows(harness: StateHarness, config: StateTtlConfig) -> int:
        fresh = harness.reopened()
        for descriptor in (count(config), tags(config), routes(config)):
            fresh.state(descriptor)
        return fresh.backend.rows

    def test_ttl_nothing_is_cleaned_up_where_that_is_off(self) -> None:
        config = lives().build()
        harness = after(self._many(config), TTL)
        harness.seal()
        assert (harness.backend.rows, self._folded(harness, config)) == (100, 100)
        assert self._reopened_rows(harness, config) == 100

    def test_ttl_a_load_leaves_out_what_had_expired_and_working_state_keeps_it(self) -> None:
        config = lives().cleanup_full_snapshot().build()
        harness = after(self._many(config), 50)
        harness.state(count(config), 3).update(33)
        harness.state(tags(config), 3).add("z")
        harness.state(routes(config), 3).put("x", 33)
        harness.seal()
        after(harness, TTL).seal()
        assert (harness.backend.rows, self._folded(harness, config)) == (101, 3)
        fresh = harness.reopened()
        states = [fresh.state(descriptor, 3) for descriptor in (count(config), tags(config), routes(config))]
        assert fresh.backend.rows == 3
        assert [states[0].value(), list(states[1].get()), dict(states[2].items())] == [33, ["z"], {"x": 33}]

    def test_ttl_a_full_fold_leaves_out_what_a_compaction_filter_would(self) -> None:
        for builder, remaining in [
            (lives(), 100),
            (lives().cleanup_in_rocksdb_compact_filter(1000), 0),
            (StateTtlConfig.new_builder(lives().build().get_ttl()), 0),
        ]:
            config = builder.build()
            harness = after(self._many(config), TTL - 1)
            harness.seal()
            assert self._folded(harness, config) == 100
            after(harness, TTL).seal()
            assert (self._folded(harness, config), harness.backend.rows) == (remaining, 100)

    def test_ttl_a_fold_keeps_what_has_no_known_time(self) -> None:
        harness, config = self.starting(), lives().cleanup_full_snapshot().build()
        harness.write_to_log(count(config), [{"k": "a", "op": Op.PUT, "value": 1}])
        after(harness, 9 * TTL).seal()
        assert harness.folded(count(config)).num_rows == 1

    def test_ttl_each_access_cleans_up_some_keys(self) -> None:
        """Flink: testIncrementalCleanup."""
        if not self.incremental_cleanup:
            return
        config = lives().cleanup_incrementally(3, False).build()
        harness = after(self._many(config), 50)
        for key in (7, 8):
            harness.state(count(config), key).update(70)
        harness.seal()
        after(harness, TTL)
        for key in range(100, 104):  # these keys have no state; 4 accesses check 12 keys
            assert harness.state(count(config), key).value() is None
        rows = harness.seal()["count"]
        assert {Op(row["op"]) for row in rows} == {Op.DELETE}
        assert len(rows) == 10
        assert harness.backend.rows == self._reopened_rows(harness, config) == 90
        for key in range(100, 110):
            harness.state(count(config), key).value()
        harness.seal()
        assert (harness.backend.rows, harness.folded(count(config)).num_rows) == (82, 2)
        assert [harness.state(count(config), key).value() for key in (7, 8, 9)] == [70, 70, None]

    def test_ttl_each_record_cleans_up_some_keys(self) -> None:
        """Flink: testIncrementalCleanupWholeState."""
        if not self.incremental_cleanup:
            return
        config = lives().cleanup_incrementally(5, True).build()
        harness = after(self._many(config), 50)
        harness.state(tags(config), 4).add("z")
        harness.state(routes(config), 4).put("x", 44)
        harness.seal()
        after(harness, TTL)
        for key in range(10):
            harness.at(key)
        rows = harness.seal()
        assert {name: len(of_state) for name, of_state in rows.items()} == {"count": 20, "tags": 21, "routes": 39}
        assert harness.backend.rows == self._folded(harness, config) == 2
        assert list(harness.state(tags(config), 4).get()) == ["z"]
        assert dict(harness.state(routes(config), 4).items()) == {"x": 44}

    def test_ttl_clean_up_of_many_keys_ends_while_keys_come_and_go(self) -> None:
        """Flink: testIncrementalCleanup, with more entries than the first round has room for."""
        if not self.incremental_cleanup:
            return
        keys, config = 3_000, lives().cleanup_incrementally(10, True).build()
        harness = self.starting("k bigint")
        for key in range(keys):
            harness.state(count(config), key).update(key)
        harness.seal()
        after(harness, TTL // 2)
        for key in range(0, keys, 10):
            harness.state(count(config), key).update(-key)
        harness.seal()
        after(harness, TTL)
        for key in range(keys, keys + 400):
            harness.state(count(config), key).update(key)
            harness.state(count(config), key - keys).clear()
            if key % 50 == 0:
                harness.seal()
        harness.seal()
        kept = {key: -key for key in range(400, keys, 10)} | {key: key for key in range(keys, keys + 400)}
        assert harness.backend.rows == harness.folded(count(config)).num_rows == len(kept)
        assert {key: harness.state(count(config), key).value() for key in kept} == kept

    def test_ttl_clean_up_leaves_what_was_written_in_the_epoch(self) -> None:
        config = lives().cleanup_incrementally(5, False).build()
        harness = self.starting()
        harness.state(count(config)).update(1)
        harness.state(tags(config)).add("x")
        harness.state(routes(config)).put_all({"x": 1, "y": 1})
        harness.seal()
        after(harness, TTL).state(count(config)).update(2)
        harness.state(tags(config)).update(["y"])
        harness.state(routes(config)).put("x", 2)
        harness.state(count(config), "b").value()
        harness.state(tags(config), "b").get()
        harness.state(routes(config), "b").is_empty()
        harness.seal()
        assert harness.state(count(config)).value() == 2
        assert list(harness.state(tags(config))) == ["y"]
        assert dict(harness.state(routes(config)).items()) == {"x": 2}

    def test_ttl_clean_up_gives_unknown_rows_a_time(self) -> None:
        if not self.incremental_cleanup:
            return
        config = lives().cleanup_incrementally(5, False).build()
        harness = self.starting()
        harness.write_to_log(count(config), [{"k": "a", "op": Op.PUT, "value": 1}])
        harness = after(harness.reopened(), 7 * TTL)
        assert harness.state(count(config), "b").value() is None
        assert logged(harness.seal()) == [(Op.PUT, 1, 7 * TTL)]
        after(harness, 8 * TTL).state(count(config), "b").value()
        assert logged(harness.seal()) == [(Op.DELETE, None, None)]

    def test_ttl_clean_up_finds_what_was_loaded_once_it_has_expired(self) -> None:
        if not self.incremental_cleanup:
            return
        config = lives().cleanup_incrementally(5, False).build()
        harness = after(self._many(config, 3), TTL // 2)
        harness.state(count(config), 1).update(7)
        harness.seal()
        harness = after(harness.reopened(), TTL - 1)
        for now, expired in ((TTL - 1, []), (TTL, [0, 2]), (TTL + 1, []), (TTL + TTL // 2, [1])):
            after(harness, now).state(count(config), 100).value()
            rows = harness.seal().get("count", [])
            assert {(Op(row["op"]), row["k"]) for row in rows} == {(Op.DELETE, key) for key in expired}

    def test_ttl_clean_up_finds_what_others_wrote_once_it_has_expired(self) -> None:
        if not self.incremental_cleanup:
            return
        config = lives().cleanup_incrementally(5, False).build()
        harness = after(self.starting(), TTL // 2)
        harness.state(count(config), "a").update(1)
        harness.seal()
        older = {"k": "b", "op": Op.PUT, "value": 2, "last_access": START + 10}
        harness.backend.apply("count", harness.write_to_log(count(config), [older]))
        for now, expired in ((TTL + 9, []), (TTL + 10, ["b"]), (TTL + TTL // 2, ["a"])):
            after(harness, now).state(count(config), "c").value()
            rows = harness.seal().get("count", [])
            assert {(Op(row["op"]), row["k"]) for row in rows} == {(Op.DELETE, key) for key in expired}

    def test_ttl_clean_up_finds_what_has_expired_by_event_time(self) -> None:
        """Records may be older than those before them, and so may the stamps of what they write."""
        if not self.incremental_cleanup:
            return
        config, harness = lives().use_event_time().cleanup_incrementally(5, False).build(), self.starting()

        def at(watermark: int, record: int) -> StateHarness:
            harness.time.watermark, harness.time.timestamp = watermark, record
            return harness

        def removed() -> set[tuple[str, str | None]]:
            for descriptor in (count(config), tags(config), routes(config)):
                state = harness.state(descriptor, "none")
                _ = state.is_empty() if descriptor.name == "routes" else state.get() if descriptor.name == "tags" else 0
                _ = state.value() if descriptor.name == "count" else 0
            rows = harness.seal()
            gone = {(name, row.get("user_key")) for name, of_state in rows.items() for row in of_state}
            return {(name, key) for name, key in gone if name != "count" or rows[name][0]["op"] == Op.DELETE}

        at(START, START).state(count(config)).update(1)
        harness.state(tags(config)).add("x")
        harness.state(routes(config)).put("x", 1)
        at(START, START + 50).state(routes(config)).put("y", 1)
        harness.seal()
        at(START + TTL - 1, START + TTL)
        assert removed() == set()
        at(START + TTL, START + TTL)
        assert removed() == {("count", None), ("tags", None), ("routes", "x")}
        at(START + TTL + 10, START + 20).state(routes(config)).put("z", 1)
        harness.seal()
        at(START + TTL + 19, START + TTL + 19)
        assert removed() == set()
        at(START + TTL + 20, START + TTL + 20)
        assert removed() == {("routes", "z")}
        at(START + TTL + 50, START + TTL + 50)
        assert removed() == {("routes", "y")}


__all__ = ["TtlChangeSuite", "TtlCleanupSuite"]
