"""Settings of a time to live: PyFlink's defaults and refusals."""

import datetime
import pickle
from typing import Any

import pytest

from state_engine.api import Duration, StateTtlConfig, Time, Types, ValueStateDescriptor
from state_engine.errors import JobDefinitionError

Strategies = StateTtlConfig.CleanupStrategies.Strategies


def test_the_defaults_are_flinks() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config.get_ttl() == Time(1_000)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    assert not config.allows_time_characteristic_change()
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert incremental is not None
    assert compaction is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    assert compaction.get_query_time_after_num_entries() == 1_000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


def test_everything_can_be_set() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Time.days(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_event_time()
        .allow_time_characteristic_change()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(9, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    assert config.get_ttl().to_milliseconds() == 86_400_000
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
    assert config.allows_time_characteristic_change()
    strategies = config.get_cleanup_strategies()
    incremental = strategies.get_incremental_cleanup_strategy()
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert strategies.in_full_snapshot()
    assert not strategies.is_cleanup_in_background()
    assert incremental is not None
    assert compaction is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (7, True)
    assert compaction.get_query_time_after_num_entries() == 9
    assert compaction.get_periodic_compaction_time() == Duration.of_hours(1)


def test_the_setters_by_value_are_those_by_name() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().use_event_time()
    builder = builder.return_expired_if_not_cleaned_up()
    config = builder.update_ttl_on_create_and_write().never_return_expired().use_processing_time().build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime


def test_a_builder_that_goes_on_does_not_change_what_it_built() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    config = builder.build()
    builder.cleanup_full_snapshot()
    assert not config.get_cleanup_strategies().in_full_snapshot()


def test_without_background_there_is_only_what_was_requested() -> None:
    strategies = StateTtlConfig.new_builder(Time(1)).disable_cleanup_in_background().build().get_cleanup_strategies()
    assert strategies.get_incremental_cleanup_strategy() is None
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_ordinals_are_pyflinks() -> None:
    for kind, names in [
        (StateTtlConfig.UpdateType, ["Disabled", "OnCreateAndWrite", "OnReadAndWrite"]),
        (StateTtlConfig.StateVisibility, ["ReturnExpiredIfNotCleanedUp", "NeverReturnExpired"]),
        (StateTtlConfig.TtlTimeCharacteristic, ["ProcessingTime", "EventTime"]),
        (Strategies, ["FULL_STATE_SCAN_SNAPSHOT", "INCREMENTAL_CLEANUP", "ROCKSDB_COMPACTION_FILTER"]),
    ]:
        members: Any = kind
        assert [(member.name, member.value) for member in members] == [(name, n) for n, name in enumerate(names)]


@pytest.mark.parametrize("ttl", [Time.milliseconds(0), Time.seconds(-1), Duration.of_nanos(999_999), 1_000, None])
def test_a_ttl_is_a_positive_length_of_time(ttl: Any) -> None:
    with pytest.raises(JobDefinitionError, match="What to do"):
        StateTtlConfig.new_builder(ttl).build()


@pytest.mark.parametrize("ttl", [Time.seconds(2), Duration.of_seconds(2), datetime.timedelta(seconds=2)])
def test_a_ttl_may_be_any_length_with_a_unit(ttl: Any) -> None:
    assert StateTtlConfig.new_builder(ttl).build().get_ttl() == Time.seconds(2)


def test_a_descriptor_takes_settings_only() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    wrong: Any = Time.seconds(1)
    with pytest.raises(JobDefinitionError, match="new_builder"):
        descriptor.enable_time_to_live(wrong)


def test_negative_clean_up_is_refused() -> None:
    with pytest.raises(JobDefinitionError, match="-1 keys"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(-1, False)


def test_settings_travel_with_their_function() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(3, True).build())
    copied = pickle.loads(pickle.dumps(descriptor)).ttl_config
    assert copied.get_ttl() == Time.seconds(1)
    assert copied.get_cleanup_strategies().get_incremental_cleanup_strategy().get_cleanup_size() == 3
