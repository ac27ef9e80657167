"""Every public name of PyFlink's DataStream API exists here with its signature, or is in a table with the reason."""

import inspect
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import state_engine.api as api
import state_engine.api.windows as windows
import state_engine.flink as flink
from state_engine.errors import UnsupportedMethodError, UnsupportedNameError
from state_engine.flink import differences
from state_engine.spark.graph.dry import DrySession

LISTED = (Path(__file__).parent / "pyflink_api.txt").read_text(encoding="utf-8").splitlines()
"""Names and signatures of PyFlink 2.3, as scripts/list_pyflink_api.py prints them."""
NAMES = [line for line in LISTED if not line.startswith("#")]
TABLES: dict[str, dict[str, str]] = {
    "StreamExecutionEnvironment": differences.ENVIRONMENT,
    "DataStream": differences.DATA_STREAM,
    "KeyedStream": differences.KEYED_STREAM,
    "AllWindowedStream": differences.WINDOWED_STREAM,
    "WindowedStream": differences.WINDOWED_STREAM,
    "BroadcastConnectedStream": {},
    "JobClient": differences.JOB_CLIENT,
    "ConnectedStreams": differences.CONNECTED_STREAMS,
    "DataStreamSink": differences.DATA_STREAM_SINK,
}
DIFFERENT = [(kind, method) for kind, table in TABLES.items() for method in table]


_BY_JAVA = "hands on to Java"
_ROWS = "rows cannot be changed, and every record is an insert"
_TEXT = "windows are written as text"
OTHER_PARAMETERS = {
    "KeyedStream.broadcast": "the same, with the names that DataStream.broadcast has",
    "Row.__contains__": "called by `in`",
    "Row.__getitem__": "called by []",
    "StreamExecutionEnvironment.execute_async": "the default is that of execute",
    "Types.BIG_DEC": "precision and scale, with defaults",
}
DIFFERENT_ON_PURPOSE = {
    "Configuration.get_bytearray": "no setting is bytes",
    "Configuration.parse_list_value": "no setting is a list",
    "Configuration.set_bytearray": "no setting is bytes",
    "ContinuousEventTimeTrigger.register_next_fire_timestamp": "inside the trigger",
    "ContinuousProcessingTimeTrigger.register_next_fire_timestamp": "inside the trigger",
    "CountWindowSerializer.deserialize": _TEXT,
    "CountWindowSerializer.serialize": _TEXT,
    "EmbeddedRocksDBStateBackend.get_number_of_transfer_threads": "nothing is transferred",
    "EmbeddedRocksDBStateBackend.get_options": _BY_JAVA,
    "EmbeddedRocksDBStateBackend.set_number_of_transfer_threads": "nothing is transferred",
    "EmbeddedRocksDBStateBackend.set_options": _BY_JAVA,
    "GlobalWindowSerializer.deserialize": _TEXT,
    "GlobalWindowSerializer.serialize": _TEXT,
    "JobExecutionResult.get_accumulator_result": "there are no accumulators",
    "JobExecutionResult.get_all_accumulator_results": "there are no accumulators",
    "KeyedStream.AccumulateType": "inside of sum(), min(), …",
    "Row.get_row_kind": _ROWS,
    "Row.of_kind": _ROWS,
    "Row.set_field_names": _ROWS,
    "Row.set_row_kind": _ROWS,
    "TimeWindowSerializer.deserialize": _TEXT,
    "TimeWindowSerializer.serialize": _TEXT,
    "TypeInformation.from_internal_type": _BY_JAVA,
    "TypeInformation.need_conversion": _BY_JAVA,
    "TypeInformation.to_internal_type": _BY_JAVA,
    "WatermarkStrategy.with_watermark_alignment": "the driver computes watermarks",
}
"""Classes, or classes and members, and why they differ from PyFlink."""


def known_difference(name: str) -> str | None:
    """Returns the name under which one of the tables has a member, its class, or a class in it."""
    parts = name.split(".")
    if parts[-1] in TABLES.get(parts[0], ()):
        return name
    outer = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return next((known for known in outer if known in differences.NAMES or known in DIFFERENT_ON_PURPOSE), None)


def shown(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return ("*" if parameter.kind is parameter.VAR_POSITIONAL else "") + parameter.name + default


def unlike(line: str) -> str | None:
    """Returns the difference from PyFlink; additional optional parameters are allowed."""
    name, method, parameters = line.partition("(")
    try:
        member = attrgetter(name)(flink)
    except (AttributeError, ImportError):
        return "not here"
    if not method or name in OTHER_PARAMETERS:
        return None
    theirs = [part for part in parameters[:-1].split(", ") if part not in ("", "cls")]
    given = inspect.signature(member).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in given):
        return None  # takes whatever it is given, to refuse it
    ours = [shown(parameter) for parameter in given if parameter.name != "self"]
    same, more = ours[: len(theirs)] == theirs, ours[len(theirs) :]
    return None if same and all("=" in part for part in more) else f"({', '.join(ours)})"


@pytest.mark.parametrize("line", NAMES)
def test_a_name_is_as_in_pyflink_or_in_a_table(line: str) -> None:
    name = line.partition("(")[0]
    difference, in_table = unlike(line), known_difference(name)
    assert (difference is None) == (in_table is None), (
        f"{line} is {difference or 'as there'}, and in the tables: {in_table}"
    )


def test_the_tables_name_nothing_that_pyflink_has_not() -> None:
    names = {line.partition("(")[0] for line in NAMES}
    assert {*DIFFERENT_ON_PURPOSE, *OTHER_PARAMETERS} <= names


@pytest.mark.parametrize("name", differences.NAMES)
def test_a_name_that_is_not_here_says_what_to_do(name: str) -> None:
    with pytest.raises(UnsupportedNameError, match=f"There is no {name} here") as error:
        exec(f"from state_engine.flink import {name}")
    assert error.value.action.endswith(".")


def test_an_unknown_name_is_an_ordinary_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'StreamExecutionEnviroment'"):
        exec("from state_engine.flink import StreamExecutionEnviroment")
    assert not hasattr(flink, "StreamExecutionEnviroment")


def stand_in(kind: str) -> Any:
    env = flink.StreamExecutionEnvironment(session=DrySession())
    stream = env.from_collection([("a", 1)])
    return {
        "StreamExecutionEnvironment": lambda: env,
        "DataStream": lambda: stream,
        "KeyedStream": lambda: stream.key_by(lambda v: v[0]),
        "DataStreamSink": lambda: stream.print(),
        "JobClient": lambda: flink.JobClient(None, "a"),
    }[kind]()


@pytest.mark.parametrize(("kind", "method"), DIFFERENT)
def test_what_is_not_here_says_what_to_do(kind: str, method: str) -> None:
    replacement = stand_in(kind)
    with pytest.raises(UnsupportedMethodError, match=rf"{kind}\.{method}\(\) is not supported") as error:
        getattr(replacement, method)
    assert error.value.action.endswith(".")
    assert not hasattr(replacement, method)


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'key_bye'"):
        stand_in("DataStream").key_bye()


def test_one_module_has_all_names() -> None:
    assert {*api.__all__, *windows.__all__} <= set(flink.__all__)
    assert len(set(flink.__all__)) == len(flink.__all__)
    assert not [name for name in flink.__all__ if not hasattr(flink, name)]


def test_the_page_names_every_method() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pyflink-programs.md").read_text(encoding="utf-8")
    methods = {(line.split(".")[0], line.partition("(")[0].split(".")[-1]) for line in NAMES if "(" in line}
    missing = [f"{kind}.{name}" for kind, name in methods if kind in TABLES and f"`{name}`" not in page]
    assert not sorted(missing)


def test_the_pages_name_every_class() -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = "".join((docs / page).read_text(encoding="utf-8") for page in ("pyflink.md", "pyflink-programs.md"))
    assert not [line for line in NAMES if "." not in line and not re.search(rf"\b{line}\b", pages)]
