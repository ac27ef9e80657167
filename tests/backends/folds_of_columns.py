"""Functions that fold columns, and the accesses of a test to their states: by columns, and the same row by row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api import (
    AggregatingStateDescriptor,
    ColumnAggregateFunction,
    ColumnReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
)
from state_engine.api.keys import Keys
from state_engine.backends.keys import Namespaced
from state_engine.testing.state_harness import StateHarness


class Balance(ColumnReduceFunction):
    """Adds numbers other than 0; a sum of 0 is no value. Null adds nothing."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 if value2 is None else value1 + value2 or None

    def reduce_columns(self, keys: Keys, values: Any) -> Any:
        assert not values.null_count
        sums = pa.array(keys.sums(values))
        return pc.if_else(pc.equal(sums, 0), None, sums)


class Joined(ColumnReduceFunction):
    """Concatenates lists in place, so that the order counts."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        value1.extend(value2 or ())
        return value1

    def reduce_columns(self, keys: Keys, values: Any) -> Any:
        joined: list[Any] = [[] for _ in range(len(keys.distinct))]
        for code, value in zip(keys.codes.tolist(), values.to_pylist(), strict=True):
            joined[code] += value
        return pa.array(joined, pa.list_(pa.int64()))


class Account(ColumnAggregateFunction):
    """The sum of numbers, twice; a sum of 0 is no value, and a sum of 3 has no result."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        total = accumulator[0] + (value or 0)
        return (total, 2 * total) if total else None

    def get_result(self, accumulator: Any) -> Any:
        return None if accumulator[0] == 3 else accumulator[0] + accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        assert len(accumulators) == len(keys.distinct)
        added = pc.add(pc.fill_null(accumulators.flatten()[0], 0), pa.array(keys.sums(values)))
        twice, nothing = pc.multiply(added, 2), pc.equal(added, 0)
        return pa.StructArray.from_arrays([added, twice], names=["f0", "f1"], mask=nothing)

    def get_result_columns(self, accumulators: Any) -> Any:
        assert len(accumulators)
        assert not accumulators.null_count
        total, twice = accumulators.flatten()
        return pc.if_else(pc.equal(total, 3), None, pc.add(total, twice))


class Kept(ColumnAggregateFunction):
    """Keeps all values in an accumulator that grows in place; returns Python values."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return sum(one or 0 for one in accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        kept = [one or [] for one in accumulators.to_pylist()]
        for code, value in zip(keys.codes.tolist(), values.to_pylist(), strict=True):
            kept[code].append(value)
        return kept

    def get_result_columns(self, accumulators: Any) -> Any:
        return [self.get_result(one) for one in accumulators.to_pylist()]


FOLDS: dict[str, Callable[[], Any]] = {
    "balance": lambda: ReducingStateDescriptor("balance", Balance(), Types.LONG()),
    "joined": lambda: ReducingStateDescriptor("joined", Joined(), "array<bigint>"),
    "account": lambda: AggregatingStateDescriptor("account", Account(), Types.TUPLE([Types.LONG(), Types.LONG()])),
    "kept": lambda: AggregatingStateDescriptor("kept", Kept(), "array<bigint>"),
}
VALUES: dict[str, list[Any]] = {
    "balance": [-2, -1, 1, 2],
    "joined": [[1], [2, 3], []],
    "account": [-2, -1, 1, 2, None],
    "kept": [1, 2, None],
}


def described(name: str, config: StateTtlConfig.Builder | None) -> Any:
    descriptor = FOLDS[name]()
    if config is not None:
        descriptor.enable_time_to_live(config.build())
    return descriptor


def entry_of(key: Any) -> tuple[Any, str | None]:
    return (key.key, key.namespace) if isinstance(key, Namespaced) else (key, None)


class ByColumns:
    """Accesses a state by columns."""

    def __init__(self, harness: StateHarness, descriptor: Any) -> None:
        self.state = harness.backend.state(descriptor)
        self._result = [Types.LONG()] if isinstance(descriptor, AggregatingStateDescriptor) else []

    def add(self, keys: Keys, values: Any) -> None:
        self.state.add_many(keys, values)

    def remove(self, keys: Keys) -> None:
        self.state.remove_many(keys)

    def get(self, keys: Keys) -> list[Any]:
        results = self.state.get_many(keys, *self._result)
        assert len(results) == len(keys)
        return results.to_pylist()  # type: ignore[no-any-return]

    def contains(self, keys: Keys) -> list[Any]:
        return self.state.contains_many(keys).to_pylist()  # type: ignore[no-any-return]


class ByRows:
    """Accesses the state row by row: each record at its own time."""

    def __init__(self, harness: StateHarness, descriptor: Any) -> None:
        self._harness = harness
        self._descriptor = descriptor

    def _each(self, keys: Keys, times: Any) -> Any:
        listed = [None] * len(keys) if times is None else times.to_pylist()
        for code, time in zip(keys.codes.tolist(), listed, strict=True):
            self._harness.time.timestamp = time
            yield self._harness.state(self._descriptor, *entry_of(keys.entries[code]))
        self._harness.time.timestamp = None

    def add(self, keys: Keys, values: Any) -> None:
        for value, state in zip(values, self._each(keys, keys.times), strict=True):
            state.add(value)

    def remove(self, keys: Keys) -> None:
        for state in self._each(keys.distinct, None):
            state.clear()

    def get(self, keys: Keys) -> list[Any]:
        results = [state.get() for state in self._each(keys.distinct, keys.latest_times)]
        return [results[code] for code in keys.codes.tolist()]

    def contains(self, keys: Keys) -> list[Any]:
        return [result is not None for result in self.get(keys)]


def of(entries: list[int], times: list[int] | None = None) -> Keys:
    """Returns the keys of records."""
    return Keys([pa.array(entries, pa.int64())], unread, None if times is None else pa.array(times))


def unread(columns: Any) -> list[Any]:
    return columns[0].to_pylist()  # type: ignore[no-any-return]


def never_read(columns: Any) -> list[Any]:
    raise AssertionError("a key became a Python object")


def silent(keys: list[int]) -> Keys:
    """Returns keys of records; an error is raised if they become Python objects."""
    return Keys([pa.array(np.array(keys))], never_read)
