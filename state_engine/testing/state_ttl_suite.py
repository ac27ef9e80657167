"""When values with a time to live expire, and when they can still be read: a part of `StateSuite`.

Flink's `TtlStateTestBase` was the checklist; a test that corresponds to one of its tests names it.
`state_ttl_log_suite.py` tests what is logged, `state_ttl_change_suite.py` what is cleaned up, `state_merging_suite.py`
what a merge leaves out.
"""

from collections.abc import Callable, Iterator
from typing import Any

from state_engine.api import StateDescriptor, StateTtlConfig, ValueStateDescriptor
from state_engine.testing.state_harness import StateHarness
from state_engine.testing.state_log_suite import StateLogSuite
from state_engine.testing.state_ttl_cases import CASES, START, TTL, TtlCase, after, lives, sealed, with_ttl

Place = Callable[[StateHarness, str, StateDescriptor], Any]
"""Returns the state of the key, or namespace, with this name."""


class TtlExpirySuite(StateLogSuite):
    """Runs each test for every kind of state, with a warm backend and with one restored after each epoch."""

    def starting(self, key: str = "k string") -> StateHarness:
        """Returns an empty backend at the time `START`."""
        return after(self.harness(key), 0)

    def every(self) -> Iterator[tuple[TtlCase, bool, StateHarness]]:
        """Yields each kind of state, whether to restore, and a harness."""
        for case in CASES.values():
            for restore in (False, True):
                yield case, restore, self.starting()

    def test_ttl_there_is_nothing_before_the_first_write(self) -> None:
        """Flink: testNonExistentValue."""
        for case, _, harness in self.every():
            case.check(harness.state(case.describe(lives().build())))
            assert harness.seal() == {}

    def test_ttl_update_with_none_clears(self) -> None:
        """Flink: testValueSetNull."""
        case, harness = CASES["value"], self.starting()
        descriptor = case.describe(lives().return_expired_if_not_cleaned_up().build())
        harness.state(descriptor).update(1)
        case.check(harness.state(descriptor), 1)
        harness.state(descriptor).update(None)
        case.check(harness.state(descriptor))

    def test_ttl_an_expired_value_reads_as_the_default(self) -> None:
        for restore in (False, True):
            descriptor = with_ttl(ValueStateDescriptor("v", "bigint", 7), lives().build())
            fresh = self.starting()
            fresh.state(descriptor).update(1)
            harness = sealed(fresh, restore)
            assert after(harness, TTL - 1).state(descriptor).value() == 1
            assert after(harness, TTL).state(descriptor).value() == 7

    def test_ttl_ends_at_the_millisecond(self) -> None:
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives().build())
            case.write(fresh.state(descriptor), 1)
            harness = sealed(fresh, restore)
            case.check(after(harness, TTL - 1).state(descriptor), 1)
            harness = sealed(harness, restore)
            case.check(after(harness, TTL).state(descriptor))
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives().build())
            case.write(fresh.state(descriptor), 1)
            case.check(after(sealed(fresh, restore), TTL + 1).state(descriptor))

    def test_ttl_begins_again_with_each_write(self) -> None:
        """Flink: testExactExpirationOnWrite."""
        for case, restore, harness in self.every():
            descriptor = case.describe(lives().build())
            harness = sealed(harness, restore)
            case.write(after(harness, 0).state(descriptor), 1)
            harness = sealed(harness, restore)
            case.check(after(harness, 20).state(descriptor), 1)
            harness = sealed(harness, restore)
            case.write(after(harness, 50).state(descriptor), 2)
            harness = sealed(harness, restore)
            case.check(after(harness, 120).state(descriptor), 1, 2)
            harness = sealed(harness, restore)
            case.write(after(harness, 170).state(descriptor), 3)
            harness = sealed(harness, restore)
            case.check(after(harness, 220).state(descriptor), 3)
            harness = sealed(harness, restore)
            case.check(after(harness, 300).state(descriptor))
            harness.seal()
            assert harness.backend.rows == 0, "a read that finds an expired value removes it"
            assert harness.folded(descriptor).num_rows == 0

    def test_ttl_an_expired_value_is_returned_once(self) -> None:
        """Flink: testRelaxedExpirationOnWrite."""
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives().return_expired_if_not_cleaned_up().build())
            case.write(fresh.state(descriptor), 1)
            harness = after(sealed(fresh, restore), 120)
            case.check_once(harness.state(descriptor), 1)
            harness.seal()
            assert harness.backend.rows == 0
            case.check(harness.reopened().state(descriptor))

    def test_ttl_begins_again_with_each_read(self) -> None:
        """Flink: testExactExpirationOnRead."""
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives().update_ttl_on_read_and_write().build())
            case.write(fresh.state(descriptor), 1)
            harness = sealed(fresh, restore)
            case.check(after(harness, 50).state(descriptor), 1)
            harness = sealed(harness, restore)
            case.check(after(harness, 120).state(descriptor), 1)
            harness = sealed(harness, restore)
            case.check(after(harness, 250).state(descriptor))
            harness.seal()
            assert harness.backend.rows == 0

    def test_ttl_a_read_in_time_and_one_too_late(self) -> None:
        """Flink: testRelaxedExpirationOnRead."""
        for case, restore, fresh in self.every():
            builder = lives().update_ttl_on_read_and_write().return_expired_if_not_cleaned_up()
            descriptor = case.describe(builder.build())
            case.write(fresh.state(descriptor), 1)
            harness = sealed(fresh, restore)
            case.check(after(harness, 50).state(descriptor), 1)
            harness = after(sealed(harness, restore), 170)
            case.check_once(harness.state(descriptor), 1)

    def test_ttl_may_be_longer_than_time(self) -> None:
        """Flink: testExpirationTimestampOverflow."""
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives((1 << 63) - 1).cleanup_full_snapshot().build())
            case.write(fresh.state(descriptor), 1)
            harness = sealed(fresh, restore)
            case.check(after(harness, 50).state(descriptor), 1)
            harness.seal()
            assert harness.folded(descriptor).num_rows == harness.backend.rows > 0

    def test_ttl_disabled_is_no_ttl(self) -> None:
        for case, restore, fresh in self.every():
            config = lives(1).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
            case.write(fresh.state(case.describe(config)), 1)
            harness = after(sealed(fresh, restore), 1 << 40)
            case.check(harness.state(case.make()), 1)

    def test_ttl_of_each_key(self) -> None:
        """Flink: testMultipleKeys."""
        self._separately(lambda harness, name, descriptor: harness.state(descriptor, name), lives().build())

    def test_ttl_of_each_key_with_clean_snapshots(self) -> None:
        """Flink: testMultipleKeysWithSnapshotCleanup."""
        config = lives().cleanup_full_snapshot().build()
        self._separately(lambda harness, name, descriptor: harness.state(descriptor, name), config)

    def test_ttl_of_each_namespace(self) -> None:
        """Flink: testMultipleNamespaces."""
        self._separately(lambda harness, name, descriptor: harness.state(descriptor, "a", name), lives().build())

    def test_ttl_of_each_namespace_with_clean_snapshots(self) -> None:
        """Flink: testMultipleNamespacesWithSnapshotCleanup."""
        config = lives().cleanup_full_snapshot().build()
        self._separately(lambda harness, name, descriptor: harness.state(descriptor, "a", name), config)

    def _separately(self, place: Place, config: StateTtlConfig) -> None:
        for case, restore, harness in self.every():
            descriptor = case.describe(config)
            harness = after(sealed(harness, restore), 0)
            case.write(place(harness, "two", descriptor), 1)
            harness = after(sealed(harness, restore), 50)
            case.write(place(harness, "one", descriptor), 1)
            case.write(place(harness, "two", descriptor), 2)
            harness = after(sealed(after(harness, 120), restore), 120)
            case.check(place(harness, "one", descriptor), 1)
            case.check(place(harness, "two", descriptor), 1, 2)
            harness = after(sealed(harness, restore), 170)
            case.write(place(harness, "two", descriptor), 3)
            harness = sealed(after(harness, 230), restore)
            if config.get_cleanup_strategies().in_full_snapshot() and restore:
                after(harness, 140)  # time never goes back in a job; here it shows that the load left the value out
            case.check(place(harness, "one", descriptor))
            case.check(place(harness, "two", descriptor), 3)
            harness = after(sealed(after(harness, 300), restore), 300)
            case.check(place(harness, "one", descriptor))
            case.check(place(harness, "two", descriptor))

    def test_ttl_goes_back_with_a_restore(self) -> None:
        """Flink: testSnapshotChangeRestore."""
        for case, _, harness in self.every():
            descriptor = case.describe(lives().build())
            case.write(harness.state(descriptor, "k1"), 1)
            case.write(after(harness, 50).state(descriptor, "k1"), 2)
            case.write(after(harness, 100).state(descriptor, "k2"), 1)
            harness.seal()
            snapshot = harness.reopened()
            case.write(after(harness, 170).state(descriptor, "k1"), 3)
            case.write(harness.state(descriptor, "k2"), 2)
            after(snapshot, 180)
            case.check(snapshot.state(descriptor, "k1"))
            case.check(snapshot.state(descriptor, "k2"), 1)

    def test_ttl_in_event_time(self) -> None:
        for case, restore, fresh in self.every():
            descriptor = case.describe(lives().use_event_time().build())
            fresh.time.watermark = START - 10
            fresh.time.timestamp = START
            case.write(after(fresh, 1 << 40).state(descriptor), 1)
            harness = sealed(fresh, restore)
            harness.time.timestamp = START + 5 * TTL
            harness.time.watermark = START + TTL - 1
            case.check(harness.state(descriptor), 1)
            harness = sealed(harness, restore)
            harness.time.watermark = START + TTL
            case.check(harness.state(descriptor))


__all__ = ["TtlExpirySuite"]
