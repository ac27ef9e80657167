"""Runs heap and RocksDB without Spark: the cost of an epoch that touches a fixed number of keys."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.model import Case, Outcome, Tables
from state_engine.api import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.state_backend import StateBackend
from state_engine.backends.choose import backend_maker
from state_engine.backends.keyed import KeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.schemas import state_schema, timer_schema
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange
from state_engine.log.ops import Op, log_schema
from state_engine.log.records import StateSchema
from state_engine.serialization.types import ddl_to_arrow, parse_columns

MAX_PARALLELISM = 128
BATCH = 10_000
USER_KEYS = 8
_PIECE = 100_000

FAR = 1 << 40
"""A time that no epoch reaches: registered timers fire only when all state is read back."""


def _with_ttl() -> StateDescriptor:
    descriptor = ValueStateDescriptor("state", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(365)).build())
    return descriptor


DESCRIPTORS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor("state", Types.LONG()),
    "ttl": _with_ttl(),
    "map": MapStateDescriptor("state", Types.LONG(), Types.LONG()),
    "list": ListStateDescriptor("state", Types.LONG()),
}


def run(case: Case) -> Outcome:
    """Loads one row per key, runs epochs that touch their keys, and reads everything back."""
    shape, _, store = case.engine.partition("/")
    if store == "dict":
        return run_dict(case)
    codec, context = KeyCodec(parse_columns("k bigint"), MAX_PARALLELISM), KeyContext()
    maker = backend_maker(settings(store, Path(case.work)), case.work, "benchmark", 1)
    backend = maker("operator", codec, KeyGroupRange(0, MAX_PARALLELISM - 1), context, OperatorTime())
    backend.resume()
    backend.start("0")
    timers = shape == "timers"
    domain, columns = TimeDomain.EVENT_TIME, codec.columns
    schema = (
        timer_schema("operator", columns, domain) if timers else state_schema("operator", columns, DESCRIPTORS[shape])
    )
    backend.attach([schema], lambda _: first_rows(schema, codec, case.keys))
    state: Any = backend.timers(domain) if timers else backend.state(DESCRIPTORS[shape])
    ends = []
    for epoch in range(case.epochs):
        touch = timer_toucher(state, context, epoch) if timers else toucher(shape, state, epoch)
        in_batches(touched(case, epoch), backend, context, touch)
        backend.freeze(epoch)
        backend.settle()
        backend.commit(str(epoch + 1))
        ends.append(time.time())
    totals = [0] * case.keys
    if timers:
        totals = fired(state, case.keys)
    else:
        in_batches(
            by_key_group(codec, case.keys), backend, context, lambda key: totals.__setitem__(key, total(shape, state))
        )
    backend.close()
    return outcome(case, ends, totals)


def run_dict(case: Case) -> Outcome:
    """Runs the same accesses on a plain dict, which shows how memory alone slows down with more keys."""
    state = dict(zip(np.arange(case.keys).tolist(), np.ones(case.keys, np.int64).tolist(), strict=True))
    ends = []
    for epoch in range(case.epochs):
        keys, more = touched(case, epoch), epoch + 1
        for start in range(0, len(keys), BATCH):
            for key in keys[start : start + BATCH].tolist():
                state[key] = (state.get(key) or 0) + more
        ends.append(time.time())
    return outcome(case, ends, list(state.values()))


def outcome(case: Case, ends: list[float], totals: list[int]) -> Outcome:
    """Returns the ends of the epochs, and the total of every key."""
    return Outcome(ends, _totals(case, pa.array(totals, pa.int64())))


def _totals(case: Case, totals: Any) -> Tables:
    return {"total": pa.table({"k": pa.array(np.arange(case.keys)), "total": totals})}


def timer_toucher(timers: Any, context: KeyContext, epoch: int) -> Callable[[Any], None]:
    """Returns the function that an epoch calls for each of its keys, for timers."""
    register, due_ms = timers.registering(context), FAR + epoch
    return lambda _: register(due_ms)


def fired(timers: Any, keys: int) -> list[int]:
    """Fires all timers, and returns the number of timers of each key."""
    counts = [0] * keys
    for _, key in timers.due(FAR << 1):
        counts[key] += 1
    return counts


def settings(store: str, work: Path) -> StateBackend:
    """Returns the state backend as a job's author would write it."""
    if store == "heap":
        return HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(work / "disk"))
    return backend


def touched(case: Case, epoch: int) -> "np.ndarray[Any, Any]":
    """Returns the keys of an epoch, one per record, each once: spread over all keys, different in each epoch."""
    return spread(case.keys, case.epoch_records, epoch)


def spread(keys: int, count: int, epoch: int) -> "np.ndarray[Any, Any]":
    """Returns `count` of the keys from 0 to `keys - 1`, each once: spread over all, different in each epoch."""
    return (np.arange(epoch * count, (epoch + 1) * count) * 2_654_435_761) % keys


def truth(case: Case) -> Tables:
    """Returns the expected total of each key: 1 from the load, and for each touch the epoch's number plus 1.

    For timers the total is their number: 1 from the load, and 1 for each epoch that touches the key.
    """
    totals = np.ones(case.keys, np.int64)
    for epoch in range(case.epochs):
        if case.engine.startswith("timers/"):
            totals[np.unique(touched(case, epoch))] += 1
        else:
            np.add.at(totals, touched(case, epoch), epoch + 1)
    return _totals(case, pa.array(totals))


def in_batches(keys: Any, backend: KeyedStateBackend, context: KeyContext, visit: Callable[[Any], None]) -> None:
    """Visits key after key as the current key, as an operator does with its batches of records."""
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH].tolist()
        backend.prefetch(batch)
        for key in batch:
            context.entry = key
            visit(key)


def toucher(shape: str, state: Any, epoch: int) -> Callable[[Any], None]:
    """Returns the function that an epoch calls for each of its keys."""
    user_key, more = epoch % USER_KEYS, epoch + 1
    if shape in ("value", "ttl"):
        return lambda _: state.update((state.value() or 0) + more)
    if shape == "map":
        return lambda _: state.put(user_key, (state.get(user_key) or 0) + more)
    return lambda _: state.add(more)


def total(shape: str, state: Any) -> int:
    """Returns the sum of the values of the current key."""
    if shape in ("value", "ttl"):
        return int(state.value() or 0)
    return sum(state.values() if shape == "map" else state.get())


def first_rows(schema: StateSchema, codec: KeyCodec, keys: int) -> Iterator[pa.Table]:
    """Yields one log row for each key, by key group, as the base of a log does."""
    columns = log_schema(schema, ddl_to_arrow)
    op = Op.APPEND if schema.shape == "list" else Op.PUT
    sorted_keys = by_key_group(codec, keys)
    for start in range(0, keys, _PIECE):
        numbers = sorted_keys[start : start + _PIECE]
        count = len(numbers)
        values: dict[str, Any] = {
            "key_group": _key_groups(codec, numbers),
            "k": numbers,
            "user_key": np.full(count, FAR - 1 if schema.kind == "timer" else 0),
            "value": np.ones(count, bool if schema.kind == "timer" else np.int64),
            "last_access": np.zeros(count, np.int64),
            "op": np.full(count, op, np.int8),
            "seq": np.arange(start, start + count),
        }
        yield pa.table({f.name: _column(values, f, count) for f in columns}, schema=columns)


def by_key_group(codec: KeyCodec, keys: int) -> Any:
    """Returns the keys sorted by key group, as in state tables and databases."""
    groups = np.concatenate([_key_groups(codec, np.arange(n, min(keys, n + _PIECE))) for n in range(0, keys, _PIECE)])
    return np.argsort(groups, kind="stable")


def _key_groups(codec: KeyCodec, numbers: Any) -> Any:
    return np.asarray(codec.key_groups(numbers.tolist(), [pa.array(numbers)]))


def _column(values: dict[str, Any], field: Any, count: int) -> Any:
    return pa.array(values[field.name], field.type) if field.name in values else pa.nulls(count, field.type)
