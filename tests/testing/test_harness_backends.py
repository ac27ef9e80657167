"""Harnesses with the backends that a job may have: the same results, and snapshots that either can restore."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import (
    BroadcastProcessFunction,
    HashMapStateBackend,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapStateDescriptor,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.backends.rocksdb import RocksDBKeyedStateBackend
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.testing import (
    KeyedBroadcastOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    windowed_harness,
)

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
Make = Callable[..., Any]


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


def test_both_give_the_same_and_take_each_others_snapshots(everything: Make, rocksdb: Any) -> None:
    records = [("a", 1), ("b", 2), ("a", 3), ("a", -1), ("b", 5), ("a", 4)]
    rows = []
    for first, second in [("heap", rocksdb), (rocksdb, HashMapStateBackend()), ("hashmap", "heap")]:
        with everything(state_backend=first, parallelism=2) as before:
            before.process_elements(records)
            before.process_elements(records[::-1])
        with everything(state_backend=second, parallelism=3) as after:
            after.initialize_state(before.snapshot())
            after.process_elements(records)
            assert after.snapshot().states().keys() == {"last", "all", "by_n", "sum", "mean"}
        rows.append([*before.extract_output_values(), *after.extract_output_values()])
    assert sorted(rows[0]) == sorted(rows[1]) == sorted(rows[2])


def test_new_instances_load_what_is_on_disk(everything: Make, rocksdb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = everything(state_backend=rocksdb)
    harness.process_elements([("a", 1), ("b", 2)])
    harness.close()
    monkeypatch.setattr(RocksDBKeyedStateBackend, "_load_state", lambda *_: pytest.fail("loaded from the log"))
    harness.process_element(("a", 3))
    with pytest.raises(UserFunctionError):
        harness.process_elements([("a", 9), ("a", None)])
    harness.process_element(("b", 4))
    assert [row[1][:20] for row in harness.extract_output_values()[2:]] == [
        "Last(n=1) [1, 3] [(1",
        "Last(n=2) [2, 4] [(2",
    ]
    harness.close()


def test_databases_lie_below_the_path_that_was_named_and_go_with_the_harness(
    everything: Make, rocksdb: Any, disk: Path
) -> None:
    one, other = (everything(state_backend=rocksdb) for _ in range(2))
    one.process_element(("a", 1))
    other.process_element(("a", 2))
    assert one.snapshot().states()["all"] == {"a": [1]}
    assert other.snapshot().states()["all"] == {"a": [2]}
    assert len(list((disk / "databases").iterdir())) == 2
    for harness in (one, other):
        harness.close()
    del one, other, harness
    gc.collect()
    assert files(disk) == []


def test_a_harness_that_was_not_used_makes_no_folder(everything: Make, rocksdb: Any, disk: Path) -> None:
    everything(state_backend=rocksdb).close()
    assert list(disk.iterdir()) == []


def test_what_is_no_backend_is_refused(everything: Make) -> None:
    with pytest.raises(JobDefinitionError, match="no state backend 'disk'"):
        everything(state_backend="disk")


class Sum(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def _add(self, value: Any) -> Iterator[Any]:
        self.sum.update((self.sum.value() or 0) + value.n)
        yield value.k, self.sum.value()

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._add(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._add(value)


class Ruled(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.sum.update((self.sum.value() or 0) + value.n * (ctx.get_broadcast_state(RULES).get(value.k) or 1))
        yield value.k, self.sum.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.k, value.n)


class Unkeyed(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.k, value.n * (ctx.get_broadcast_state(RULES).get(value.k) or 1)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.k, value.n)


ROW = "k string, n bigint"


def test_two_inputs_a_broadcast_input_and_windows(rocksdb: Any) -> None:
    with KeyedTwoInputStreamOperatorTestHarness(Sum(), "k", "k", ROW, ROW, ROW, state_backend=rocksdb) as two:
        two.process_elements([(1, ("a", 1)), (2, ("a", 2))])
        two.close()
        two.process_element2(("a", 4))
        assert two.extract_output_values() == [("a", 1), ("a", 3), ("a", 7)]
    for function, key, last in ((Ruled(), "k", 50), (Unkeyed(), (), 20)):
        with KeyedBroadcastOperatorTestHarness(function, key, ROW, ROW, ROW, [RULES], state_backend=rocksdb) as ruled:
            ruled.process_elements([(2, ("a", 10)), (1, ("a", 3))])
            ruled.process_element(("a", 2))
            assert ruled.extract_output_values() == [("a", 30), ("a", last)]
    stream = windowed_harness(TumblingEventTimeWindows.of(Time.milliseconds(10)), "k", ROW, state_backend=rocksdb)
    with stream.reduce(lambda a, b: (a.k, a.n + b.n)) as windows:
        windows.process_elements([("a", 1), ("a", 2)], [3, 5])
        windows.process_watermark(9)
        assert windows.extract_output_values() == [("a", 3)]
