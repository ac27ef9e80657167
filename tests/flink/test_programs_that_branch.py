"""Programs with streams that are read several times, compared with the jobs that they become. No JVM."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from state_engine.flink import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    Types,
)
from state_engine.spark.explain import JobExplanation, explain_job
from state_engine.spark.graph.dry import DrySession

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.fixture
def env(tmp_path: Path) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(session=DrySession()).set_state_root(tmp_path)


def explained(env: StreamExecutionEnvironment) -> JobExplanation:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*have no uid")
        return explain_job(env.build_job("program"))


def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1), ("b", 2)], PAIR)


def double(value: Any) -> Any:
    return value * 2


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Echo(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_a_source_that_several_read_gets_an_operator(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env)
    stream.key_by(lambda v: v[0]).sum(1).uid("sum")
    stream.key_by(lambda v: v[1]).max(1).uid("max")
    shown = {operator.function: operator for operator in explained(env).operators}
    assert list(shown) == ["map(itself)", "sum(f1)", "max(f1)"]
    itself = shown["map(itself)"].uid
    assert [(way.upstream, way.shared) for name in ("sum(f1)", "max(f1)") for way in shown[name].inputs] == [
        (itself, True),
        (itself, True),
    ]


def test_a_source_that_comes_together_with_itself_gets_an_operator(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env)
    stream.union(stream).map(double, PAIR).uid("double")
    shown = {operator.function: operator for operator in explained(env).operators}
    assert [len(operator.inputs) for operator in shown.values()] == [1, 2]


def test_a_source_that_is_broadcast_and_read_otherwise_is_broadcast_after_its_operator(
    env: StreamExecutionEnvironment,
) -> None:
    rules = pairs(env).broadcast()
    rules.map(double, PAIR).uid("one")
    rules.process(Echo(), PAIR).uid("two")
    shown = {operator.uid: operator for operator in explained(env).operators}
    assert [shown[uid].inputs[0].ship for uid in shown] == ["REBALANCE", "BROADCAST", "BROADCAST"]


def test_side_outputs_are_processed_further(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("late", Types.STRING())
    main = env.from_collection([1]).process(Echo(), Types.INT()).uid("echo")
    main.key_by(lambda v: v).process(Count(), Types.INT()).uid("count").print()
    late = main.get_side_output(tag)
    late.print()
    late.map(str, Types.STRING()).uid("text").print()
    shown = {operator.uid: operator for operator in explained(env).operators}
    assert list(shown) == ["echo", "count", "text"]
    assert [(way.upstream, way.output, way.shared) for way in shown["text"].inputs] == [("echo", "late", True)]
    assert [operator.stage for operator in shown.values()] == [1, 3, 3]
