"""Operations of scenarios as PyFlink's streams, and columns as PyFlink's types."""

from collections.abc import Sequence
from typing import Any

from pyflink.common import Types
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from scenario import Scenario

NAME = "scenario"
_ATOMS = {
    "string": Types.STRING,
    "bigint": Types.LONG,
    "int": Types.INT,
    "double": Types.DOUBLE,
    "boolean": Types.BOOLEAN,
}


def row_type(columns: str) -> Any:
    """Returns the row type of columns such as `k string, v bigint`."""
    names, types = zip(*(column.split() for column in columns.split(",")), strict=True)
    return Types.ROW_NAMED(list(names), [_ATOMS[name]() for name in types])


def build(env: StreamExecutionEnvironment, scenario: Scenario) -> Any:
    """Adds the scenario to an environment; returns the stream of its main output, whose operator is called `NAME`."""
    columns = [scenario.input]
    if scenario.operation.verb.startswith(("co_", "broadcast")):
        columns.append(scenario.input2 or scenario.input)
    streams = [env.from_collection([], type_info=row_type(names)) for names in columns]
    out = _two_inputs(streams, scenario) if len(streams) == 2 else _one_input(streams[0], scenario)
    out.name(NAME)
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink
    for stream in (out, *(out.get_side_output(tag) for tag in scenario.side_outputs)):
        stream._j_data_stream.sinkTo(discard())
    return out


def _keyed(stream: Any, scenario: Scenario, columns: str) -> Any:
    if scenario.key is None:
        return stream
    name = scenario.key
    kind = dict(column.split() for column in columns.split(","))[name]
    return stream.key_by(lambda row: row[name], _ATOMS[kind]())


def _one_input(stream: Any, scenario: Scenario) -> Any:
    operation, output = scenario.operation, row_type(scenario.output)
    keyed = _keyed(stream, scenario, scenario.input)
    match operation.verb:
        case "process" | "map" | "flat_map":
            return getattr(keyed, operation.verb)(operation.make(), output)
        case "filter" | "reduce":
            return getattr(keyed, operation.verb)(operation.make())
        case "sum" | "min" | "max" | "min_by" | "max_by":
            return getattr(keyed, operation.verb)(operation.make())
        case "window":
            return _window(keyed.window(operation.make()), scenario)
        case "count_window":
            return _window(keyed.count_window(*operation.make()), scenario)
        case verb:
            raise ValueError(f"there is no verb {verb!r}")


def _window(windowed: Any, scenario: Scenario) -> Any:
    operation, output = scenario.operation, row_type(scenario.output)
    if "trigger" in operation.options:
        windowed = windowed.trigger(operation.option("trigger"))
    if "allowed_lateness" in operation.options:
        windowed = windowed.allowed_lateness(operation.option("allowed_lateness"))
    if "late" in operation.options:
        windowed = windowed.side_output_late_data(_fresh(operation.options["late"], scenario))
    function = operation.option("function")
    match operation.option("how"):
        case "process":
            return windowed.process(function, output)
        case "apply":
            return windowed.apply(function, output)
        case "reduce":
            return windowed.reduce(operation.option("fold"), function, output)
        case "aggregate":
            accumulator = operation.option("accumulator")
            return windowed.aggregate(operation.option("fold"), function, accumulator, output)
        case how:
            raise ValueError(f"windows are not evaluated by {how!r}")


def _fresh(tag: OutputTag, scenario: Scenario) -> OutputTag:
    """Returns an equal tag: one that was used before holds a Java object, and cannot be pickled with the operator."""
    return OutputTag(tag.tag_id, row_type(scenario.input))


def _two_inputs(streams: Sequence[Any], scenario: Scenario) -> Any:
    first, second = streams
    operation, output = scenario.operation, row_type(scenario.output)
    keyed = _keyed(first, scenario, scenario.input)
    if operation.verb == "broadcast":
        descriptors = operation.option("descriptors")
        return keyed.connect(second.broadcast(*descriptors)).process(operation.make(), output)
    connected = keyed.connect(_keyed(second, scenario, scenario.input2 or scenario.input))
    verb = operation.verb.removeprefix("co_")
    return getattr(connected, verb)(operation.make(), output)
