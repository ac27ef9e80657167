from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app, count
from benchmarks.data import read_inputs
from benchmarks.engines.flink import NO_KEY, Job, epoch_ends, java_command, parts_of, pyflink_command
from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.model import ENGINES, Case, Result
from benchmarks.noise import look_ns
from benchmarks.processes import MIB, Sample
from benchmarks.runner import EngineFailedError, Run, middle, result_of, run_case
from benchmarks.streams import Plan, cases, judged, truth
from benchmarks.worker_memory import heaviest_worker_mb
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import added

TRUTH = {"count": pa.table({"k": [1], "n": [50]})}


def case(work: Path, **changes: object) -> Case:
    fields: dict[str, object] = {
        "workload": "running_count",
        "engine": "groupBy",
        "key_type": "int",
        "keys": 5,
        "epochs": 5,
        "epoch_records": 1_000_000,
        "files_per_epoch": 2,
        "parallelism": 2,
        "inputs": str(work / "missing"),
        "work": str(work / "work"),
    }
    return Case(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_row_measures_the_steady_part_only(tmp_path: Path) -> None:
    samples = [Sample(0.0, 0.0, 900 * MIB, {}), Sample(10.0, 40.0, 100 * MIB, {}), Sample(18.0, 48.0, 100 * MIB, {})]
    run = Run(case(tmp_path), [10.0, 12.0, 14.0, 16.0, 18.0], samples, TRUTH)

    row = result_of(run, TRUTH)

    assert (row.engine, row.form, row.backend) == ("spark", "groupBy", "rocksdb")
    assert row.records == 5_000_000
    assert row.records_per_second == 500_000
    assert row.cpu_seconds_per_million == 2.0
    assert row.peak_rss_mb == 900
    assert row.results_equal


def test_the_time_between_the_last_record_and_the_ack_is_that_of_the_steady_part(tmp_path: Path) -> None:
    samples = [Sample(0.0, 0.0, 1, {}), Sample(18.0, 48.0, 1, {})]
    told = {"freeze_ms": [90.0, 2.0, 1.0, 7.0, 3.0], "changes_ms": [90.0, 4.0, 5.0, 6.0, 7.0]}
    run = Run(case(tmp_path), [10.0, 12.0, 14.0, 16.0, 18.0], samples, TRUTH, told)
    row = result_of(run, TRUTH)
    assert (row.freeze_ms, row.changes_ms) == (2.5, 5.5)
    row = result_of(run._replace(task_ms={"freeze_ms": []}), TRUTH)
    assert (row.freeze_ms, row.changes_ms) == (None, None)


def test_a_row_has_the_figures_of_memory(tmp_path: Path, row: Callable[..., Result]) -> None:
    run = Run(case(tmp_path), [10.0, 12.0, 14.0, 16.0, 18.0], [Sample(0.0, 0.0, 1, {})], TRUTH, look_ns=90.0)
    assert result_of(run, TRUTH).look_ns == 90.0
    assert middle([row(look_ns=90.0), row(look_ns=80.0), row()]).look_ns == 90.0
    assert look_ns() > 0


def test_no_worker_seen_is_not_a_small_worker() -> None:
    with pytest.raises(EngineFailedError, match="No Python worker"):
        heaviest_worker_mb([Sample(0.0, 0.0, 1, {})], 1.0)
    assert heaviest_worker_mb([Sample(0.0, 0.0, 1, {7: 5 * MIB, 8: 6 * MIB})], 1.0) == 6


def test_rounds_give_the_median_and_the_worst(row: Callable[..., Result]) -> None:
    rounds = [
        row(records_per_second=speed, peak_rss_mb=memory, results_equal=equal)
        for speed, memory, equal in [(100.0, 1.0, True), (300.0, 3.0, False), (200.0, 2.0, True)]
    ]

    one = middle(rounds)

    assert (one.records_per_second, one.peak_rss_mb, one.results_equal) == (200.0, 3.0, False)


def test_engines_take_turns_on_the_same_files(tmp_path: Path) -> None:
    engines = ("lakestate", "vectorised", "declared", "transformWithState", "groupBy", "pass-through")
    plan = Plan(records=60, keys=5, epochs=[10, 20], engines=engines, least_epochs=5, slow_epochs=5)

    planned = list(cases(plan, tmp_path, round_number=1))

    assert [(c.epoch_records, c.engine, c.epochs) for c in planned] == [
        (epoch, engine, 5 if engine == "transformWithState" else epochs)
        for epoch, epochs in ((10, 6), (20, 5))
        for engine in engines
    ]
    files = [len(list(Path(c.inputs).iterdir())) for c in planned]
    assert files == [12, 12, 12, 10, 12, 12, *[10] * 6]
    assert len({c.work for c in planned}) == 12


def test_flink_has_keys_of_integers_alone(tmp_path: Path) -> None:
    engines = ("lakestate", "flink-java", "pyflink")
    plan = Plan(records=60, keys=5, epochs=[10], key_types=["int", "string"], engines=engines, least_epochs=5)
    planned = [(case.key_type, case.engine) for case in cases(plan, tmp_path, round_number=1)]
    assert planned == [("int", "lakestate"), ("int", "flink-java"), ("int", "pyflink"), ("string", "lakestate")]


def test_an_engine_that_would_take_hours_reads_the_first_records_of_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "pyflink/process", ENGINES["pyflink/process"]._replace(most_records=16))
    plan = Plan(records=60, keys=5, epochs=[10, 2], engines=["pyflink", "pyflink/process"], least_epochs=6)

    all_of, few, _, short = cases(plan, tmp_path, round_number=1)

    assert [(one.epochs, one.epoch_records, one.records) for one in (all_of, few)] == [(5, 10, 50), (5, 10, 16)]
    pairs = zip(parts_of(Path(all_of.inputs), 2), parts_of(Path(few.inputs), 2), strict=True)
    assert all(one.slice(0, 8).equals(first) for one, first in pairs)
    assert truth(few)["emitted"]["records"].to_pylist() == [16]
    assert (short.most_records, short.records) == (None, 10), "all of them are fewer"


def test_its_records_count_as_the_epochs_of_the_case(tmp_path: Path) -> None:
    few = case(tmp_path, engine="pyflink/process", epochs=5, most_records=10_000)
    ends = epoch_ends([float(number) for number in range(1, 11)], few)
    samples = [Sample(0.0, 0.0, 1, {}), Sample(10.0, 10.0, 1, {})]

    row = result_of(Run(few, ends, samples, TRUTH), TRUTH)

    assert ends == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert (row.label, row.records, row.epoch_records) == ("flink/python/process", 10_000, 1_000_000)
    assert (row.records_per_second, row.cpu_seconds_per_million) == (1_000.0, 1_000.0)


def test_what_flink_notes_becomes_the_ends_of_epochs(tmp_path: Path) -> None:
    times = [2.0, 5.0, 1.0, 3.0, 4.0]  # each after 1,000 records
    assert epoch_ends(times, case(tmp_path, epochs=2, epoch_records=2000)) == [2.0, 4.0]
    assert epoch_ends(times, case(tmp_path, epochs=2, epoch_records=2600)) == [2.0, 5.0]


@pytest.mark.parametrize(
    ("workload", "engine", "compared"),
    [
        ("running_count", "lakestate", {"count"}),
        ("running_count", "flink-sql", {"emitted"}),
        ("running_count", "pass-through", {"pass-through"}),
        ("map_and_list", "lakestate/rocksdb", {"counts", "values", "emitted"}),
        ("map_and_list", "pyflink", {"emitted"}),
        ("ttl", "transformWithState", {"count"}),
        ("sessions", "transformWithState", {"emitted", "overdue"}),
        ("sessions", "flink-java", {"emitted"}),
    ],
)
def test_what_is_compared_of_an_engine(workload: str, engine: str, compared: set[str], tmp_path: Path) -> None:
    plan = Plan(workload, [engine], records=60, keys=5, epochs=[10], least_epochs=5)
    [planned] = cases(plan, tmp_path, round_number=1)

    assert set(truth(planned)) == compared


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_row_says_whether_results_are_equal(workload: str, tmp_path: Path) -> None:
    """Flink's results are as short as possible: one number that is off by one must be noticed."""
    plan = Plan(workload, ["flink-java"], records=60, keys=5, epochs=[10], least_epochs=5)
    [planned] = cases(plan, tmp_path, round_number=1)
    ends, samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [Sample(0.0, 0.0, 1, {}), Sample(6.0, 6.0, 1, {})]
    right = truth(planned)
    one = pa.table({"records": [1], "sum": [0], "weighted": [0]})

    assert judged(Run(planned, ends, samples, right)).results_equal
    assert not judged(Run(planned, ends, samples, {"emitted": added(right["emitted"], one)})).results_equal


def test_flink_reads_all_records_of_a_key_in_one_part_and_in_order(tmp_path: Path) -> None:
    plan = Plan("map_and_list", ["flink-java"], records=60, keys=5, epochs=[10], least_epochs=5)
    [planned] = cases(plan, tmp_path, round_number=1)
    parts = parts_of(Path(planned.inputs), 2)
    first, second = (set(part["k"].to_pylist()) for part in parts)

    assert (first, second) == ({0, 2, 4}, {1, 3})
    everything = read_inputs(Path(planned.inputs))
    for part, keys in zip(parts, (first, second), strict=True):
        assert part.equals(everything.filter(pa.array([key in keys for key in everything["k"].to_pylist()])))


@pytest.mark.skipif(not FLINK_PYTHON.exists(), reason="`make flink` makes it")
def test_both_languages_are_given_the_same_records(tmp_path: Path) -> None:
    parts = [pa.table({"k": [2, 4, 2], "t": [7, 8, 9]}), pa.table({"k": [1], "t": [6]})]
    job = Job("sessions", 30, ["seen"])

    java, python = java_command(job, parts, tmp_path), pyflink_command(job, parts, tmp_path, "process")

    assert java[-7:] == ["Jobs", "sessions", "30", str(tmp_path / "records.bin"), "6", "2", "seen"]
    assert python[-5:] == ["sessions", "30", str(tmp_path / "csv"), "process", "seen"]
    filled = [2, 7, 4, 8, 2, 9, 1, 6, *[NO_KEY] * 4]
    assert np.fromfile(tmp_path / "records.bin", "<i8").tolist() == filled
    assert [path.read_text().split() for path in sorted((tmp_path / "csv").iterdir())] == [
        ["2,7", "4,8", "2,9"],
        ["1,6"],
    ]


def test_a_failing_engine_is_named_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"(?s)nobody ended with status 1.*KeyError"):
        run_case(case(tmp_path, engine="nobody"))


@pytest.mark.parametrize(
    ("text", "records"), [("200k", 200_000), ("1m", 1_000_000), ("2_000", 2_000), ("1.5M", 1_500_000)]
)
def test_numbers_of_records_are_read(text: str, records: int) -> None:
    assert count(text) == records


@pytest.mark.parametrize(
    "arguments",
    [
        ["running_count", "--engines", "flink"],
        ["running_count", "--epochs", "many"],
        ["running_count", "--key-types", ""],
        ["running_count", "--slow-epochs", "4"],
        ["running_count", "--least-epochs", "4"],
        ["map_and_list", "--engines", "declared"],
        ["ttl", "--engines", "groupBy"],
        ["ttl", "--key-types", "string"],
    ],
)
def test_wrong_options_are_refused_before_anything_runs(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2
