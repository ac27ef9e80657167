"""Settings of a state's time to live (TTL), under PyFlink's names.

The semantics are Flink's; `docs/formats/last-access.md` describes how access times are stored. PyFlink does not have
event time (`use_event_time`) and `allow_time_characteristic_change`, which allows switching from one time to the other.
"""

from __future__ import annotations

from abc import ABC
from datetime import timedelta
from enum import Enum

from state_engine.api.durations import Duration, Time, as_milliseconds
from state_engine.errors import JobDefinitionError


class StateTtlConfig:
    """Defines how long the values of a state live after their last access; create it with `new_builder`.

    Raises:
        JobDefinitionError: The TTL is not a length of time, or not positive.
    """

    class UpdateType(Enum):
        """Which accesses renew the time of the last access, and so prolong a value's life."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether an expired value may still be read before it is cleaned up."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time by which a TTL is measured; event time is not in PyFlink."""

        ProcessingTime = 0
        EventTime = 1

    class CleanupStrategies:
        """When expired values are removed, apart from when a read meets them.

        Args:
            strategies: The strategies that the author chose.
            is_cleanup_in_background: Whether the other strategies run with Flink's defaults.
        """

        class Strategies(Enum):
            """The clean-up strategies, with Flink's ordinals."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(ABC):  # noqa: B024, Flink's marker interface
            """Base of the settings of a clean-up strategy."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A clean-up strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Checks some keys at each access to the state, and removes expired ones.

            Args:
                cleanup_size: Number of keys per check.
                run_cleanup_for_every_record: Whether also to check at each record, whichever state it uses.
            """

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                if cleanup_size < 0:
                    raise JobDefinitionError(
                        f"{cleanup_size} keys cannot be cleaned up per access.", action="Give 0 keys or more."
                    )
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Returns the number of keys per check."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Returns whether keys are also checked at each record."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Removes expired rows when files are compacted.

            Args:
                query_time_after_num_entries: Number of rows after which RocksDB's filter reads the time again.
                periodic_compaction_time: Files older than this are compacted; 0 disables compaction by age.
            """

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """Returns the number of rows after which the time is read again."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Returns the age at which files are compacted."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Returns whether strategies that were not chosen run with Flink's defaults."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Returns whether a load of the state leaves out expired values."""
            return StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Returns how to clean up at each access: 5 keys by default, None if the default is off."""
            default = (
                StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy(5, False)
                if self._is_cleanup_in_background
                else None
            )
            return self._strategies.get(StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP, default)  # type: ignore[return-value]

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Returns how to clean up in compactions: Flink's settings by default, None if the default is off."""
            default = (
                StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy(1000)
                if self._is_cleanup_in_background
                else None
            )
            return self._strategies.get(StateTtlConfig.CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER, default)  # type: ignore[return-value]

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time | Duration | timedelta,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = _positive(ttl)
        self._cleanup_strategies = cleanup_strategies
        self._allows_change = False

    @staticmethod
    def new_builder(ttl: Time | Duration | timedelta) -> StateTtlConfig.Builder:
        """Returns a builder with these defaults: writes renew, expired values are never returned, processing time."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Returns which accesses renew a value's time to live."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Returns whether expired values may be read."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Returns the time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Returns the time by which the TTL is measured."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Returns whether values expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Returns when expired values are removed."""
        return self._cleanup_strategies

    def allows_time_characteristic_change(self) -> bool:
        """Returns whether the state may be restored from rows with access times of the other characteristic."""
        return self._allows_change

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )

    class Builder:
        """Builds a `StateTtlConfig`."""

        def __init__(self, ttl: Time | Duration | timedelta) -> None:
            self._ttl: Time | Duration | timedelta = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}
            self._allows_change = False

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Sets which accesses renew a value's time to live."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Lets writes renew a value's time to live."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Lets reads renew a value's time to live, too: the first read in an epoch is written to the log."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Sets whether expired values may be read."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Lets a read return an expired value once, unless it was cleaned up before."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Lets reads treat an expired value as absent."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets the time by which the TTL is measured."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Measures the TTL by the processing times of epochs."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Measures the TTL by watermarks; an access has the event time of its record. Not in PyFlink."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def allow_time_characteristic_change(self) -> StateTtlConfig.Builder:
            """Lets the state be restored from rows with access times of the other characteristic; otherwise refused.

            The last access of such rows then counts as unknown. They live until they are next read or written, and a
            whole TTL after that. Not in PyFlink.
            """
            self._allows_change = True
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leaves expired values out of each load and each full fold."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = (
                StateTtlConfig.CleanupStrategies.EMPTY_STRATEGY
            )
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Checks `cleanup_size` keys at each access, or also at each record. Only the heap backend does this."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP] = (
                StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Removes expired values in compactions: those of RocksDB, and full folds of the state's table."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Turns off the default clean-up; only the chosen strategies run."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration | timedelta) -> StateTtlConfig.Builder:
            """Sets the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Returns the settings.

            Raises:
                JobDefinitionError: The TTL is not a length of time, or not positive.
            """
            built = StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._is_cleanup_in_background),
            )
            built._allows_change = self._allows_change
            return built


def _positive(ttl: Time | Duration | timedelta) -> Time:
    milliseconds = as_milliseconds(ttl, "A time to live")
    if milliseconds <= 0:
        raise JobDefinitionError(f"{ttl!r} is not a time to live.", action="Give 1 ms or more, such as Time.hours(1).")
    return Time(milliseconds)


__all__ = ["StateTtlConfig"]
