"""Every public method of PyFlink's classes is here, or in a table that says what to do instead."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import state_engine.api as api
import state_engine.api.windows as windows
import state_engine.flink as flink
from state_engine.errors import UnsupportedMethodError
from state_engine.flink import differences
from state_engine.spark.dry import DrySession

_STREAM = """add_sink assign_timestamps_and_watermarks broadcast cache connect count_window_all disable_chaining
    execute_and_collect filter flat_map force_non_parallel forward get_execution_environment get_name get_side_output
    get_type key_by map name partition_custom print process project rebalance rescale set_buffer_timeout
    set_description set_max_parallelism set_parallelism set_uid_hash shuffle sink_to slot_sharing_group
    start_new_chain uid union window_all"""
PYFLINK = {
    "StreamExecutionEnvironment": """configure enable_changelog_state_backend enable_checkpointing execute execute_async
        from_collection from_source get_checkpoint_config get_checkpoint_interval get_checkpointing_consistency_mode
        get_checkpointing_mode get_default_savepoint_directory get_execution_environment get_max_parallelism
        get_parallelism is_changelog_state_backend_enabled is_force_unaligned_checkpoints
        is_unaligned_checkpoints_enabled set_default_savepoint_directory set_max_parallelism set_parallelism""",
    "DataStream": _STREAM,
    "KeyedStream": _STREAM + " count_window max max_by min min_by reduce sum window",
    "AllWindowedStream": """aggregate allowed_lateness apply get_execution_environment get_input_type process reduce
        side_output_late_data trigger""",
    "WindowedStream": """aggregate allowed_lateness apply get_execution_environment get_input_type process reduce
        side_output_late_data trigger""",
    "BroadcastConnectedStream": "process",
    "ConnectedStreams": "flat_map is_keyed_stream key_by map process",
    "DataStreamSink": "disable_chaining name set_description set_parallelism set_uid_hash slot_sharing_group uid",
}
TABLES: dict[str, dict[str, str]] = {
    "StreamExecutionEnvironment": differences.ENVIRONMENT,
    "DataStream": differences.DATA_STREAM,
    "KeyedStream": differences.KEYED_STREAM,
    "AllWindowedStream": differences.WINDOWED_STREAM,
    "WindowedStream": differences.WINDOWED_STREAM,
    "BroadcastConnectedStream": {},
    "ConnectedStreams": differences.CONNECTED_STREAMS,
    "DataStreamSink": differences.DATA_STREAM_SINK,
}
METHODS = [(kind, method) for kind, methods in PYFLINK.items() for method in methods.split()]
DIFFERENT = [(kind, method) for kind, table in TABLES.items() for method in table]


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_a_method_is_here_or_in_the_table(kind: str, method: str) -> None:
    assert hasattr(getattr(flink, kind), method) != (method in TABLES[kind])


def stand_in(kind: str) -> Any:
    env = flink.StreamExecutionEnvironment(session=DrySession())
    stream = env.from_collection([("a", 1)])
    return {
        "StreamExecutionEnvironment": lambda: env,
        "DataStream": lambda: stream,
        "KeyedStream": lambda: stream.key_by(lambda v: v[0]),
        "DataStreamSink": lambda: stream.print(),
    }[kind]()


@pytest.mark.parametrize(("kind", "method"), DIFFERENT)
def test_what_is_not_here_says_what_to_do(kind: str, method: str) -> None:
    found = stand_in(kind)
    with pytest.raises(UnsupportedMethodError, match=rf"{kind}\.{method}\(\) is not there") as error:
        getattr(found, method)
    assert error.value.action.endswith(".")
    assert not hasattr(found, method)


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'key_bye'"):
        stand_in("DataStream").key_bye()


@pytest.mark.parametrize(
    ("kind", "method", "parameters"),
    [
        ("DataStream", "map", ["func", "output_type"]),
        ("DataStream", "key_by", ["key_selector", "key_type"]),
        ("DataStream", "process", ["func", "output_type"]),
        ("DataStream", "execute_and_collect", ["job_execution_name", "limit"]),
        ("KeyedStream", "sum", ["position_to_sum"]),
        ("KeyedStream", "max_by", ["position_to_max_by"]),
        ("KeyedStream", "count_window", ["size", "slide"]),
        ("ConnectedStreams", "key_by", ["key_selector1", "key_selector2", "key_type"]),
        ("StreamExecutionEnvironment", "from_collection", ["collection", "type_info"]),
        ("StreamExecutionEnvironment", "enable_checkpointing", ["interval", "mode"]),
        ("StreamExecutionEnvironment", "execute", ["job_name"]),
    ],
)
def test_arguments_have_pyflinks_names(kind: str, method: str, parameters: list[str]) -> None:
    found = [name for name in inspect.signature(getattr(getattr(flink, kind), method)).parameters if name != "self"]
    assert found == parameters


def test_one_module_has_all_names() -> None:
    assert {*api.__all__, *windows.__all__} <= set(flink.__all__)
    assert len(set(flink.__all__)) == len(flink.__all__)
    assert not [name for name in flink.__all__ if not hasattr(flink, name)]


def test_the_page_names_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pyflink-programs.md").read_text(encoding="utf-8")
    missing = [f"{kind}.{method}" for kind, method in METHODS + DIFFERENT if f"`{method}`" not in page]
    assert not missing
