"""All workloads in one folder: the contents of the files, whatever was measured."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from benchmarks import dagster_ticks, everything, operation_report, state_backends, thresholds
from benchmarks.__main__ import app
from benchmarks.dagster_partitions import PartitionRow
from benchmarks.everything import Part, add_verdicts, measure, parts, plan_of
from benchmarks.failover.model import FailoverRow
from benchmarks.forms.model import FormRow
from benchmarks.latency.model import LatencyRow
from benchmarks.loads.model import LoadRow
from benchmarks.long_life import LifeRow
from benchmarks.model import CONTENDERS, ENGINES, Case, Engine, Result, Verdict, with_backend
from benchmarks.operation_model import Operation
from benchmarks.requests.model import RequestRow
from benchmarks.rounds import Report
from benchmarks.scale.model import ScaleRow
from benchmarks.thresholds import Ratio, Thresholds
from benchmarks.tick_model import Tick
from benchmarks.workloads import WORKLOADS

Rows = Callable[..., Result]


def giving(*rows: Result, failures: tuple[str, ...] = ()) -> Part:
    return Part("What it does.", lambda folder, tell: Report(list(rows), list(failures)))


def texts(path: Path) -> list[str]:
    """Returns the words of a picture."""
    return [text.strip() for element in ElementTree.parse(path).iter() for text in [element.text or ""] if text.strip()]


def test_each_workload_has_its_table_and_its_picture(row: Rows, tmp_path: Path) -> None:
    peer = row(engine="spark", form="groupBy", backend="rocksdb", records_per_second=625_000.0)
    growth = [row(workload="small_epochs", keys=keys, epoch_records=1_000) for keys in (10_000, 1_000_000)]
    said: list[str] = []

    chosen = {"running_count": giving(row(), peer), "small_epochs": giving(*growth, failures=("lakestate: no",))}
    measured = measure(chosen, tmp_path / "work", tmp_path / "out", said.append)

    assert measured.failures == ["small_epochs: lakestate: no"]
    assert said == ["running_count, 1 of 2 workloads", "small_epochs, 2 of 2 workloads"]
    report = (tmp_path / "out" / "report.md").read_text()
    first, second = report.split("## small_epochs")
    assert "| lakestate/row " in first
    assert "| spark/groupBy " in first
    assert "![running_count](running_count.svg)" in first
    assert "* failed: lakestate: no" in second
    assert len(json.loads((tmp_path / "out" / "report.json").read_text())) == 4
    shown = texts(tmp_path / "out" / "running_count.svg")
    assert {"lakestate/row (heap)", "spark/groupBy (rocksdb)", "625,000", "records/s"} <= set(shown)
    assert "ms per epoch of 1,000 records" in texts(tmp_path / "out" / "small_epochs.svg")


def test_a_batch_does_not_make_dots_of_the_others(row: Rows, tmp_path: Path) -> None:
    slow = row(engine="spark", form="groupBy", backend="rocksdb", records_per_second=625_000.0)
    batch = row(engine="duckdb", form="batch", backend="none", records_per_second=120e6)
    measure({"running_count": giving(row(), slow, batch)}, tmp_path, tmp_path, lambda _: None)
    shown = texts(tmp_path / "running_count.svg")
    assert "120,000,000 (cut)" in shown
    assert "625,000" in shown
    ticks = [float(text.replace(",", "")) for text in shown if text.replace(",", "").isdigit()]
    assert max(ticks) < 10e6, "the axis ends with the compared values"


def test_no_cell_is_cut_where_all_contenders_have_a_row(row: Rows, tmp_path: Path) -> None:
    rows = [row(workload="running_count", **shown(engine), look_ns=90.0, freeze_ms=0.1) for engine in ENGINES.values()]
    measure({"running_count": giving(*rows)}, tmp_path, tmp_path, lambda _: None)
    report = (tmp_path / "report.md").read_text()
    assert "…" not in report
    assert all(with_backend(f"spark/{form}").removeprefix("spark/") in report for form in ("groupBy", "groupBy/heap"))


def test_a_line_has_epochs_of_one_size(row: Rows, tmp_path: Path) -> None:
    sizes = ((100, 100), (5_000, 100), (5_000, 2_000), (9_000, 2_000))
    rows = [row(workload="state_backends", keys=keys, epoch_records=size) for keys, size in sizes]

    measure({"state_backends": giving(*rows)}, tmp_path, tmp_path, lambda _: None)

    named = [text for text in texts(tmp_path / "state_backends.svg") if "lakestate" in text]
    assert named == ["lakestate/row, epochs of 100", "lakestate/row, epochs of 2,000"]


def test_rows_with_wrong_results_are_not_drawn(row: Rows, tmp_path: Path) -> None:
    wrong = row(engine="spark", form="groupBy", results_equal=False)
    measure({"running_count": giving(row(), wrong), "ttl": giving(wrong)}, tmp_path, tmp_path, lambda _: None)
    assert not [text for text in texts(tmp_path / "running_count.svg") if "groupBy" in text]
    assert not (tmp_path / "ttl.svg").exists()
    assert (tmp_path / "report.md").read_text().count(".svg") == 1


def test_a_run_that_is_stopped_leaves_what_it_had(row: Rows, tmp_path: Path) -> None:
    def stopped(folder: Path, tell: Callable[[str], None]) -> Report:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure({"a": giving(row()), "b": Part("", stopped)}, tmp_path, tmp_path, lambda _: None)
    assert "## a" in (tmp_path / "report.md").read_text()
    assert len(json.loads((tmp_path / "report.json").read_text())) == 1


def test_a_run_goes_on_where_one_was_stopped(row: Rows, tmp_path: Path) -> None:
    tick = Tick(
        form="idle", checkpoints=10, states=6, runs=1, median_seconds=0.1, max_seconds=0.2, events=0, results_equal=True
    )
    ticks = Part("", lambda folder, tell: Report([tick], []), dagster_ticks.show, Tick)
    first = {"ttl": giving(row()), "dagster_ticks": ticks, "windows": giving(row(), failures=("spark: no",))}
    before = measure(first, tmp_path, tmp_path / "out", lambda _: None)
    said: list[str] = []

    never = giving(failures=("ran again",))
    rest = {"ttl": never, "dagster_ticks": ticks._replace(measure=never.measure), "windows": giving(row(keys=7))}
    after = measure(rest, tmp_path, tmp_path / "out", said.append, go_on=True)

    assert (after.rows[:2], after.failures) == (before.rows[:2], [])
    assert getattr(after.rows[2], "keys", None) == 7
    assert [line.partition(" (")[0] for line in said] == [
        "ttl, 1 of 3 workloads: kept",
        "dagster_ticks, 2 of 3 workloads: kept",
        "windows, 3 of 3 workloads",
    ]
    assert len(json.loads((tmp_path / "out" / "report.json").read_text())) == 3
    report = (tmp_path / "out" / "report.md").read_text()
    assert [line for line in report.splitlines() if line.startswith("## ")] == [
        "## ttl",
        "## dagster_ticks",
        "## windows",
    ]


def test_what_small_sizes_came_to_is_not_kept_for_full_ones(row: Rows, tmp_path: Path) -> None:
    small, full = (giving(row(keys=keys))._replace(small=keys == 5) for keys in (5, 7))
    measure({"ttl": small}, tmp_path, tmp_path, lambda _: None)
    measured = measure({"ttl": full}, tmp_path, tmp_path, lambda _: None, go_on=True)
    assert [one.keys for one in measured.rows if isinstance(one, Result)] == [7]
    assert {part.small for part in parts(small=True).values()} == {True}
    assert {part.small for part in parts(small=False).values()} == {False}


def test_results_of_another_run_are_in_the_report_too(
    row: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"ttl": giving(row(workload="ttl")), "windows": giving(row(workload="windows"))}
    monkeypatch.setattr(everything, "parts", lambda *, small: known)
    for arguments in (["--parts", "windows"], ["--parts", "ttl", "--continue"]):
        assert CliRunner().invoke(app, ["all", "--out", str(tmp_path), *arguments]).exit_code == 0
    report = (tmp_path / "report.md").read_text()
    assert [line for line in report.splitlines() if line.startswith("## ")] == ["## ttl", "## windows"]


@pytest.mark.parametrize(
    "foreign", ["", "[]", '{"measured": "", "small": false, "failures": [], "rows": [{"keys": 1}]}']
)
def test_a_file_that_no_run_wrote_is_refused_before_anything_is_measured(
    row: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str
) -> None:
    def fail(folder: Path, tell: Any) -> Any:
        raise AssertionError("measured")

    known = {"ttl": Part("", fail), "windows": giving(row(workload="windows"))}
    monkeypatch.setattr(everything, "parts", lambda *, small: known)
    (tmp_path / "windows.json").write_text(foreign)
    run = CliRunner().invoke(app, ["all", "--out", str(tmp_path), "--continue"], env={"COLUMNS": "200"})
    assert run.exit_code == 2
    assert "windows.json is not a result of a workload" in run.output
    assert (tmp_path / "windows.json").read_text() == foreign


def test_without_the_option_to_go_on_all_is_measured_anew(row: Rows, tmp_path: Path) -> None:
    for keys in (5, 7):
        measured = measure({"ttl": giving(row(keys=keys))}, tmp_path, tmp_path / "out", lambda _: None)
    assert [one.keys for one in measured.rows if isinstance(one, Result)] == [7]


@pytest.mark.parametrize("small", [False, True])
def test_each_workload_has_rows_that_are_read_back(small: bool) -> None:
    others = {name: part.row for name, part in parts(small=small).items() if part.row is not Result}
    assert others == {
        "operations": Operation, "dagster_ticks": Tick, "latency": LatencyRow, "long_life": LifeRow,
        "dagster_partitions": PartitionRow, "wide": FormRow, "skew": FormRow, "sinks": FormRow, "kafka_source": FormRow,
        "failover": FailoverRow, "postgresql": LoadRow, "kafka": LoadRow,
        "scale": ScaleRow, "requests": RequestRow,
    }  # fmt: skip


def test_savepoints_are_drawn_by_their_seconds(tmp_path: Path) -> None:
    shared = {"operation": "restore", "backend": "heap", "keys": 1000, "value_bytes": 8, "parallelism": 2, "runs": 3}
    rows = [
        Operation(engine="lakestate", form="cold", median_seconds=1.25, results_equal=True, **shared),
        Operation(engine="lakestate", form="bytes", bytes_read=5, results_equal=True, **shared),
        Operation(engine="lakestate", form="back", from_parallelism=4, median_seconds=2, results_equal=True, **shared),
    ]
    part = Part("", lambda folder, tell: Report(rows, []), operation_report.show, Operation)
    measure({"operations": part}, tmp_path, tmp_path, lambda _: None)
    shown = texts(tmp_path / "operations.svg")
    assert {
        "lakestate/cold (heap, p=2)",
        "lakestate/back (heap, p=4 → 2)",
        "1.25",
        "restore, 1,000 keys of 8 B",
    } <= set(shown)
    assert not [text for text in shown if "bytes" in text]


def test_the_same_rows_make_the_same_picture(row: Rows, tmp_path: Path) -> None:
    for name in ("one", "two"):
        measure({"ttl": giving(row())}, tmp_path, tmp_path / name, lambda _: None)
    assert (tmp_path / "one" / "ttl.svg").read_bytes() == (tmp_path / "two" / "ttl.svg").read_bytes()


def test_thresholds_come_after_the_workloads(row: Rows, tmp_path: Path) -> None:
    measure({"ttl": giving(row())}, tmp_path, tmp_path, lambda _: None)
    add_verdicts([Verdict("fast enough", 1.5, True), Verdict("small enough", 2.0, False)], tmp_path)
    end = (tmp_path / "report.md").read_text().partition("## Thresholds")[2]
    assert end.split("* ")[1:] == [
        "reached: fast enough (measured 1.50)\n",
        "NOT REACHED: small enough (measured 2.00)\n",
    ]


def test_what_was_not_measured_is_in_a_table_at_the_end(row: Rows, tmp_path: Path) -> None:
    measure({"ttl": giving(row())}, tmp_path, tmp_path, lambda _: None)
    open_ones = [Verdict("as fast", None, False, "not measured in this run", ("flink/java", "flink/sql"))]
    add_verdicts([Verdict("fast enough", 1.5, True), *open_ones], tmp_path)

    before, _, end = (tmp_path / "report.md").read_text().partition("## Thresholds that were not measured")
    assert "* open: as fast – not measured in this run" in before
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in end.strip().splitlines())
    assert head == ["not measured: 1 of 2 thresholds", "no row of"]
    assert rows == [["as fast", "flink/java, flink/sql"]]


@pytest.mark.parametrize("small", [False, True])
def test_a_check_of_everything_fails_where_a_threshold_was_not_measured(
    row: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    asked = Thresholds(ratio=[Ratio("ttl", ["int"], 200_000, "lakestate/row", f"spark/{name}", 0.1) for name in "ab"])
    peers = [row(workload="ttl", engine="spark", form=name) for name in "ab"]
    monkeypatch.setattr(thresholds, "load", lambda: asked)
    arguments = ["all", "--check", "--out", str(tmp_path / "out"), "--work", str(tmp_path), *(["--small"] * small)]

    def status(*rows: Result) -> tuple[int, str]:
        monkeypatch.setattr(everything, "parts", lambda *, small: {"ttl": giving(row(workload="ttl"), *rows)})
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout

    assert status(*peers)[0] == 0
    code, said = status(peers[0])
    assert code == (0 if small else 1)
    assert "not measured: 1 of 2 thresholds" in said
    assert "spark/b" in said.partition("no row of")[2]
    assert status()[0] == 1, "nothing was measured"


def test_a_run_at_full_size_measures_all_thresholds_of_streams_and_backends(row: Rows, tmp_path: Path) -> None:
    planned = [
        (case, CONTENDERS[case.engine])
        for case in state_backends.cases(tmp_path, [10_000, 100_000, 1_000_000, 10_000_000], state_backends.SHAPES)
    ]
    rows = [row(**shown(engine), **told(case)) for case, engine in planned]
    for workload in WORKLOADS.values():
        for epoch in plan_of(workload.name, small=False).epochs:
            for key_type in workload.key_types:
                engines = [ENGINES[name] for name in workload.engines if key_type in ENGINES[name].key_types]
                case = {"workload": workload.name, "key_type": key_type, "epoch_records": epoch, "freeze_ms": 1.0}
                rows += [row(**shown(engine), **case) for engine in engines]

    assert not thresholds.unmeasured(thresholds.judge(thresholds.load(), rows))


def shown(engine: Engine) -> dict[str, str]:
    return {"engine": engine.engine, "form": engine.form, "backend": engine.backend}


def told(case: Case) -> dict[str, Any]:
    return {"workload": case.workload, "keys": case.keys, "epoch_records": case.epoch_records}


def test_every_command_is_among_them() -> None:
    commands = {command.name for command in app.registered_commands}
    assert set(parts(small=True)) == set(parts(small=False)) == commands - {"all"}


def test_the_command_writes_and_fails_where_something_failed(
    row: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"a": giving(row()), "b": giving(row(), failures=("no",))}
    monkeypatch.setattr(everything, "parts", lambda *, small: known)
    arguments = ["all", "--out", str(tmp_path / "out"), "--work", str(tmp_path)]
    assert CliRunner().invoke(app, [*arguments, "--parts", "a"]).exit_code == 0
    assert "## b" not in (tmp_path / "out" / "report.md").read_text()
    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert "## b" in (tmp_path / "out" / "report.md").read_text()
    assert CliRunner().invoke(app, [*arguments, "--parts", "c"]).exit_code == 2
