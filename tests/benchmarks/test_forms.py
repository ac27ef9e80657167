"""Other forms of the streams' functions: the same rows from batches as row by row, sessions as declared, and DuckDB."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import same_tables
from benchmarks.engines import duckdb
from benchmarks.engines.lakestate_batches import (
    CountWithTtlOfBatches,
    MapAndListOfBatches,
    RunningCountOfBatches,
    SessionsOfBatches,
    WindowsOfBatches,
)
from benchmarks.engines.lakestate_functions import CountWithTtl, MapAndList, RunningCount, Sessions
from benchmarks.model import EMITTED
from benchmarks.streams import Plan, cases, truth
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.event_time import START_MS
from benchmarks.workloads.workload import checks
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

COUNTED = ("k bigint", "k bigint, n bigint")
ITEMS = ("k bigint, item int, v bigint", "k bigint, item int, n bigint, total bigint")


def epochs(columns: int) -> list[list[tuple[int, ...]]]:
    """Returns epochs of records of few keys, the same at every call; one of them has only one record."""
    random = np.random.default_rng(5)
    highest = (5, 3, 1000)[:columns]
    return [[tuple(int(random.integers(0, most)) for most in highest) for _ in range(count)] for count in (200, 1, 300)]


def emitted(function: Any, types: Sequence[str], backend: str, given: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """Returns what each epoch emits, sorted."""
    found = []
    with KeyedOneInputStreamOperatorTestHarness(function, "k", *types, state_backend=backend) as harness:
        for records in given:
            before = len(harness.extract_output_values())
            harness.process_elements(records)
            found.append(sorted(harness.extract_output_values()[before:]))
    return found


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize(
    ("by_row", "by_batch", "types"),
    [
        (RunningCount, RunningCountOfBatches, COUNTED),
        (CountWithTtl, CountWithTtlOfBatches, COUNTED),
        (MapAndList, MapAndListOfBatches, ITEMS),
    ],
)
def test_batches_emit_what_rows_do(by_row: Any, by_batch: Any, types: Sequence[str], backend: str) -> None:
    given = epochs(types[0].count(",") + 1)

    rows, batches = (emitted(function(), types, backend, given) for function in (by_row, by_batch))

    assert all(rows[epoch] for epoch in (0, 2))
    assert batches == rows


def timed_epochs() -> list[list[tuple[int, int]]]:
    """Returns epochs of records of few keys and their times, which grow by one to nine; one has only one record."""
    random = np.random.default_rng(6)
    times = iter((START_MS + np.cumsum(random.integers(1, 10, size=501))).tolist())
    return [[(int(random.integers(0, 5)), next(times)) for _ in range(count)] for count in (200, 1, 300)]


class Step(NamedTuple):
    """The emitted rows, sorted, and then the content of the states and the number of timers."""

    emitted: list[tuple[Any, ...]]
    states: dict[str, Any]
    timers: int


def steps(function: Any, types: Sequence[str], backend: str, given: Sequence[Any]) -> list[Step]:
    """Returns the result of each epoch, of the watermark after it, and of one after all epochs."""
    found = []
    with KeyedOneInputStreamOperatorTestHarness(function, "k", *types, state_backend=backend) as harness:

        def note() -> None:
            emitted = sorted(harness.extract_output_values())
            found.append(Step(emitted, harness.snapshot().states(), harness.num_event_time_timers()))
            harness.clear_output()

        for records in given:
            harness.process_elements(records, [record[-1] for record in records])
            note()
            harness.process_watermark(records[-1][-1] - 1)
            note()
        harness.process_watermark(given[-1][-1][-1] + 1000)
        note()
    return found


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_sessions_of_batches_are_those_of_rows(backend: str) -> None:
    types = ("k bigint, t bigint", "k bigint, n bigint")

    rows, batches = (steps(of(30), types, backend, timed_epochs()) for of in (Sessions, SessionsOfBatches))

    assert batches == rows
    first, after_first, *_, last = batches
    assert len(first.emitted) > 20, "records close some"
    assert after_first.emitted, "the watermark closes some"
    assert last.emitted
    assert (last.states["session"], last.timers) == ({}, 0)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_windows_of_batches_are_those_of_a_loop(backend: str) -> None:
    size, types = 100, ("k bigint, v bigint, t bigint", "k bigint, window_start bigint, n bigint, total bigint")
    given = [[(k, t % 7, t) for k, t in records] for records in timed_epochs()]
    n, total = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for k, v, t in (record for records in given for record in records):
        n[k, t - t % size] += 1
        total[k, t - t % size] += v
    right = sorted((k, start, count, total[k, start]) for (k, start), count in n.items())

    found = steps(WindowsOfBatches(size), types, backend, given)

    assert sorted(row for step in found for row in step.emitted) == right
    for records, step in zip(given, found[1::2], strict=False):
        left = [start for of_key in step.states["windows"].values() for start in of_key]
        assert all(start + size - 1 > records[-1][-1] - 1 for start in left), "the watermark ended the others"
        assert step.timers == len(left) > 0
    assert (found[-1].states["windows"], found[-1].timers) == ({}, 0)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_duckdb_arrives_at_what_is_right(workload: str, tmp_path: Path) -> None:
    plan = Plan(workload, ["duckdb"], 5_000, 70, [2_000], least_epochs=5)
    [case] = cases(plan, tmp_path, 1)

    outcome = duckdb.run(case)

    assert len(outcome.ends) == 5
    assert same_tables(WORKLOADS[workload].settled(outcome.final, case), truth(case))


def test_open_sessions_are_read_from_both_states() -> None:
    from benchmarks.engines.lakestate_windows import open_sessions

    bounds = [{"start_ms": START_MS, "end_ms": START_MS + 30, "namespace": "a"}] * 2
    states = {
        "sessions": pa.table({"k": [3, 4], "value": bounds}),
        "count": pa.table({"k": [4, 3], "namespace": ["a", "a"], "value": [1, 2]}),
    }

    found = open_sessions(states.__getitem__, 25)
    lost = open_sessions((states | {"count": states["count"].slice(1)}).__getitem__, 25)

    right = {"session": pa.table({"k": [3, 4], "count": [2, 1], "last": [START_MS + 5] * 2})}
    assert same_tables({"session": found}, right)
    assert not same_tables({"session": lost}, right)


def test_a_sink_sums_sessions_once_per_epoch() -> None:
    from benchmarks.engines.lakestate_windows import EmittedRows, of_sessions
    from state_engine.spark import EpochId

    rows = pa.table({"k": [3, 4], "n": [2, 1]})
    sums = EmittedRows(of_sessions)
    for epoch, part in ((1, rows.slice(0, 1)), (2, rows.slice(1)), (2, rows.slice(1))):
        sums(EpochId("job", 1, epoch), part)

    assert same_tables({EMITTED: sums.sums}, {EMITTED: checks(2, 3, 2 * 2 * 3 + 4)})
