"""StopIteration from the author's code is a failure like any other: it ends nothing early, and no record is lost."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    StateTtlConfig,
    Time,
    TypeCodec,
    Types,
)
from state_engine.api.codecs import codec_type
from state_engine.api.output_tag import columns_type
from state_engine.api.windows import ProcessWindowFunction, TimeWindow, TumblingEventTimeWindows
from state_engine.errors import UserFunctionError
from state_engine.iterating import whole
from state_engine.runtime.adapters import FlatMapAdapter
from state_engine.runtime.chain import ChainAdapter
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.rows import row_maker
from state_engine.spark.graph.computed import ComputedRunner
from state_engine.spark.wire.rows import CONTROL
from state_engine.spark.worker.map_runner import MapRunner
from state_engine.testing.broadcast_harness import KeyedBroadcastOperatorTestHarness
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.two_input_harness import KeyedTwoInputStreamOperatorTestHarness
from state_engine.testing.window_harness import windowed_harness

INPUT = "k string, n bigint"
RECORDS = [("a", n) for n in range(8)]


def no_fourth(n: Any) -> Any:
    """Fails at the fourth value, in the way in which `next()` does."""
    if n == 3:
        raise StopIteration
    return (n,)


@dataclass
class Checked:
    """A record whose constructor fails at the fourth value."""

    k: str
    n: int

    def __post_init__(self) -> None:
        no_fourth(self.n)


@dataclass
class Assigned:
    """Like `Checked`, but fails in its own `__setattr__`."""

    k: str
    n: int

    def __setattr__(self, name: str, value: Any) -> None:
        no_fourth(value)
        super().__setattr__(name, value)


@dataclass
class Initialised:
    """Like `Checked`, but fails in its own `__init__`."""

    k: str
    n: int

    def __init__(self, k: str, n: int) -> None:
        self.k, self.n = k, no_fourth(n)[0]


class Numbers:
    """An iterator in Python, which raises StopIteration itself at its end."""

    def __init__(self) -> None:
        self._next = 0

    def __iter__(self) -> "Numbers":
        return self

    def __next__(self) -> int:
        self._next += 1
        if self._next > 5:
            raise StopIteration
        return self._next


def record_of(n: int) -> tuple[str, int]:
    return "a", *no_fourth(n)


# Iterables ----------------------------------------------------------------------------------------------------------

LAZY: dict[str, Callable[[], Iterable[Any]]] = {
    "map": lambda: map(no_fourth, range(8)),
    "map of the last one": lambda: map(no_fourth, [3]),
    "map of a function in C": lambda: map(next, [iter([1]), iter([]), iter([2])]),
    "map of a map": lambda: map(list, map(no_fourth, range(8))),
    "filter": lambda: filter(no_fourth, range(8)),
    "zip": lambda: zip(map(no_fourth, range(8)), range(8), strict=False),
    "enumerate": lambda: enumerate(map(no_fourth, range(8))),
    "starmap": lambda: itertools.starmap(no_fourth, zip(range(8), strict=True)),
    "takewhile": lambda: itertools.takewhile(no_fourth, range(8)),
    "generator": lambda: (no_fourth(n) for n in range(8)),
}


@pytest.mark.parametrize("kind", LAZY)
def test_an_iterable_that_ended_early_raises(kind: str) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(whole(LAZY[kind]()))


@pytest.mark.parametrize(
    "given",
    [
        Numbers,
        lambda: map(int, Numbers()),
        lambda: filter(None, Numbers()),
        lambda: filter(lambda n: n < 4, Numbers()),
        lambda: zip(Numbers(), Numbers(), strict=True),
        lambda: itertools.chain(Numbers(), [1]),
        lambda: map(max, Numbers(), itertools.count()),
        lambda: iter("abc"),
        lambda: {"a": 1}.items(),
        lambda: pa.RecordBatchReader.from_batches(
            pa.schema({"n": pa.int64()}), [pa.RecordBatch.from_pydict({"n": [1]})]
        ),
    ],
)
def test_what_ends_by_itself_is_whole(given: Callable[[], Iterable[Any]]) -> None:
    assert list(whole(given())) == list(given())


def test_what_is_stored_is_given_back_as_it_is() -> None:
    for stored in ([1], (1,), {1}, {1: 2}, (n for n in [1])):
        assert whole(stored) is stored


# What functions return ----------------------------------------------------------------------------------------------


class Process(ProcessFunction):
    def __init__(self, lazy: Callable[[], Iterable[Any]]) -> None:
        self.lazy = lazy

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return self.lazy()


class Keyed(Process, KeyedProcessFunction):  # type: ignore[misc]  # one body for both
    pass


class AtTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        return map(no_fourth, range(8))


class AtEnd(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        return None

    def finish(self) -> Iterable[Any]:
        return map(no_fourth, range(8))


class Both(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterable[Any]:
        return map(no_fourth, range(8))

    flat_map2 = flat_map1


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return map(no_fourth, range(8))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return map(no_fourth, range(8))


class Batches(KeyedBatchProcessFunction):
    def process_batch(self, keys: Any, records: pa.RecordBatch, ctx: Any) -> Iterable[Any]:
        parts = [records.select(["n"]).slice(n, 1) for n in range(records.num_rows)]
        return map(checked, parts)


def checked(part: pa.RecordBatch) -> pa.RecordBatch:
    no_fourth(part["n"][0].as_py())
    return part


class OfWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return map(no_fourth, [element.n for element in elements])


def window_at(n: int) -> TimeWindow:
    return TimeWindow(*no_fourth(n), n + 1)


class LazyWindows(TumblingEventTimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return map(window_at, range(8))

    goes_by_time_alone = False


def one_input(function: Any, *key: str, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(function, key, INPUT, "n bigint", **given)


def lazily() -> Iterable[Any]:
    return map(no_fourth, range(8))


def run_process() -> None:
    one_input(Process(lazily)).process_elements(RECORDS)


def run_keyed() -> None:
    one_input(Keyed(lazily), "k").process_elements(RECORDS)


def run_timed() -> None:
    one_input(Keyed(lazily), "k").process_elements(RECORDS, list(range(8)))


def run_timer() -> None:
    harness = one_input(AtTimer(), "k")
    harness.process_elements(RECORDS)
    harness.process_watermark(5)


def run_finish() -> None:
    one_input(AtEnd()).end_input()


def run_flat_map() -> None:
    one_input(FlatMapAdapter(lambda record: lazily())).process_elements(RECORDS)


def run_chain() -> None:
    chain = ChainAdapter([FlatMapAdapter(lambda record: [record]), FlatMapAdapter(lambda record: lazily())])
    one_input(chain).process_elements(RECORDS)


def run_first_of_chain() -> None:
    chain = ChainAdapter([FlatMapAdapter(lambda record: lazily()), FlatMapAdapter(lambda record: [record])])
    one_input(chain).process_elements(RECORDS)


def run_two_inputs() -> None:
    harness = KeyedTwoInputStreamOperatorTestHarness(Both(), "k", "k", INPUT, INPUT, "n bigint")
    harness.process_element2(RECORDS[0])


def beside_broadcast() -> KeyedBroadcastOperatorTestHarness:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    return KeyedBroadcastOperatorTestHarness(Rules(), (), INPUT, INPUT, "n bigint", [rules])


def run_beside_broadcast() -> None:
    beside_broadcast().process_element(RECORDS[0])


def run_broadcast() -> None:
    beside_broadcast().process_broadcast_element(RECORDS[0])


def run_batches() -> None:
    one_input(Batches(), "k").process_elements(RECORDS)


def run_window() -> None:
    harness = windowed_harness(TumblingEventTimeWindows(10, 0), "k", INPUT).process(OfWindow(), output_type="n bigint")
    harness.process_elements(RECORDS, [0] * 8)
    harness.process_watermark(10)


def run_assigner() -> None:
    harness = windowed_harness(LazyWindows(10, 0), "k", INPUT).process(OfWindow(), output_type="n bigint")
    harness.process_elements(RECORDS, [0] * 8)


@pytest.mark.parametrize(
    "run",
    [
        run_process,
        run_keyed,
        run_timed,
        run_timer,
        run_finish,
        run_flat_map,
        run_chain,
        run_first_of_chain,
        run_two_inputs,
        run_beside_broadcast,
        run_broadcast,
        run_batches,
        run_window,
        run_assigner,
    ],
    ids=lambda run: run.__name__,
)
def test_a_lazy_result_that_ended_early_fails_the_function(run: Callable[[], None]) -> None:
    with pytest.raises(UserFunctionError, match="raised RuntimeError: generator raised StopIteration"):
        run()


def test_a_lazy_result_that_ends_by_itself_is_emitted() -> None:
    harness = one_input(Process(lambda: zip(Numbers(), strict=True)))
    harness.process_element(RECORDS[0])
    assert harness.extract_output_values() == [(1,), (2,), (3,), (4,), (5,)]


# Records of an author's class ---------------------------------------------------------------------------------------


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (value.n,)


class KeyedPass(Pass, KeyedProcessFunction):  # type: ignore[misc]
    pass


@pytest.mark.parametrize("kind", [Checked, Assigned, Initialised])
@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_record_that_raises_when_it_is_made_fails_the_epoch(kind: type, key: tuple[str, ...]) -> None:
    function = KeyedPass() if key else Pass()
    harness = KeyedOneInputStreamOperatorTestHarness(function, key, kind, "n bigint")
    with pytest.raises(UserFunctionError, match=f"{kind.__name__} raised StopIteration"):
        harness.process_elements(RECORDS)
    assert harness.extract_output_values() == []


def test_a_dataclass_without_code_of_its_author_is_made_by_itself() -> None:
    @dataclass
    class Plain:
        n: int

    @dataclass(frozen=True, slots=True)
    class Frozen:
        n: int

    for kind in (Plain, Frozen):
        assert row_maker(columns_type(kind, "the test")) is kind


def test_records_inside_records_do_not_get_fewer() -> None:
    @dataclass
    class Outer:
        inner: list[Checked]

    read = reader(columns_type(Outer, "the test").types[0])
    array = pa.array([[{"k": "a", "n": n} for n in range(8)]], pa.list_(pa.struct({"k": pa.string(), "n": pa.int64()})))
    with pytest.raises(RuntimeError, match="Checked raised StopIteration"):
        read(array)


# State --------------------------------------------------------------------------------------------------------------


FAILS: list[bool] = []


class Decoding(TypeCodec[Any]):
    """Fails at the fourth value, once it is switched on."""

    version = 1
    stored_type = Types.LONG()

    def encode(self, value: Any) -> int:
        return int(value)

    def decode(self, stored: Any, version: int) -> Any:
        return no_fourth(stored)[0] if FAILS else stored


class Entries(dict[float, int]):
    """A dict that reads its entries lazily from an iterable."""

    def items(self) -> Any:
        return zip([n + 0.5 for n in range(8)], map(no_fourth, range(8)), strict=False)


class Mapping(KeyedProcessFunction):
    def __init__(self, expires: bool) -> None:
        self.descriptor = MapStateDescriptor("kept", Types.DOUBLE(), Types.LONG())
        if expires:
            self.descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_map_state(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.kept.put_all(Entries())


class Keeping(KeyedProcessFunction):
    """Keeps a list, and emits its length at the next record."""

    def __init__(self, element: Any, write: Callable[[Any], None]) -> None:
        self.element, self.write = element, write

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept", self.element))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (len([*self.kept.get()]),)
        self.write(self.kept)


def update(state: Any) -> None:
    state.update(map(sum, map(no_fourth, range(8))))


def add_all(state: Any) -> None:
    state.add_all(map(sum, map(no_fourth, range(8))))


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("write", [update, add_all])
def test_a_list_state_does_not_take_a_part_of_what_it_is_given(write: Callable[[Any], None], backend: str) -> None:
    harness = one_input(Keeping(Types.LONG(), write), "k", state_backend=backend)
    with pytest.raises(UserFunctionError, match="generator raised StopIteration"):
        harness.process_element(RECORDS[0])


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_a_map_state_does_not_take_a_part_of_what_it_is_given(backend: str, expires: bool) -> None:
    harness = one_input(Mapping(expires), "k", state_backend=backend)
    with pytest.raises(UserFunctionError, match="generator raised StopIteration"):
        harness.process_element(RECORDS[0])


def numbers(state: Any) -> None:
    state.update([list(range(8))])


def test_a_codec_does_not_shorten_a_list_in_rocksdb(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = one_input(Keeping(Types.LIST(codec_type(Decoding())), numbers), "k", state_backend="rocksdb")
    harness.process_element(RECORDS[0])
    monkeypatch.setattr(f"{__name__}.FAILS", [True])
    with pytest.raises(UserFunctionError, match=r"Decoding\.decode raised StopIteration"):
        harness.process_element(RECORDS[0])


def test_columns_of_a_codec_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    type_info = codec_type(Decoding())
    array = writer(type_info)(list(range(8)))
    monkeypatch.setattr(f"{__name__}.FAILS", [True])
    with pytest.raises(RuntimeError, match=r"Decoding\.decode raised StopIteration"):
        reader(type_info)(array)


# Before and between operators ---------------------------------------------------------------------------------------


def test_a_map_between_operators_does_not_lose_records() -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64()), (CONTROL, pa.binary())])
    rows = pa.RecordBatch.from_pylist([{"k": k, "n": n, CONTROL: None} for k, n in RECORDS], schema=schema)
    columns = columns_type(Checked, "the test")
    made = list(MapRunner(lambda record: record, columns, columns)([rows]))
    assert made == []  # barriers report the failure, and none came here


def test_a_computed_key_does_not_lose_records() -> None:
    rows = pa.RecordBatch.from_pydict({"k": [k for k, _ in RECORDS], "n": [n for _, n in RECORDS]})
    key = columns_type("c bigint", "the key")
    runner = ComputedRunner(lambda record: (1,), columns_type(Checked, "the test"), key, "in")
    with pytest.raises(UserFunctionError, match="Checked raised StopIteration"):
        list(runner([rows]))


def test_a_harness_does_not_take_a_part_of_its_records() -> None:
    harness = one_input(Pass())
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        harness.process_elements(map(record_of, range(8)))
