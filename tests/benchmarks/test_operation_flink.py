"""Flink beside our operations: its input, its results, and small real runs of it."""

import json
import zlib
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import operations
from benchmarks.__main__ import app
from benchmarks.operation_flink import ROWS, is_right, rows_of, sums_of, write_raw
from benchmarks.operation_inputs import changes, load, replaced
from benchmarks.operation_model import OperationCase, operation
from benchmarks.operation_report import FLINK_ROWS, show
from benchmarks.operations import SMALL
from benchmarks.report import WIDTH
from benchmarks.thresholds import load as load_thresholds

Noted = Mapping[str, int]
STATE = {0: b"xy", 1: b"ab", 7: b"ab"}
CASE = OperationCase(
    parts=("canonical", "restore"),
    keys=3,
    value_bytes=2,
    epoch_records=1,
    parallelism=2,
    other_parallelism=4,
    backend="heap",
    savepoints=1,
    pairs=1,
    rounds=2,
    work="",
    engine="flink",
)


def noted(state: Mapping[int, bytes]) -> dict[str, int]:
    """Returns what a subtask writes down of its keys."""
    crcs = {key: zlib.crc32(value) for key, value in state.items()}
    weighted = sum(crc * crc * key for key, crc in crcs.items())
    return {"records": len(crcs), "sum": sum(crcs.values()), "weighted": (weighted + 2**63) % 2**64 - 2**63}


def note(folder: Path, *subtasks: Mapping[int, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, state in enumerate(subtasks):
        (folder / f"{number}.json").write_text(json.dumps(noted(state)))
    return folder


@pytest.fixture
def right() -> pa.Table:
    return sums_of(pa.table({"k": list(STATE), "v": list(STATE.values())}))


def test_values_are_written_one_after_the_other_and_the_same_each_time(tmp_path: Path) -> None:
    case = OperationCase(**{name: getattr(CASE, name) for name in CASE.__struct_fields__} | {"keys": 1_500})
    table = pa.concat_tables(load(case))
    write_raw(tmp_path / "values", table)

    assert (tmp_path / "values").read_bytes() == b"".join(table["v"].to_pylist())
    assert table.equals(pa.concat_tables(load(case)))
    assert replaced(table, changes(case))["k"].to_pylist() == list(range(1_500))


def test_what_all_subtasks_hold_has_to_be_the_state(tmp_path: Path, right: pa.Table) -> None:
    first, second = {0: STATE[0], 7: STATE[7]}, {1: STATE[1]}
    wrong: dict[str, tuple[Mapping[int, bytes], ...]] = {
        "lost": (first,),
        "doubled": (first, second, second),
        "other value": (first, {1: b"ba"}),
        "other key": (first, {2: STATE[1]}),
        "swapped": ({0: STATE[7], 7: STATE[0]}, second),
    }

    assert is_right(note(tmp_path / "right", first, second), right)
    for name, subtasks in wrong.items():
        assert not is_right(note(tmp_path / name, *subtasks), right), name


def flink(folder: Path, **states: Mapping[int, bytes]) -> Path:
    """Writes Flink's results of three rounds; a named state replaces that of one round."""
    with (folder / "times.jsonl").open("w") as file:
        for number in range(3):
            for told in ROWS:
                parallelism = 4 if told.what.startswith("rescale") else 2
                time = {"what": told.what, "parallelism": parallelism, "seconds": 9.0 - number, "cpu_seconds": 3.0}
                file.write(json.dumps(time) + "\n")
                name = f"{told.seen}-{number}"
                note(folder / "seen" / name, states.get(name.replace("-", "_"), STATE))
    return folder


def test_the_first_round_does_not_count_and_parts_are_those_requested(tmp_path: Path, right: pa.Table) -> None:
    rows = rows_of(CASE, "java", flink(tmp_path), right)

    assert [(row.operation, row.label, row.parallelism) for row in rows] == [
        ("canonical savepoint", "flink/java", 2),
        ("native savepoint", "flink/java", 2),
        ("restore", "flink/java until read", 2),
        ("restore", "flink/java until checkpoint", 2),
    ]
    assert {(row.runs, row.median_seconds, row.max_seconds, row.backend) for row in rows} == {(2, 7.5, 8.0, "heap")}
    assert all(row.results_equal for row in rows)


def test_a_rescale_says_where_it_began_and_a_checkpoint_is_restored(tmp_path: Path, right: pa.Table) -> None:
    case = msgspec.structs.replace(CASE, parts=("rescale", "checkpoint"))
    rows = rows_of(case, "java", flink(tmp_path, checkpointed_1={0: b"no"}), right)

    assert [(row.operation, row.label, row.from_parallelism, row.parallelism, row.results_equal) for row in rows] == [
        ("rescale", "flink/java until read", 2, 4, True),
        ("rescale", "flink/java until checkpoint", 2, 4, True),
        ("rescale", "flink/java until read", 4, 2, True),
        ("rescale", "flink/java until checkpoint", 4, 2, True),
        ("checkpoint", "flink/java", None, 2, False),
    ]


@pytest.mark.parametrize(
    ("seen", "wrong"), [("restore_0", ["canonical", "restore", "restore"]), ("native_2", ["native"])]
)
def test_a_savepoint_is_as_right_as_what_was_restored_from_it(
    tmp_path: Path, right: pa.Table, seen: str, wrong: list[str]
) -> None:
    rows = rows_of(CASE, "java", flink(tmp_path, **{seen: {0: b"no"}}), right)

    assert [row.operation.split()[0] for row in rows if not row.results_equal] == wrong


def test_the_table_has_a_ratio_to_flink_at_the_same_parallelism() -> None:
    labels = ("lakestate/start", FLINK_ROWS["lakestate/start"])
    rows = [
        operation(CASE, "restore", label, [seconds], rows=3, parallelism=parallelism, equal=True)
        for label, times in zip(labels, ((1.0, 2.0), (3.0, 5.0)), strict=True)
        for parallelism, seconds in zip((2, 4), times, strict=True)
    ]
    console = Console(width=WIDTH, record=True, file=StringIO())
    show(rows, console)

    lines = [line for line in console.export_text().splitlines() if line.strip()]
    names, _, *cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert [row[names.index("× flink on heap")] for row in cells] == ["3.00", "2.50", "", ""]
    assert not [name for name in names if name.startswith("× pyspark")], "it has no rows"
    assert [row[names.index("checkpoints")] for row in cells] == ["each epoch"] * 2 + ["when asked"] * 2


def test_a_ratio_names_where_flink_has_its_state() -> None:
    rows = [
        operation(msgspec.structs.replace(CASE, backend=backend), "restore", label, [seconds], rows=3, equal=True)
        for label, backend, seconds in (
            ("lakestate/start", "heap", 1.0),
            (FLINK_ROWS["lakestate/start"], "heap", 2.0),
            (FLINK_ROWS["lakestate/start"], "rocksdb", 6.0),
        )
    ]
    console = Console(width=WIDTH, record=True, file=StringIO())
    show(rows, console)

    lines = [line for line in console.export_text().splitlines() if line.strip()]
    names, _, ours, *_ = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert [ours[names.index(f"× flink on {backend}")] for backend in ("heap", "rocksdb")] == ["2.00", "6.00"]


def test_savepoints_and_restores_are_asked_to_be_as_fast_as_flink() -> None:
    peers = [limit for limit in load_thresholds().quotient if limit.to.startswith("flink/")]

    assert {(one.operation, one.of, one.parallelism) for one in peers} == {
        ("canonical savepoint", "lakestate/process", None),
        ("restore", "lakestate/start", 2),
        ("rescale", "lakestate/start", 4),
        ("rescale", "lakestate/start", 2),
    }
    assert {(one.figure, one.at_most, one.keys) for one in peers} == {("median_seconds", 1.0, 2_000_000)}
    told = {f"flink/{form}{told.ending}" for form in ("java", "java compressed") for told in ROWS}
    assert {one.to for one in peers} | set(FLINK_ROWS.values()) <= told


def test_without_flink_this_is_reported_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ran: list[str] = []
    monkeypatch.setattr(operations, "FLINK_PYTHON", tmp_path / "none")
    monkeypatch.setattr(operations, "run_case", lambda case: ran.append(case.engine) or [])

    operations.measure(tmp_path, said.append, SMALL, ["restore"])

    assert ran == ["lakestate"] * len(SMALL.keys)
    assert "`make flink`" in said[0]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(not operations.FLINK_PYTHON.exists(), reason="`make flink` makes it")
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_flink_writes_and_restores_what_is_right(tmp_path: Path, backend: str, run: Callable[..., Any]) -> None:
    rows = run("--keys", "3k", "--rounds", "1", "--engines", "flink", "--backend", backend)

    assert len(rows) == 2 * len(ROWS)
    assert {(row["engine"], row["backend"], row["runs"]) for row in rows} == {("flink", backend, 1)}
    assert all(row["results_equal"] for row in rows)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Runs the workload as the command line does, and returns its rows; leaves no files."""

    def run(*arguments: str) -> Any:
        out, work = tmp_path / "out.json", tmp_path / "work"
        result = CliRunner().invoke(app, ["operations", *arguments, "--json", str(out), "--work", str(work)])
        assert result.exit_code == 0, result.output
        assert list(work.iterdir()) == []
        return json.loads(out.read_text())

    return run
