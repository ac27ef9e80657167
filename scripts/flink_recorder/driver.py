"""One PyFlink operator inside Flink's own test harness: what a scenario does to it, and what comes out, step by step.

The operator is the one that PyFlink's stream API makes. Flink's `KeyedOneInputStreamOperatorTestHarness` (and its
relatives) runs it without a cluster, with a clock that stands still until it is set. In process mode the Python side
runs in threads of this process, PyFlink's "loopback" worker, so that its clock can be set too.
"""

import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.utils import convert_to_python_obj
from pyflink.fn_execution.datastream.process import timerservice_impl
from pyflink.java_gateway import get_gateway
from scenario import Element, EndOfInput, ProcessingTime, Scenario, Step, Watermark
from streams import NAME, build, row_type

END = 2**63 - 1


class Clock:
    """Stands in for the module `time` where PyFlink's Python worker reads the clock."""

    now_ms = 0

    @classmethod
    def module(cls) -> Any:
        """Half a millisecond on top, so that rounding down in PyFlink gives the millisecond that was set."""
        return types.SimpleNamespace(time=lambda: (cls.now_ms + 0.5) / 1000)


timerservice_impl.time = Clock.module()


class Driver:
    """Runs one scenario.

    Args:
        scenario: What to run.
        mode: `process` or `thread`, as `python.execution-mode`.
    """

    def __init__(self, scenario: Scenario, mode: str) -> None:
        self._scenario = scenario
        self._jvm = get_gateway().jvm
        self._env = _environment(mode)
        stream = build(self._env, scenario)
        self._output_type = stream.get_type()
        columns = [scenario.input, scenario.input2 or scenario.input]
        self._inputs = [self._input_type(names, number) for number, names in enumerate(columns, 1)]
        self._harness = self._make_harness()
        Clock.now_ms = 0

    def run(self) -> list[dict[str, Any]]:
        """Runs all steps; returns what each brought: `rows`, by tag `side`, and `watermarks` if there are any."""
        self._harness.open()
        self._harness.setStateTtlProcessingTime(0)
        found = []
        for step in self._scenario.steps:
            self._do(step)
            self._run_mails()
            found.append(self._drain())
        if not any(isinstance(step, EndOfInput) for step in self._scenario.steps):
            self._harness.close()
        return found

    # Steps --------------------------------------------------------------------------------------------------------

    @property
    def _two_inputs(self) -> bool:
        return self._scenario.operation.verb.startswith(("co_", "broadcast"))

    def _do(self, step: Step) -> None:
        match step:
            case Element(row, at, number):
                suffix = str(number) if self._two_inputs else ""
                getattr(self._harness, f"processElement{suffix}")(self._record(row, at, number))
            case Watermark(ms, number):
                self._watermark(ms, number)
            case ProcessingTime(ms):
                Clock.now_ms = ms
                self._harness.setStateTtlProcessingTime(ms)
                self._harness.setProcessingTime(ms)
            case EndOfInput():
                for number in (1, 2) if self._two_inputs else (1,):
                    self._watermark(END, number)
                    getattr(self._harness, f"endInput{number}" if self._two_inputs else "endInput")()
                self._harness.close()

    def _run_mails(self) -> None:
        """What a task does between two inputs. In process mode timers are registered so, behind what set them."""
        mailbox = self._harness.getTaskMailbox()
        while mailbox.hasMail():
            for mail in mailbox.drain():
                mail.run()

    def _watermark(self, ms: int, number: int) -> None:
        suffix = str(number) if self._two_inputs else ""
        mark = self._jvm.org.apache.flink.streaming.api.watermark.Watermark(ms)
        getattr(self._harness, f"processWatermark{suffix}")(mark)

    def _drain(self) -> dict[str, Any]:
        rows, marks = [], []
        for record in _drained(self._harness.getOutput()):
            if record.getClass().getSimpleName() == "Watermark":
                marks.append(record.getTimestamp())
            elif record.getClass().getSimpleName() == "StreamRecord":
                rows.append([_plain(convert_to_python_obj(record.getValue(), self._output_type)), _time_of(record)])
        found: dict[str, Any] = {"rows": rows}
        if marks:
            found["watermarks"] = marks
        for tag in self._scenario.side_outputs:
            records = _drained(self._harness.getSideOutput(tag.get_java_output_tag()))
            side = [[_plain(convert_to_python_obj(r.getValue(), tag.type_info)), _time_of(r)] for r in records]
            if side:
                found.setdefault("side", {})[tag.tag_id] = side
        return found

    # Java ---------------------------------------------------------------------------------------------------------

    def _input_type(self, columns: str, number: int) -> Any:
        """The type that the operator's input has: behind `key_by` a row of key and record."""
        record = row_type(columns)
        if not self._is_keyed(number):
            return record
        kinds = dict(zip(record.get_field_names(), record.get_field_types(), strict=True))
        return Types.ROW([kinds[self._scenario.key], record])

    def _is_keyed(self, number: int) -> bool:
        broadcast = self._scenario.operation.verb == "broadcast" and number == 2
        return self._scenario.key is not None and not broadcast

    def _record(self, row: tuple[Any, ...], at: int | None, number: int) -> Any:
        value: Any = row
        if self._is_keyed(number):
            columns = self._scenario.input if number == 1 else self._scenario.input2 or self._scenario.input
            names = row_type(columns).get_field_names()
            value = (row[names.index(self._scenario.key)], row)
        java = _java_row(self._env, value, self._inputs[number - 1])
        record = self._jvm.org.apache.flink.streaming.runtime.streamrecord.StreamRecord
        return record(java) if at is None else record(java, at)

    def _make_harness(self) -> Any:
        nodes = self._env._generate_stream_graph(False).getStreamNodes().toArray()
        (node,) = (node for node in nodes if node.getOperatorName() == NAME)
        operator, selectors = node.getOperator(), node.getStatePartitioners()
        util = self._jvm.org.apache.flink.streaming.util
        keyed = self._is_keyed(1)
        arguments: list[Any] = [operator]
        if keyed:
            arguments += [selectors[0]]
            if self._two_inputs:
                arguments += [selectors[1] if self._is_keyed(2) else None]
            arguments += [self._inputs[0].get_field_types()[0].get_java_type_info()]
        place = f"{'Keyed' if keyed else ''}{'Two' if self._two_inputs else 'One'}InputStreamOperatorTestHarness"
        harness = getattr(util, place)(*arguments)
        harness.setup(node.getTypeSerializerOut())
        return harness


def _environment(mode: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for name, value in {
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.execution-mode": mode,
        "python.fn-execution.bundle.size": "1",  # what an element brings is there when the call returns
        "python.fn-execution.memory.managed": "false",  # a harness has no memory manager
    }.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def _java_row(env: StreamExecutionEnvironment, value: Any, type_info: Any) -> Any:
    """Makes a Java row by the way that `from_collection` takes, so that numbers have the declared types."""
    jvm = get_gateway().jvm
    with tempfile.NamedTemporaryFile() as file:
        env.serializer.serialize([type_info.to_internal_type(value)], file)
        file.flush()
        objects = jvm.PythonBridgeUtils.readPythonObjects(file.name)
    format_ = jvm.org.apache.flink.streaming.api.utils.PythonTypeUtils.getCollectionInputFormat(
        objects, type_info.get_java_type_info(), env._j_stream_execution_environment.getConfig()
    )
    format_.open(jvm.org.apache.flink.core.io.GenericInputSplit(0, 1))
    return format_.nextRecord(None)


def _drained(queue: Any) -> Iterator[Any]:
    while queue is not None and (record := queue.poll()) is not None:
        yield record


def _time_of(record: Any) -> int | None:
    return record.getTimestamp() if record.hasTimestamp() else None


def _plain(value: Any) -> Any:
    """Rows as lists, for JSON."""
    if hasattr(value, "_values"):
        value = value._values
    if isinstance(value, list | tuple):
        return [_plain(field) for field in value]
    return value
