"""The settings of a state's time to live (TTL), by PyFlink's names.

What they mean is Flink's; `docs/formats/last-access.md` says how it is kept. Beyond PyFlink there is event time
(`use_event_time`), and `allow_time_characteristic_change` for going from one time to the other.
"""

from __future__ import annotations

from abc import ABC
from datetime import timedelta
from enum import Enum

from state_engine.api.durations import Duration, Time, as_milliseconds
from state_engine.errors import JobDefinitionError


class StateTtlConfig:
    """How long the values of a state live after they were last touched; made by `new_builder`.

    Raises:
        JobDefinitionError: The TTL is no length of time, or not positive.
    """

    class UpdateType(Enum):
        """When the time of the last access is renewed, which prolongs a value's life."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether a value that expired may still be read, as long as nobody has cleaned it up."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time that a TTL goes by; event time is not in PyFlink."""

        ProcessingTime = 0
        EventTime = 1

    class CleanupStrategies:
        """When expired values are removed, besides when a read meets them.

        Args:
            strategies: What was asked for.
            is_cleanup_in_background: Whether what was not asked for is done with Flink's defaults.
        """

        class Strategies(Enum):
            """Ways to clean up, by Flink's ordinals."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(ABC):  # noqa: B024, Flink's marker interface
            """Base of the settings of a way to clean up."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A way to clean up that has no settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Looks at some keys with each access to the state.

            Args:
                cleanup_size: How many keys.
                run_cleanup_for_every_record: Also with each record, whatever state it uses.
            """

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                if cleanup_size < 0:
                    raise JobDefinitionError(
                        f"{cleanup_size} keys cannot be cleaned up per access.", action="Give 0 keys or more."
                    )
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Returns how many keys are looked at."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Says whether that also happens with each record."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired rows when files are compacted; `periodic_compaction_time` 0 means at no certain time.

            Args:
                query_time_after_num_entries: After how many rows RocksDB's filter asks for the time again.
                periodic_compaction_time: Files older than that are compacted.
            """

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def get_query_time_after_num_entries(self) -> int:
                """Returns after how many rows the time is asked for again."""
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
            """Says whether the default clean-up is on."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Says whether a load leaves out what has expired."""
            return StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Returns how to clean up with each access: 5 keys by default, None if the default is off."""
            default = (
                StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy(5, False)
                if self._is_cleanup_in_background
                else None
            )
            return self._strategies.get(StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP, default)  # type: ignore[return-value]

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Returns how to clean up in compactions: as Flink by default, None if the default is off."""
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
        """Returns a builder: touched by writes, expired values never returned, processing time."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Returns what touches a value."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Returns whether expired values may be read."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Returns the time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Returns the time that it goes by."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Says whether values expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Returns when expired values are removed."""
        return self._cleanup_strategies

    def allows_time_characteristic_change(self) -> bool:
        """Says whether the state may go on from rows that were stamped in the other time."""
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
            """Sets what touches a value."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Writes touch a value."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Reads touch a value, too: the first one in an epoch is written to the log."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            """Sets whether expired values may be read."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """An expired value is returned once, unless it was cleaned up before."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """An expired value is as if it were not there."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets the time that the TTL goes by."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """The TTL goes by the epochs' processing times."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """The TTL goes by watermarks, and a touch has the time of its record. Not in PyFlink."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def allow_time_characteristic_change(self) -> StateTtlConfig.Builder:
            """Lets the state go on from rows that were stamped in the other time, which is refused otherwise.

            Their last access then counts as unknown: they live on until somebody touches or reads them, and a whole
            TTL after that. Not in PyFlink.
            """
            self._allows_change = True
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leaves out of each load and full fold what has expired."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = (
                StateTtlConfig.CleanupStrategies.EMPTY_STRATEGY
            )
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Looks at `cleanup_size` keys with each access, or also with each record. The heap backend does."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP] = (
                StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Drops what has expired in compactions: RocksDB's, and the full folds of the state's table."""
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Leaves off the clean-up that nobody asked for."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration | timedelta) -> StateTtlConfig.Builder:
            """Sets the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Returns the settings.

            Raises:
                JobDefinitionError: The TTL is no length of time, or not positive.
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
        raise JobDefinitionError(f"{ttl!r} is no time to live.", action="Give 1 ms or more, such as Time.hours(1).")
    return Time(milliseconds)


__all__ = ["StateTtlConfig"]
