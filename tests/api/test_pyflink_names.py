"""The room offers PyFlink's names: a function runs after changing its imports."""

import pytest

import state_engine.api as api

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
    "ReduceFunction": ["open", "close", "reduce"],
    "AggregateFunction": ["open", "close", "create_accumulator", "add", "get_result", "merge"],
    "TimerService": ["current_processing_time", "current_watermark"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "member"), [(k, m) for k, members in MEMBERS.items() for m in members])
def test_members(kind: str, member: str) -> None:
    assert hasattr(getattr(api, kind), member)


def test_all_names_are_exported() -> None:
    public = {n for n, v in vars(api).items() if isinstance(v, type)}
    assert public == set(api.__all__)
