"""The workload `windows`: the right result is that of a loop; a window that is lost, doubled or late is noticed."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import read_inputs, same_tables
from benchmarks.model import EMITTED, Case, Tables
from benchmarks.workloads.event_time import START_MS
from benchmarks.workloads.inputs import write_stream
from benchmarks.workloads.windows import MARKS, OPEN, WINDOWS_WORKLOAD, numbers, settled, window_ms
from benchmarks.workloads.workload import checks

KEYS, EPOCHS, EPOCH_RECORDS = 7, 4, 300
CASE = Case(
    workload="windows",
    engine="declared",
    key_type="int",
    keys=KEYS,
    epochs=EPOCHS,
    epoch_records=EPOCH_RECORDS,
    files_per_epoch=2,
    parallelism=2,
    inputs="",
    work="",
)
WATERMARK = START_MS + (EPOCHS - 1) * EPOCH_RECORDS - 2
"""The watermark with which the last epoch began."""

Window = tuple[int, int, int, int]
"""Key, start, count, sum."""


@pytest.fixture
def records(tmp_path: Path) -> pa.Table:
    write_stream(
        tmp_path,
        WINDOWS_WORKLOAD,
        records=500,
        keys=KEYS,
        key_type="int",
        epochs=EPOCHS,
        epoch_records=EPOCH_RECORDS,
        files_per_epoch=2,
    )
    return read_inputs(tmp_path)


def by_loop(records: pa.Table, size: int) -> list[Window]:
    n, total = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for record in records.to_pylist():
        place = record["k"], record["t"] - record["t"] % size
        n[place] += 1
        total[place] += record["v"]
    return [(key, start, count, total[key, start]) for (key, start), count in n.items()]


def sums(windows: list[Window]) -> pa.Table:
    rows = [(key, (total + n) * MARKS + start % MARKS) for key, start, n, total in windows]
    return checks(len(rows), sum(n for _, n in rows), sum(n * n * k for k, n in rows))


def opened(windows: list[Window]) -> pa.Table:
    columns = {name: [one[place] for one in windows] for place, name in enumerate(("k", "start", "n", "total"))}
    return pa.table(columns, schema=pa.schema([(name, pa.int64()) for name in columns]))


def final(emitted: list[Window], held: list[Window]) -> Tables:
    """Returns the tables to compare, of an engine that emitted some windows and holds the others."""
    return settled({EMITTED: sums(emitted), OPEN: opened(held)}, CASE)


def parted(windows: list[Window]) -> tuple[list[Window], list[Window]]:
    """Returns those that are over when the last epoch begins, and the others."""
    last = [(one[1] + window_ms(KEYS) - 1 <= WATERMARK, one) for one in windows]
    return [one for over, one in last if over], [one for over, one in last if not over]


def test_windows_are_those_of_a_loop_wherever_an_engine_stops(records: pa.Table) -> None:
    truth, windows = WINDOWS_WORKLOAD.truth(records, KEYS), by_loop(records, window_ms(KEYS))
    over, held = parted(windows)
    assert 2 < len(records) / len(windows) < 6, "a few records in each"
    assert over
    assert held

    assert same_tables({EMITTED: sums(windows)}, {EMITTED: truth[EMITTED]})
    assert same_tables(final(over, held), truth)
    assert same_tables(final(windows, []), truth)
    assert set(settled({EMITTED: sums(windows)}, CASE)) == {EMITTED}


def test_wrong_windows_are_noticed(records: pa.Table) -> None:
    truth = WINDOWS_WORKLOAD.truth(records, KEYS)
    over, held = parted(by_loop(records, window_ms(KEYS)))
    (key, start, n, total), *others = over
    size = window_ms(KEYS)

    def right(emitted: list[Window], held: list[Window]) -> bool:
        return same_tables(final(emitted, held), truth)

    assert right(over, held)
    assert not right(others, held), "one was never emitted"
    assert not right([*over, over[0]], held), "one was emitted twice"
    assert not right([*over, held[0]], held), "one was emitted and kept"
    assert not right([(key, start, n, total + 1), *others], held), "a sum is wrong"
    assert not right([(key, start, n - 1, total), *others], held), "a late record was dropped"
    assert not right([(key + 1, start, n, total), *others], held), "one has the key of another"
    assert not right([(key, start + size, n, total), *others], held), "one has the start of another"
    assert not right(over, held[1:]), "one was lost from the state"
    assert not right(*parted(by_loop(records, size + 1))), "the size was another"


def test_a_window_that_did_not_fire_when_it_was_over_is_noticed(records: pa.Table) -> None:
    """It is neither lost nor counted twice, so that the sums are right."""
    truth = WINDOWS_WORKLOAD.truth(records, KEYS)
    over, held = parted(by_loop(records, window_ms(KEYS)))
    late = final(over[1:], [*held, over[0]])

    assert same_tables({EMITTED: late[EMITTED]}, {EMITTED: truth[EMITTED]})
    assert not same_tables(late, truth)


@pytest.mark.parametrize(("last_ms", "overdue"), [(WATERMARK, 1), (WATERMARK + 1, 0)])
def test_a_window_is_overdue_from_its_last_ms_on(last_ms: int, overdue: int) -> None:
    held = [(1, last_ms - window_ms(KEYS) + 1, 1, 1)]
    assert final([], held)["overdue"].to_pylist() == [{"rows": overdue}]


def test_the_number_in_sql_is_that_of_numpy() -> None:
    n, total, start = 3, 500, START_MS
    [number] = numbers(*(np.array([one]) for one in (start, n, total))).tolist()
    assert number == eval(WINDOWS_WORKLOAD.number, {"n": n, "total": total, "start": start})


def test_a_sink_sums_rows_of_both_forms_once_per_epoch() -> None:
    from benchmarks.engines.lakestate_windows import EmittedRows, of_windows
    from state_engine.spark import EpochId

    windows = [(3, START_MS, 2, 500), (4, START_MS + 28, 1, 7)]
    times = [datetime(1970, 1, 1) + timedelta(milliseconds=start) for _, start, _, _ in windows]
    by_function = opened(windows).rename_columns(["k", "window_start", "n", "total"])
    declared = by_function.set_column(1, "window_start", pa.array(times, pa.timestamp("us")))

    for rows in (by_function, declared):
        emitted = EmittedRows(of_windows)
        for epoch, part in ((1, rows.slice(0, 1)), (2, rows.slice(1)), (2, rows.slice(1))):
            emitted(EpochId("job", 1, epoch), part)
        assert emitted.sums.equals(sums(windows))
    assert EmittedRows(of_windows).sums.equals(sums([]))


def test_open_windows_are_read_from_the_states_of_all_forms() -> None:
    from benchmarks.engines.lakestate_windows import open_windows

    windows = [(3, START_MS, 2, 500), (4, START_MS + 28, 1, 7)]
    keys = {"k": [3, 4], "namespace": [f"{start}/{start + 28}" for _, start, _, _ in windows]}
    accumulators = pa.array([{"f0": 2, "f1": 500}, {"f0": 1, "f1": 7}])
    states = {
        "window-contents": pa.table({**keys, "value": accumulators}),
        "count": pa.table({**keys, "value": [2, 1]}),
        "sum_v": pa.table({name: values[::-1] for name, values in {**keys, "value": [500, 7]}.items()}),
        "windows": pa.table({"k": [3, 4], "user_key": [start for _, start, _, _ in windows], "value": accumulators}),
    }

    for form in ("row", "vectorised", "declared"):
        assert same_tables({OPEN: open_windows(states.__getitem__, form)}, {OPEN: opened(windows)})
