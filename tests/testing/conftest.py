"""A function with a state of each kind, in a harness; and a backend on a fast disk."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0.0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


@dataclass
class Last:
    n: int


class Everything(KeyedProcessFunction):
    """Has a state of each kind; emits what they hold. -1 clears all states of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Last))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.by_n = runtime_context.get_map_state(MapStateDescriptor("by_n", Types.LONG(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, int))
        accumulator = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), accumulator))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        states = (self.last, self.all, self.by_n, self.sum, self.mean)
        if value.n == -1:
            for state in states:
                state.clear()
        else:
            before = self.last.value()
            self.last.update(Last(value.n))
            self.all.add(value.n)
            self.by_n.put(value.n, (self.by_n.get(value.n) or 0) + 1)
            self.sum.add(value.n)
            self.mean.add(value.n)
            yield value.k, f"{before} {list(self.all.get())} {self.by_n.items()} {self.sum.get()} {self.mean.get()}"


def make(**given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(
        Everything(), "k", "k string, n bigint", "k string, seen string", **given
    )


@pytest.fixture(scope="session")
def everything() -> Callable[..., KeyedOneInputStreamOperatorTestHarness]:
    return make


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if the machine has one, because databases sync their files."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def rocksdb(disk: Path) -> EmbeddedRocksDBStateBackend:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(disk / "databases"))
    return backend
