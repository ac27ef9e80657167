"""The room offers PyFlink's names: a function runs after changing its imports."""

from operator import attrgetter
from types import FunctionType

import pytest

import state_engine.api as api
import state_engine.api.windows as windows

MEMBERS = {
    "ValueState": ["value", "update", "clear"],
    "ListState": ["get", "add", "add_all", "update", "clear", "__iter__"],
    "MapState": [
        "get", "put", "put_all", "remove", "contains", "items", "keys", "values", "is_empty", "clear",
        "__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__",
    ],
    "ReducingState": ["get", "add", "clear"],
    "AggregatingState": ["get", "add", "clear"],
    "RuntimeContext": [
        "get_task_name", "get_number_of_parallel_subtasks", "get_max_number_of_parallel_subtasks",
        "get_index_of_this_subtask", "get_attempt_number", "get_task_name_with_subtasks", "get_job_parameter",
        "get_state", "get_list_state", "get_map_state", "get_reducing_state", "get_aggregating_state",
    ],
    "KeyedProcessFunction": ["open", "close", "process_element", "Context"],
    "ProcessFunction": ["open", "close", "process_element", "Context"],
    "MapFunction": ["open", "close", "map"],
    "FlatMapFunction": ["open", "close", "flat_map"],
    "FilterFunction": ["open", "close", "filter"],
    "StateDescriptor": ["get_name", "enable_time_to_live"],
    "StateTtlConfig": [
        "UpdateType", "StateVisibility", "TtlTimeCharacteristic", "Builder", "CleanupStrategies", "new_builder",
        "get_update_type", "get_state_visibility", "get_ttl", "get_ttl_time_characteristic", "is_enabled",
        "get_cleanup_strategies",
    ],
    "StateTtlConfig.Builder": [
        "set_update_type", "update_ttl_on_create_and_write", "update_ttl_on_read_and_write", "set_state_visibility",
        "return_expired_if_not_cleaned_up", "never_return_expired", "set_ttl_time_characteristic",
        "use_processing_time", "cleanup_full_snapshot", "cleanup_incrementally", "cleanup_in_rocksdb_compact_filter",
        "disable_cleanup_in_background", "set_ttl", "build",
    ],
    "StateTtlConfig.CleanupStrategies": [
        "Strategies", "CleanupStrategy", "EmptyCleanupStrategy", "IncrementalCleanupStrategy",
        "RocksdbCompactFilterCleanupStrategy", "EMPTY_STRATEGY", "is_cleanup_in_background", "in_full_snapshot",
        "get_incremental_cleanup_strategy", "get_rocksdb_compact_filter_cleanup_strategy",
    ],
    "ReduceFunction": ["open", "close", "reduce"],
    "AggregateFunction": ["open", "close", "create_accumulator", "add", "get_result", "merge"],
    "TimerService": ["current_processing_time", "current_watermark"],
    "ProcessWindowFunction": ["open", "close", "process", "clear", "Context"],
    "WindowFunction": ["open", "close", "apply"],
    "ProcessAllWindowFunction": ["open", "close", "process", "clear", "Context"],
    "AllWindowFunction": ["open", "close", "apply"],
}  # fmt: skip

WINDOW_MEMBERS = {
    "Window": ["max_timestamp"],
    "TimeWindow": ["intersects", "cover", "get_window_start_with_offset", "merge_windows"],
    "CountWindow": ["max_timestamp"],
    "GlobalWindow": ["get"],
    "WindowAssigner": [
        "WindowAssignerContext", "assign_windows", "get_default_trigger", "get_window_serializer", "is_event_time",
    ],
    "MergingWindowAssigner": ["MergeCallback", "merge_windows"],
    "SessionWindowTimeGapExtractor": ["extract"],
    "TumblingEventTimeWindows": ["of"],
    "TumblingProcessingTimeWindows": ["of"],
    "SlidingEventTimeWindows": ["of"],
    "SlidingProcessingTimeWindows": ["of"],
    "EventTimeSessionWindows": ["with_gap", "with_dynamic_gap"],
    "ProcessingTimeSessionWindows": ["with_gap", "with_dynamic_gap"],
    "DynamicEventTimeSessionWindows": ["with_dynamic_gap"],
    "DynamicProcessingTimeSessionWindows": ["with_dynamic_gap"],
    "GlobalWindows": ["create"],
    "CountTumblingWindowAssigner": ["of"],
    "CountSlidingWindowAssigner": ["of"],
    "Trigger": [
        "TriggerContext", "OnMergeContext", "on_element", "on_processing_time", "on_event_time", "can_merge",
        "on_merge", "clear",
    ],
    "TriggerResult": ["CONTINUE", "FIRE", "PURGE", "FIRE_AND_PURGE", "is_fire", "is_purge"],
    "EventTimeTrigger": ["create"],
    "ProcessingTimeTrigger": ["create"],
    "ContinuousEventTimeTrigger": ["of"],
    "ContinuousProcessingTimeTrigger": ["of"],
    "CountTrigger": ["of"],
    "PurgingTrigger": ["of"],
    "NeverTrigger": ["on_element"],
    "TimeWindowSerializer": ["serialize", "deserialize"],
    "CountWindowSerializer": ["serialize", "deserialize"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "member"), [(k, m) for k, members in MEMBERS.items() for m in members])
def test_members(kind: str, member: str) -> None:
    assert hasattr(attrgetter(kind)(api), member)


@pytest.mark.parametrize(("kind", "member"), [(k, m) for k, members in WINDOW_MEMBERS.items() for m in members])
def test_members_of_windows(kind: str, member: str) -> None:
    assert kind in windows.__all__
    assert hasattr(getattr(windows, kind), member)


def test_all_names_are_exported() -> None:
    public = {n for n, v in vars(api).items() if isinstance(v, type | FunctionType)}
    assert public == set(api.__all__)
