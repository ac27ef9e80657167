"""The jobs that programs become, without Spark."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import CheckpointListener, MapFunction
from state_engine.errors import (
    JobDefinitionError,
    UnsupportedMethodError,
    UnsupportedTypeError,
)
from state_engine.flink import (
    CoMapFunction,
    CountWindow,
    DataStream,
    DiscardingSink,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    Row,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)
from state_engine.spark.explain import JobExplanation, explain_job
from state_engine.spark.graph.dry import DrySession
from state_engine.spark.graph.sinks import ForeachEpochSink, MemorySink

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])


@pytest.fixture
def env(tmp_path: Path) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(session=DrySession()).set_state_root(tmp_path)


def explained(env: StreamExecutionEnvironment) -> JobExplanation:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*have no uid")
        return explain_job(env.build_job("program"))


def operators(env: StreamExecutionEnvironment) -> dict[str, str]:
    return {operator.uid: operator.function for operator in explained(env).operators}


def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1), ("b", 2)], PAIR)


def double(value: Any) -> Any:
    return value * 2


def one(word: Any) -> Any:
    return word, 1


def split(line: Any) -> Any:
    yield from line.split()


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Echo(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


def test_uid_and_name_come_after_the_call(env: StreamExecutionEnvironment) -> None:
    counted = pairs(env).key_by(lambda v: v[0]).process(Count(), PAIR).name("Counting").uid("count")
    counted.sink_to(DiscardingSink()).uid("out").name("Out")
    [operator] = explained(env).operators
    assert (counted.get_name(), operator.uid, operator.generated_uid) == ("Counting", "count", False)
    assert (operator.sinks[0].uid, operator.inputs[0].ship) == ("out", "HASH(f0)")
    assert [state.name for state in operator.states] == ["count"]


def test_functions_in_sequence_are_one_operator(env: StreamExecutionEnvironment) -> None:
    lines = env.from_collection(["to be"])
    words = lines.flat_map(split).filter(bool).map(double).filter(len).map(one, PAIR).uid("words")
    words.key_by(lambda v: v[0]).sum(1).uid("sum").filter(len).print()
    assert operators(env) == {
        "words": "flat_map(split -> filter(bool) -> map(double) -> filter(len) -> map(one))",
        "sum": "sum(f1 -> filter(len))",
    }


def test_where_a_chain_ends(env: StreamExecutionEnvironment) -> None:
    class Listening(MapFunction, CheckpointListener):
        def map(self, value: Any) -> Any:
            return value

    numbers = env.from_collection([1]).map(double, Types.LONG()).uid("one")
    numbers.print()
    two = numbers.map(double, Types.LONG()).uid("two").map(double, Types.LONG()).start_new_chain().uid("three")
    four = two.map(double, Types.LONG()).disable_chaining().uid("four").map(double, Types.LONG()).uid("five")
    four.process(Echo(), Types.LONG()).uid("six").map(Listening(), Types.LONG()).uid("seven")
    assert list(operators(env)) == ["one", "two", "three", "four", "five", "six", "seven"]
    tasks = dict.fromkeys(operator.chain for operator in explained(env).operators)
    assert list(tasks) == [("one", "two"), ("three",), ("four",), ("five", "six", "seven")]


def test_a_side_output_of_a_chain_is_that_of_its_first_function(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("late", Types.STRING())
    main = env.from_collection([1]).process(Echo()).uid("echo")
    main.get_side_output(tag).print("late")
    main.map(double).filter(bool).print()
    [operator] = explained(env).operators
    assert (operator.uid, operator.side_outputs) == ("echo", {"late": "f0 string"})
    assert [sink.output for sink in operator.sinks] == ["late", "main"]


def test_a_source_with_a_sink_gets_an_operator(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env)
    stream.print()
    stream.key_by(lambda v: v[0]).sum(1).uid("sum").sink_to(MemorySink("x")).uid("x")
    shown = explained(env)
    assert [operator.function for operator in shown.operators] == ["map(itself)", "sum(f1)"]
    assert shown.operators[1].inputs[0].upstream == shown.operators[0].uid
    assert (shown.sources[0].kind, shown.sources[0].bounded) == ("parquet", True)


def test_the_collection_lies_below_the_root(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    pairs(env).print()
    explained(env)
    explained(env)
    [file] = (tmp_path / "_collections").rglob("*.parquet")
    assert file.parent == tmp_path / "_collections" / "program" / "1"


def test_no_collection_on_a_root_that_is_no_folder(env: StreamExecutionEnvironment) -> None:
    env.set_state_root("s3://bucket/jobs")
    pairs(env).print()
    with pytest.raises(JobDefinitionError, match="no local folder"):
        explained(env)


def test_a_computed_key_follows_the_fields(env: StreamExecutionEnvironment) -> None:
    pairs(env).key_by(lambda v: v[1] % 2, Types.INT()).sum(1).uid("sum")
    mapped = pairs(env).map(lambda v: v, PAIR).uid("same")
    mapped.key_by(lambda v: (v[1] % 2, v[0]), Types.TUPLE([Types.INT(), Types.STRING()])).max(1).uid("max")
    shown = {operator.uid: operator for operator in explained(env).operators}
    assert shown["sum"].inputs[0].ship == "HASH(key)"
    assert shown["sum"].output == "f0 string, f1 int"
    assert shown["max"].inputs[0].ship == "HASH(key_f0, key_f1)"
    assert shown["max"].inputs[0].steps == ("compute(key_f0, key_f1)",)


def test_two_inputs(env: StreamExecutionEnvironment) -> None:
    left, right = pairs(env), env.from_collection([Row(word="a", n=1)], NAMED)
    both = left.connect(right).key_by(lambda v: v[0], lambda v: v.word.lower(), Types.STRING())
    both.process(Both()).map(str, Types.STRING()).uid("text")
    [operator] = explained(env).operators
    assert operator.function == "process(Both -> map(str))"
    assert {entry.ship for entry in operator.inputs} == {"HASH(f0)", "HASH(key)"}


def test_connected_functions_by_verb(env: StreamExecutionEnvironment) -> None:
    class Names(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return str(value)

        map2 = map1

    env.from_collection([1]).connect(env.from_collection(["a"])).map(Names(), Types.STRING()).uid("names").print()
    [operator] = explained(env).operators
    assert (operator.uid, operator.output) == ("names", "f0 string")
    with pytest.raises(JobDefinitionError, match="CoMapFunction"):
        env.from_collection([1]).connect(env.from_collection(["a"])).map(str)  # type: ignore[arg-type]
    with pytest.raises(JobDefinitionError, match="Only one"):
        pairs(env).key_by(lambda v: v[0]).connect(pairs(env)).process(Both())


def test_windows(env: StreamExecutionEnvironment) -> None:
    class Sum(WindowFunction[Any, Any, str, CountWindow]):
        def apply(self, key: str, window: CountWindow, inputs: Any) -> Any:
            return [sum(inputs)]

    numbers = env.from_collection([1, 2, 3])
    numbers.key_by(lambda v: v % 2, Types.INT()).count_window(2).apply(Sum(), Types.LONG()).uid("sums")
    [operator] = explained(env).operators
    assert (operator.output, operator.inputs[0].ship) == ("f0 bigint", "HASH(key)")
    assert "window-contents" in [state.name for state in operator.states]
    with pytest.raises(JobDefinitionError, match="without event time"):
        numbers.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(1)))


def test_a_union_of_sources(env: StreamExecutionEnvironment) -> None:
    pairs(env).union(pairs(env)).key_by(lambda v: v[0]).min_by("f1").uid("least").print()
    [operator] = explained(env).operators
    assert [entry.upstream for entry in operator.inputs] == ["collection-1", "collection-2"]


def test_a_broadcast_stream(env: StreamExecutionEnvironment) -> None:
    everywhere = pairs(env).broadcast()
    everywhere.process(Echo(), PAIR).uid("echo").print()
    [operator] = explained(env).operators
    assert "BROADCAST" in operator.inputs[0].ship
    with pytest.raises(JobDefinitionError, match="MapStateDescriptors"):
        pairs(env).broadcast(ValueStateDescriptor("rules", Types.STRING()))  # type: ignore[call-overload]


def test_broadcast_state(env: StreamExecutionEnvironment) -> None:
    class Rules(KeyedBroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

        process_broadcast_element = process_element

    rules = env.from_collection(["x"]).broadcast(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
    keyed = pairs(env).key_by(lambda v: v[1] % 2, Types.INT())
    keyed.connect(rules).process(Rules(), PAIR).uid("rules").map(lambda v: v, PAIR).uid("behind").print()
    shown = explained(env).operators
    assert [operator.uid for operator in shown] == ["rules", "behind"]
    assert [entry.ship for entry in shown[0].inputs] == ["HASH(key)", "BROADCAST"]
    assert "rules" in [state.name for state in shown[0].states]
    with pytest.raises(JobDefinitionError, match="Give a BroadcastProcessFunction"):
        pairs(env).connect(rules).process(Rules(), PAIR)


def test_rebalance_takes_broadcast_back(env: StreamExecutionEnvironment) -> None:
    pairs(env).broadcast().rebalance().process(Echo(), PAIR).uid("echo").print()
    [operator] = explained(env).operators
    assert operator.inputs[0].ship == "REBALANCE"


def test_project_keeps_fields_as_tuples(env: StreamExecutionEnvironment) -> None:
    projected = pairs(env).project(1, 0)
    assert projected.get_type() == Types.TUPLE([Types.INT(), Types.STRING()])
    with pytest.raises(JobDefinitionError, match="2 fields"):
        pairs(env).project(2)


def test_a_streaming_frame_as_source(env: StreamExecutionEnvironment) -> None:
    frame = DrySession().readStream.schema("text string").json("/in")
    none = WatermarkStrategy.no_watermarks()
    assert env.from_source(frame, none, "rows").get_type().ddl() == "struct<text:string>"
    assert env.from_source(frame, none, "texts", Types.STRING()).get_type() == Types.STRING()
    with pytest.raises(JobDefinitionError, match="type_info"):
        env.from_source(frame, none, "numbers", Types.INT())
    with pytest.raises(JobDefinitionError, match=r"got str.*spark\.readStream"):
        env.from_source("kafka", none, "kafka")
    with pytest.raises(JobDefinitionError, match=r"without timestamps"):
        env.from_source(frame, WatermarkStrategy.for_monotonous_timestamps(), "timed")


@pytest.mark.parametrize(
    ("use", "wanted_by"),
    [
        (lambda stream: stream.key_by(lambda v: v), "key_by()"),
        (lambda stream: stream.union(stream), "union()"),
        (lambda stream: stream.sink_to(DiscardingSink()), "sink_to()"),
        (lambda stream: stream.execute_and_collect(), "execute_and_collect()"),
        (lambda stream: stream.process(Echo(), Types.INT()), "the next operator or sink"),
        (lambda stream: stream, "the next operator or sink"),
    ],
)
def test_a_type_is_requested_where_it_is_needed(
    env: StreamExecutionEnvironment, use: Callable[[DataStream], Any], wanted_by: str
) -> None:
    untyped = env.from_collection([1]).map(double).name("doubled")
    with pytest.raises(JobDefinitionError, match=re.escape(wanted_by)) as error:
        assert use(untyped) is not explained(env)
    assert "map() 'doubled' has no output_type" in str(error.value)


def test_what_has_no_meaning_is_said_once(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env).map(lambda v: v, PAIR)
    with pytest.warns(UserWarning, match=r"slot_sharing_group\(\) has no effect here") as warned:
        stream.slot_sharing_group("a").set_parallelism(1)
    assert [warning.filename for warning in warned] == [__file__]
    stream.slot_sharing_group("b").rebalance().shuffle().forward().rescale()
    with pytest.warns(UserWarning, match=r"set_parallelism\(\) has no effect.*env\.set_parallelism"):
        stream.set_parallelism(7)
    stream.print().set_parallelism(1).disable_chaining().name("x")


def test_one_subtask_can_be_requested(env: StreamExecutionEnvironment) -> None:
    pairs(env).map(lambda v: v, PAIR).force_non_parallel().uid("one")
    assert list(operators(env)) == ["one"]
    env.set_parallelism(2)
    with pytest.raises(JobDefinitionError, match="asks for one subtask"):
        explained(env)


def test_a_keyed_stream_is_no_operator(env: StreamExecutionEnvironment) -> None:
    keyed = pairs(env).key_by(lambda v: v[0])
    with pytest.raises(JobDefinitionError, match="no operator"):
        keyed.uid("x")
    with pytest.raises(JobDefinitionError, match="partitioned by its key"):
        keyed.rebalance()
    with pytest.raises(JobDefinitionError, match="KeyedProcessFunction"):
        keyed.process(Echo())
    with pytest.raises(JobDefinitionError, match="without key"):
        pairs(env).process(Count())


def test_values_that_cannot_be_keys(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(UnsupportedTypeError):
        env.from_collection([1.5]).key_by(lambda v: v)
    with pytest.raises(UnsupportedTypeError):
        env.from_collection([1]).key_by(lambda v: v / 2, Types.DOUBLE())


def test_a_stream_of_another_environment(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    other = StreamExecutionEnvironment(session=DrySession())
    with pytest.raises(JobDefinitionError, match="same environment"):
        pairs(env).union(pairs(other))


def test_sinks_are_ours(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobDefinitionError, match="DeltaSink"):
        pairs(env).sink_to("table")  # type: ignore[arg-type]
    stream = pairs(env)
    stream.add_sink(ForeachEpochSink(print)).uid("out")
    assert [sink.uid for operator in explained(env).operators for sink in operator.sinks] == ["out"]


def test_what_has_no_uid_is_said_for_a_job_that_lasts(env: StreamExecutionEnvironment) -> None:
    pairs(env).map(lambda v: v, PAIR).key_by(lambda v: v[0]).sum(1).sink_to(MemorySink("x"))
    with pytest.warns(UserWarning, match=r"operators with state \(sum-2\) and 1 sink\(s\) of job 'program'") as warned:
        env.build_job("program")
    assert [warning.filename for warning in warned] == [__file__]


def test_without_a_root_nothing_lasts() -> None:
    env = StreamExecutionEnvironment(session=DrySession())
    pairs(env).key_by(lambda v: v[0]).sum(1).print()
    with pytest.warns(UserWarning, match="no state root") as warned:
        job = env.build_job()
    assert [warning.filename for warning in warned] == [__file__]
    assert job.name == "Flink-Streaming-Job"


def test_only_results_that_come_as_records_do(env: StreamExecutionEnvironment) -> None:
    assert env.set_runtime_mode(RuntimeExecutionMode.STREAMING) is env
    with pytest.raises(UnsupportedMethodError, match="BATCH"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def test_operators_that_are_not_chained(env: StreamExecutionEnvironment) -> None:
    env.disable_operator_chaining().from_collection([1], Types.INT()).sink_to(DiscardingSink()).uid("nowhere")
    assert not env.is_chaining_enabled()
    assert not env.build_job("plain").settings.operator_chaining


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.counter = runtime_context.get_metrics_group().counter("records")

    def map(self, value: int) -> int:
        return value


def test_metrics_are_refused_when_the_job_is_built(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1], Types.INT()).map(Counting(), Types.INT()).sink_to(DiscardingSink())
    with pytest.raises(UnsupportedMethodError, match=r"get_metrics_group\(\) is not supported"):
        env.build_job("counting")


def test_a_class_in_place_of_an_object(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobDefinitionError, match="got the class Counting, not an object"):
        pairs(env).key_by(lambda pair: pair[0]).process(Counting)
