"""`lakestate sql` on a small job folder."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lakestate.cli import app
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.testing.changes import append, put
from state_engine.testing.sample_jobs import sample_job

pytest.importorskip("duckdb")
LEG = {"origin": "JFK", "minutes": 90}


@pytest.fixture
def root(tmp_path: Path) -> str:
    job = sample_job(str(tmp_path))
    publisher = CheckpointPublisher(job.storage, job.job)
    changes = {("aircraft", "count"): [put("N1", 1), put("[red]", 2)], ("aircraft", "legs"): [append("N1", LEG)]}
    publisher.begin(job.epoch(changes, checkpoint_id=1))
    job.adopt(publisher.completed())
    job.epoch({("aircraft", "count"): [put("N2", 3)]})
    return str(tmp_path)


def run(root: str, *arguments: str, job: str = "flights") -> Result:
    return CliRunner().invoke(app, ["sql", *arguments, "--root", root, "--job", job])


def test_a_table_by_default(root: str) -> None:
    result = run(root, "select tailnum, value from aircraft.count order by value")
    assert result.exit_code == 0
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert cells == [["N1", "1"], ["[red]", "2"]]


def test_long_tables_are_cut_and_say_so(root: str) -> None:
    result = run(root, "from range(1234)")
    assert "100 of 1,234 rows" in result.stdout
    assert len(run(root, "from range(1234)", "--format", "csv").stdout.splitlines()) == 1235


def test_json_is_one_object_per_line(root: str) -> None:
    result = run(root, "select tailnum, value, value from aircraft.legs", "--format", "json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"tailnum": "N1", "value": LEG, "value_1": LEG}
    ]


def test_csv_holds_nested_values_as_json(root: str) -> None:
    result = run(root, "select tailnum, namespace, value, 'ab'::blob from aircraft.legs", "--format", "csv")
    [header, row] = csv.reader(result.stdout.splitlines())
    assert header[:3] == ["tailnum", "namespace", "value"]
    assert [row[0], row[1], json.loads(row[2]), row[3]] == ["N1", "", LEG, "6162"]


def test_epoch_and_live_rows_can_be_chosen(root: str) -> None:
    count = ("select count(*) as n from aircraft.count", "--format", "csv")
    assert run(root, *count).stdout == "n\n2\n"
    assert run(root, *count, "--live").stdout == "n\n3\n"
    assert run(root, *count, "--live", "--at", "epoch:1/1").stdout == "n\n2\n"


def test_without_a_statement_the_states_are_listed(root: str) -> None:
    result = run(root, "--format", "json")
    assert [json.loads(line)["table"] for line in result.stdout.splitlines()] == [
        '"aircraft"."count"',
        '"aircraft"."legs"',
        '"carrier"."seen"',
    ]


@pytest.mark.parametrize("engine", ["duckdb", "spark", "polars"])
def test_the_statement_of_an_engine_is_printed_and_not_run(root: str, engine: str) -> None:
    result = run(root, "from aircraft.count", "--show", engine)
    assert result.exit_code == 0
    assert "aircraft/count" in result.stdout
    assert "aircraft/legs" not in result.stdout
    assert ("import polars" in result.stdout) == (engine == "polars")
    assert ("delta.`" in result.stdout) == (engine == "spark")


@pytest.mark.parametrize(
    ("arguments", "job", "said"),
    [
        (["from aircraft.count"], "nope", "NothingToRestoreError: Job 'nope' has no sealed epoch"),
        (["from aircraft.count"], "../nope", "JobDefinitionError: The job name '../nope'"),
        (["from plane.count"], "flights", "UnknownOperatorError"),
        (["from aircraft.cuont"], "flights", "UnknownOperatorError"),
        (["from aircraft.count", "--at", "checkpoint:9"], "flights", "has no completed checkpoint"),
        (["from aircraft.count", "--at", "yesterday"], "flights", "has no savepoint 'yesterday'"),
        (["select 1", "--show", "spark"], "flights", "names no state"),
        (["selec"], "flights", "DuckDB refuses the statement"),
    ],
)
def test_what_is_not_there_is_a_named_error_with_a_remedy(root: str, arguments: list[str], job: str, said: str) -> None:
    result = run(root, *arguments, job=job)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert "What to do: " in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path(root, "nope").exists()
