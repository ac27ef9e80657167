"""The right result, computed for all records at once, equals that of a plain loop; a wrong one is noticed."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import draw_keys, read_inputs, same_tables
from benchmarks.engines.lakestate_functions import MapAndList
from benchmarks.model import EMITTED, Case
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.event_time import START_MS
from benchmarks.workloads.inputs import write_stream
from benchmarks.workloads.sessions import gap_ms, settled
from benchmarks.workloads.workload import CHECKS, added, checks, checks_of, wrapped

KEYS, EPOCHS, EPOCH_RECORDS = 7, 4, 300


def inputs(folder: Path, workload: str, key_type: str = "int") -> pa.Table:
    """Writes four epochs of a data set that is shorter, and returns their records."""
    write_stream(
        folder,
        WORKLOADS[workload],
        records=500,
        keys=KEYS,
        key_type=key_type,
        epochs=EPOCHS,
        epoch_records=EPOCH_RECORDS,
        files_per_epoch=2,
    )
    return read_inputs(folder)


def sums(rows: list[tuple[int, int]]) -> pa.Table:
    return checks(len(rows), sum(n for _, n in rows), sum(n * n * k for k, n in rows))


def test_the_data_set_is_replayed_and_its_times_go_on(tmp_path: Path) -> None:
    records = inputs(tmp_path, "sessions").sort_by("t")
    drawn = draw_keys(500, KEYS).tolist()

    assert records["t"].to_pylist() == [START_MS + position for position in range(EPOCHS * EPOCH_RECORDS)]
    assert records["k"].to_pylist() == (drawn * 3)[: EPOCHS * EPOCH_RECORDS]
    assert len(list(tmp_path.iterdir())) == 2 * EPOCHS


@pytest.mark.parametrize("workload", WORKLOADS)
def test_all_records_of_a_key_are_in_files_of_one_number(tmp_path: Path, workload: str) -> None:
    inputs(tmp_path, workload)
    files_of_key = defaultdict(set)
    for path in tmp_path.iterdir():
        for key in pq.read_table(path)["k"].to_pylist():
            files_of_key[key].add(path.stem.rpartition("-")[2])

    assert sorted(files_of_key) == list(range(KEYS))
    assert all(len(numbers) == 1 for numbers in files_of_key.values())


@pytest.mark.parametrize("workload", ["running_count", "ttl"])
def test_counts_are_those_of_a_loop(tmp_path: Path, workload: str) -> None:
    records = inputs(tmp_path, workload)
    held: Counter[int] = Counter()
    emitted = []
    for key in records["k"].to_pylist():
        held[key] += 1
        emitted.append((key, held[key]))

    truth = WORKLOADS[workload].truth(records, KEYS)

    counts = pa.table({"k": list(held), "n": list(held.values())})
    assert same_tables({"count": counts, EMITTED: sums(emitted)}, truth)


def test_keys_of_text_have_counts_alone(tmp_path: Path) -> None:
    assert set(WORKLOADS["running_count"].truth(inputs(tmp_path, "running_count", "string"), KEYS)) == {"count"}


def map_and_list_by_loop(records: pa.Table, every: int = 8) -> dict[str, pa.Table]:
    counts: Counter[tuple[int, int]] = Counter()
    values: dict[int, list[int]] = defaultdict(list)
    emitted = []
    for record in records.to_pylist():
        key, item = record["k"], record["item"]
        counts[key, item] += 1
        values[key].append(record["v"])
        if counts[key, item] % every == 0:
            emitted.append((key, (sum(values[key]) + counts[key, item]) * 10 + item))
            values[key] = []
    left = [(key, value) for key, kept in values.items() for value in kept]
    return {
        "counts": pa.table({"k": [k for k, _ in counts], "item": [i for _, i in counts], "n": list(counts.values())}),
        "values": pa.table({"k": [k for k, _ in left], "v": [v for _, v in left]}),
        EMITTED: sums(emitted),
    }


def test_maps_and_lists_are_those_of_a_loop(tmp_path: Path) -> None:
    records = inputs(tmp_path, "map_and_list")
    truth = WORKLOADS["map_and_list"].truth(records, KEYS)

    assert truth[EMITTED]["records"][0].as_py() > 50
    assert len(truth["values"]) > KEYS
    assert same_tables(map_and_list_by_loop(records), truth)


def test_another_order_and_another_rule_are_noticed(tmp_path: Path) -> None:
    records = inputs(tmp_path, "map_and_list")
    truth = WORKLOADS["map_and_list"].truth(records, KEYS)
    backwards = map_and_list_by_loop(records.take(list(range(len(records) - 1, -1, -1))))
    other = map_and_list_by_loop(records, every=9)

    assert same_tables({"counts": backwards["counts"]}, {"counts": truth["counts"]}), "the order does not matter"
    for wrong in (backwards, other):
        for name in ("values", EMITTED):
            assert not same_tables(truth | {name: wrong[name]}, truth)


def sessions_by_loop(records: pa.Table, gap: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """Returns the sessions that a later record closed, and those that are open: key, count, last time."""
    closed, held = [], {}
    for record in records.to_pylist():
        key, t = record["k"], record["t"]
        count, last = held.get(key, (0, t))
        if last + gap < t:
            closed.append((key, count))
            count = 0
        held[key] = (count + 1, t)
    return closed, [(key, *session) for key, session in held.items()]


def session_case(tmp_path: Path) -> Case:
    return Case(
        workload="sessions",
        engine="lakestate",
        key_type="int",
        keys=KEYS,
        epochs=EPOCHS,
        epoch_records=EPOCH_RECORDS,
        files_per_epoch=2,
        parallelism=2,
        inputs=str(tmp_path),
        work="",
    )


def states(emitted: list[tuple[int, int]], held: list[tuple[int, int, int]]) -> dict[str, pa.Table]:
    """Returns the results of an engine that emitted some sessions and holds the others."""
    columns = {name: [row[place] for row in held] for place, name in enumerate(("k", "count", "last"))}
    table = pa.table(columns, schema=pa.schema([(name, pa.int64()) for name in columns]))
    return {EMITTED: sums(emitted), "session": table}


def test_sessions_are_those_of_a_loop_wherever_an_engine_stops(tmp_path: Path) -> None:
    records = inputs(tmp_path, "sessions")
    truth, case = WORKLOADS["sessions"].truth(records, KEYS), session_case(tmp_path)
    closed, held = sessions_by_loop(records, gap_ms(KEYS))
    assert 2 < len(records) / (len(closed) + len(held)) < 6, "a few records in each"

    ended = closed + [(key, count) for key, count, _ in held]
    assert same_tables({EMITTED: sums(ended)}, {EMITTED: truth[EMITTED]})
    assert same_tables(settled(states(closed, held), case), truth)
    assert same_tables(settled(states(ended, []), case), truth)
    assert set(settled({EMITTED: sums(ended)}, case)) == {EMITTED}


def test_wrong_sessions_are_noticed(tmp_path: Path) -> None:
    records = inputs(tmp_path, "sessions")
    truth, case = WORKLOADS["sessions"].truth(records, KEYS), session_case(tmp_path)
    closed, held = sessions_by_loop(records, gap_ms(KEYS))
    (key, count), *others = closed
    moved = [(key, count + 1), (others[0][0], others[0][1] - 1), *others[1:]]

    def right(emitted: list[tuple[int, int]], sessions: list[tuple[int, int, int]]) -> bool:
        return same_tables(settled(states(emitted, sessions), case), truth)

    assert right(closed, held)
    assert not right(others, held), "one was never emitted"
    assert not right([*closed, closed[0]], held), "one was emitted twice"
    assert not right(moved, held), "a record is in another session"
    assert not right([(key + 1, count), *others], held), "one has the key of another"
    assert not right(closed, held[1:]), "one was lost from the state"
    assert not right(*sessions_by_loop(records, gap_ms(KEYS) + 1)), "the gap was another"


def test_a_session_whose_timer_did_not_fire_is_noticed(tmp_path: Path) -> None:
    """It is neither lost nor counted twice, so that the sums are right."""
    records = inputs(tmp_path, "sessions")
    truth, case = WORKLOADS["sessions"].truth(records, KEYS), session_case(tmp_path)
    closed, held = sessions_by_loop(records, gap_ms(KEYS))
    begun = START_MS + (EPOCHS - 1) * EPOCH_RECORDS - 2  # the watermark of the last epoch
    (key, count), *others = closed

    for last, right in ((begun - gap_ms(KEYS), False), (begun - gap_ms(KEYS) + 1, True)):
        final = settled(states(others, [*held, (key, count, last)]), case)
        assert same_tables({EMITTED: final[EMITTED]}, {EMITTED: truth[EMITTED]})
        assert same_tables(final, truth) is right


def test_sums_overflow_as_64_bits_do() -> None:
    assert [wrapped(number) for number in (5, 2**63, -(2**63) - 1)] == [5, -(2**63), 2**63 - 1]
    big = added(checks(1, 2**62, 0), checks(2, 2**62, 5))
    assert big.to_pylist() == [dict(zip(CHECKS, (3, -(2**63), 5), strict=True))]


def test_what_a_function_notes_of_many_rows_fits_into_its_state() -> None:
    function, noted = MapAndList(), []

    class Store:
        def get_list_state(self, descriptor: Any) -> Any:
            return self

        def get_operator_state_store(self) -> Any:
            return self

        def add(self, row: Any) -> None:
            noted.append(row)

    function.initialize_state(Store())
    for _ in range(2):
        function.note(3, 2**40)
    function.snapshot_state(None)
    assert noted == [(2, 2**41, wrapped(6 * 2**80))]
    assert -(2**63) <= noted[0][2] < 2**63


def test_sums_tell_number_key_and_count() -> None:
    keys, numbers = np.array([3, 5, 3]), np.array([1, 1, 2])
    assert checks_of(keys, numbers).to_pylist() == [{"records": 3, "sum": 4, "weighted": 3 * (1 + 4) + 5}]


def test_having_nothing_to_compare_is_no_equality() -> None:
    table = pa.table({"k": [1]})
    assert not same_tables({}, {})
    assert not same_tables({}, {"a": table})
    assert not same_tables({"a": table, "b": table}, {"a": table})
    assert same_tables({"a": table}, {"a": table})
