import json
import threading
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.data import same_rows
from benchmarks.operation_bench import Way, in_turn
from benchmarks.operation_feed import AHEAD, LOAD_RECORDS, POOL, EpochWatch, Feed, Phase, write_load
from benchmarks.operation_inputs import write_changes, write_values
from benchmarks.operation_model import OperationCase, RangeRead, operation
from benchmarks.operation_report import show
from benchmarks.operation_stream import EPOCHS_PER_SAVEPOINT, Measured, measure, rows_of
from benchmarks.operations import FULL, SMALL, cases
from benchmarks.report import WIDTH
from benchmarks.thresholds import load
from state_engine.spark import EpochSummary

AT_REST = [
    ("canonical savepoint", "process", 2),
    ("canonical savepoint", "workers", 2),
    ("canonical savepoint", "delta", 2),
    ("restore", "start", 2),
    ("restore", "delta", 2),
    ("restore", "load", 2),
    ("rescale", "start", 4),
    ("rescale", "start", 2),
    ("load", "subtask", 1),
    ("load", "subtask", 2),
    ("load", "subtask", 4),
    ("checkpoint", "interval", 2),
    ("checkpoint", "interval published", 2),
    ("checkpoint", "full", 2),
    ("checkpoint", "full published", 2),
]
"""The operations on a state that no stream changes: operation, form, parallelism."""


def case(work: Path, **changes: Any) -> OperationCase:
    fields: dict[str, Any] = {
        "parts": ("native",),
        "keys": 50,
        "value_bytes": 8,
        "epoch_records": 20,
        "parallelism": 2,
        "other_parallelism": 4,
        "backend": "heap",
        "savepoints": 5,
        "pairs": 2,
        "rounds": 2,
        "work": str(work),
    }
    return OperationCase(**{**fields, **changes})


def keys_of(folder: Path, epoch: int) -> list[int]:
    files = sorted(folder.glob(f"epoch-{epoch:06d}-*.parquet"))
    return [key for file in files for key in pq.read_table(file)["k"].to_pylist()]


def test_each_stream_and_the_state_at_rest_have_a_process_of_their_own(tmp_path: Path) -> None:
    planned = cases(tmp_path, FULL, ["restore", "native", "canonical"], "heap")

    assert [(one.engine, one.parts, one.keys) for one in planned] == [
        ("lakestate", ("native",), 10_000),
        ("lakestate", ("native",), 5_000_000),
        ("lakestate", ("canonical", "restore"), 200_000),
        ("flink", ("canonical", "restore"), 200_000),
        ("lakestate", ("canonical", "restore"), 1_000_000),
        ("flink", ("canonical", "restore"), 1_000_000),
        ("lakestate", ("canonical", "restore"), 2_000_000),
        ("flink", ("canonical", "restore"), 2_000_000),
    ]
    one_size = SMALL._replace(keys=[7])
    assert [one.parts for one in cases(tmp_path, one_size, ["rescale"], "rocksdb", ["flink"])] == [("rescale",)]
    assert cases(tmp_path, SMALL, ["native"], "heap", ["flink"]) == []
    assert len({one.work for one in planned}) == 8


def test_the_sizes_of_the_thresholds_are_those_of_a_check() -> None:
    assert (FULL.stream_keys, FULL.savepoints, FULL.value_bytes) == ((10_000, 5_000_000), 20, 100)
    limits = load().seconds + load().share + load().quotient
    asked = {keys for one in limits for keys in ([one.keys] if isinstance(one.keys, int) else one.keys)}
    assert asked <= {*FULL.stream_keys, *FULL.keys}
    assert max(FULL.keys) == 2_000_000


def test_the_load_has_each_key_once(tmp_path: Path) -> None:
    epochs = write_load(tmp_path, LOAD_RECORDS + 7, 2)

    assert epochs == 2
    keys_written = np.concatenate([pq.read_table(file)["k"].to_numpy() for file in tmp_path.iterdir()])
    assert np.array_equal(np.sort(keys_written), np.arange(LOAD_RECORDS + 7))


def test_the_feed_stays_ahead_and_knows_what_it_has_given(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", case(tmp_path), write_load(tmp_path / "in", 50, 2))
    feed.keep_ahead(0)
    assert len(list((tmp_path / "in").glob("epoch-*"))) == 2 * AHEAD
    done = POOL + 3
    feed.keep_ahead(done)
    assert len(list((tmp_path / "in").glob("epoch-*"))) == 2 * (done + AHEAD)

    times = [path.stat().st_mtime for path in sorted((tmp_path / "in").glob("epoch-0000??-?.parquet"))]
    assert times == sorted(set(times)), "Spark reads them in the order of their names"
    given = [key for epoch in range(1, done) for key in keys_of(tmp_path / "in", epoch)]
    counts = feed.counts_after(50 + len(given))
    assert counts.tolist() == [1 + given.count(key) for key in range(50)]
    with pytest.raises(ValueError, match="ran out of input"):
        feed.counts_after(50 + 30)


class Running:
    """A job that seals an epoch at each request for new ones."""

    def __init__(self) -> None:
        self.sealed: list[EpochSummary] = []
        self.exception: BaseException | None = None
        self.taken: list[int] = []
        self.lock = threading.Lock()

    def epochs_after(self, epoch: int) -> list[EpochSummary]:
        with self.lock:
            number = len(self.sealed)
            kind, records = ("idle", 0) if number % 3 == 2 else ("epoch", 20)
            self.sealed.append(EpochSummary(number, kind, records, 0.0))
            return [summary for summary in self.sealed if summary.epoch > epoch]

    def trigger_savepoint(self) -> Any:
        with self.lock:
            self.taken.append(len(self.sealed))
        return SimpleNamespace(savepoint_id=f"sp-{len(self.taken)}", epoch=len(self.sealed))


class Nothing:
    """A feed that has nothing to do."""

    def keep_ahead(self, done: int) -> None: ...


def test_phases_take_turns_and_savepoints_lie_in_theirs(tmp_path: Path) -> None:
    client = Running()
    with EpochWatch(client, Nothing(), 0.0005) as watch:  # type: ignore[arg-type]
        watch.wait_for(3, 30)
        measured = measure(case(tmp_path), client, watch)  # type: ignore[arg-type]

    assert [name for name, _ in measured.taken] == [f"sp-{number}" for number in range(1, 6)]
    assert len(measured.seconds) == 5
    assert [len(phase.epochs) for phase in measured.alone] == [2 * EPOCHS_PER_SAVEPOINT, 3 * EPOCHS_PER_SAVEPOINT]
    assert [len(phase.epochs) for phase in measured.beside] == [2 * EPOCHS_PER_SAVEPOINT, 3 * EPOCHS_PER_SAVEPOINT]
    for phase in (*measured.alone, *measured.beside):
        assert phase.seconds == pytest.approx(sum(phase.epochs))


def test_a_job_that_failed_is_not_waited_for() -> None:
    client = Running()
    client.exception = KeyError("lost")
    with EpochWatch(client, Nothing()) as watch, pytest.raises(RuntimeError, match="epochs have ended"):  # type: ignore[arg-type]
        watch.wait_for(10_000, 60)


def test_a_stream_is_compared_with_its_neighbour_in_time(tmp_path: Path) -> None:
    """The machine is half as fast in the second pair; this must not count as an effect of savepoints."""
    alone = [Phase(4.0, 2.0, (1.0,) * 4), Phase(8.0, 2.0, (2.0,) * 4), Phase(4.0, 2.0, (1.0,) * 4)]
    beside = [Phase(5.0, 3.0, (1.25,) * 4), Phase(8.0, 3.0, (2.0,) * 4), Phase(4.0, 3.0, (1.0,) * 4)]

    savepoint, without, during = rows_of(case(tmp_path), Measured(alone, beside, [1.0, 3.0, 2.0], []), equal=True)

    assert (savepoint.median_seconds, savepoint.max_seconds, savepoint.runs) == (2.0, 3.0, 3)
    assert (without.paired_ratio, during.paired_ratio) == (None, 1.0)
    assert (without.rows_per_second, during.rows_per_second) == (20.0, 16.0)
    assert (without.cpu_seconds_per_million, during.cpu_seconds_per_million) == (25_000.0, 37_500.0)
    assert (without.epoch_records, during.runs, without.median_seconds) == (20, 12, 1.0)


def test_the_first_round_does_not_count_and_all_are_checked() -> None:
    done: list[str] = []
    ways = {
        name: Way(lambda name=name: done.append(name), lambda name=name: done.append(f"{name} checked"))  # type: ignore[misc]
        for name in ("a", "b")
    }

    timed = in_turn(ways, 2)

    assert done == ["a", "a checked", "b", "b checked"] * 3
    assert [len(one.seconds) for one in timed.values()] == [2, 2]


def test_a_row_has_the_case_and_the_median(tmp_path: Path) -> None:
    row = operation(case(tmp_path), "restore", "spark/delta", [1.0, 4.0, 2.0], rows=50, cpu_seconds=[3.0], equal=False)

    assert (row.engine, row.form, row.backend, row.keys, row.checkpoints) == ("spark", "delta", "delta", 50, "")
    assert (row.median_seconds, row.max_seconds, row.rows_per_second) == (2.0, 4.0, 25.0)
    assert row.cpu_seconds_per_million == 60_000.0
    assert not row.results_equal


def test_changes_replace_the_first_values(tmp_path: Path) -> None:
    sizes = case(tmp_path, parts=("restore",), keys=1_500, value_bytes=16)
    before = write_values(tmp_path, sizes)
    after = write_changes(tmp_path, sizes, before)

    latest: dict[int, bytes] = {}
    for file in sorted(tmp_path.iterdir()):
        rows = pq.read_table(file).to_pydict()
        latest |= dict(zip(rows["k"], rows["v"], strict=True))
    assert {len(value) for value in latest.values()} == {16}
    assert len(set(latest.values())) == 1_500
    assert same_rows(pa.table({"k": list(latest), "v": list(latest.values())}), after)
    assert not same_rows(before, after)
    assert before.slice(1_000).equals(after.slice(1_000))


@pytest.mark.parametrize(
    "arguments", [["--parts", "savepoints"], ["--backend", "disk"], ["--keys", "many"], ["--engines", "a"]]
)
def test_wrong_options_are_refused_before_anything_runs(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["operations", *arguments]).exit_code == 2


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Runs the workload of Lakestate as the command line does, one round, and returns its rows; it leaves no files."""
    given = [*arguments, "--rounds", "1", "--engines", "lakestate", "--json", str(folder / "out.json")]

    result = CliRunner().invoke(app, ["operations", *given, "--work", str(folder / "work")])

    assert result.exit_code == 0, result.output
    assert list((folder / "work").iterdir()) == []
    rows: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())
    return rows


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_parts_run_at_a_small_size(tmp_path: Path) -> None:
    stream = ["--stream-keys", "500", "--epoch", "1k", "--savepoints", "2", "--pairs", "1"]

    rows = run(tmp_path, *stream, "--keys", "2k,3k")

    assert [(row["operation"], row["form"], row["keys"], row["parallelism"]) for row in rows] == [
        ("native savepoint", "native", 500, 2),
        ("stream", "alone", 500, 2),
        ("stream", "with savepoints", 500, 2),
        *((operation, form, keys, parallelism) for keys in (2_000, 3_000) for operation, form, parallelism in AT_REST),
    ]
    assert all(row["results_equal"] for row in rows)
    assert [row["from_parallelism"] for row in rows if row["operation"] == "rescale"] == [2, 4, 2, 4]
    loads = {row["parallelism"]: row for row in rows if (row["operation"], row["keys"]) == ("load", 3_000)}
    assert [one["last"] for one in loads[4]["ranges"]] == [31, 63, 95, 127]
    assert sum(one["rows"] for one in loads[4]["ranges"]) == 3_000
    assert "paired_ratio" in rows[2]


def test_changes_go_on_with_other_values_and_appear_whole(tmp_path: Path) -> None:
    sizes = case(tmp_path, parts=("restore",), keys=1_500, value_bytes=16)
    folder = tmp_path / "in"
    state = write_values(folder, sizes)
    states = [state]
    for number in range(2):
        states.append(write_changes(folder, sizes, states[-1], number))

    names = sorted(file.name for file in folder.iterdir())
    assert names == [f"epoch-{epoch:04d}-{part}.parquet" for epoch in range(3) for part in range(2)]
    times = [(folder / name).stat().st_mtime for name in names]
    assert times == sorted(set(times)), "Spark reads them in the order of their names"
    assert [same_rows(a, b) for a in states for b in states] == [a is b for a in states for b in states]
    assert not list((tmp_path / "in-changes").iterdir())


def test_the_table_shows_growth_of_all_operations_and_where_a_rescale_begins(tmp_path: Path) -> None:
    rows = [
        operation(
            case(tmp_path, keys=keys),
            "rescale",
            "lakestate/start",
            [keys * parallelism],
            rows=keys,
            equal=True,
            parallelism=parallelism,
            from_parallelism=was,
        )
        for keys in (10, 30)
        for was, parallelism in ((2, 4), (4, 2))
    ]
    wrong = operation(case(tmp_path, keys=90), "checkpoint", "lakestate/full", [1.0], equal=False)
    right = operation(case(tmp_path, keys=99), "checkpoint", "lakestate/full", [9.0], equal=True)
    console = Console(width=WIDTH, record=True, file=StringIO())

    show([*rows, wrong, right], console)

    lines = [line for line in console.export_text().splitlines() if line.strip()]
    names, _, *cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert [row[names.index("p")] for row in cells] == ["2 → 4", "4 → 2", "2 → 4", "4 → 2", "2", "2"]
    assert [row[names.index("× fewest keys")] for row in cells] == ["", "", "3.00", "3.00", "", ""]


def test_the_table_shows_what_a_reader_compares(tmp_path: Path) -> None:
    few, many = (
        operation(case(tmp_path, keys=keys), "native savepoint", "lakestate/native", [seconds], equal=True)
        for keys, seconds in ((10, 0.5), (50, 0.75))
    )
    ours = operation(case(tmp_path), "restore", "lakestate/load", [2.0], rows=50, equal=True)
    peer = operation(case(tmp_path), "restore", "spark/delta", [1.0], rows=50, equal=True)
    part = operation(
        case(tmp_path),
        "load",
        "lakestate/subtask",
        [1.0],
        bytes_total=400,
        bytes_read=100,
        share_read=0.25,
        ranges=(RangeRead(first=0, last=31, rows=12, bytes_read=100),),
        equal=False,
    )
    console = Console(width=WIDTH, record=True, file=StringIO())

    show([few, many, ours, peer, part], console)

    lines = [line for line in console.export_text().splitlines() if line.strip()]
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[:-1])
    cells = [dict(zip(names, row, strict=True)) for row in rows]
    assert [cell["× fewest keys"] for cell in cells] == ["", "1.50", "", "", ""]
    assert [cell["× pyspark on delta"] for cell in cells] == ["", "", "0.50", "", ""]
    assert [cell["checkpoints"] for cell in cells] == ["each epoch"] * 3 + ["", "each epoch"]
    assert [cell["results"] for cell in cells] == ["equal"] * 4 + ["WRONG"]
    assert cells[-1]["share"] == "0.250"
    assert lines[-1].strip() == "50 keys, parallelism 2, key groups 0 to 31: 12 rows, 100 of 400 bytes"
