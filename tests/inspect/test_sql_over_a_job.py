"""`run_sql`: any statement over the states of a job."""

from pathlib import Path

import numpy as np
import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import LakestateError, NothingToRestoreError, UnknownOperatorError
from state_engine.inspect import list_states, read_state, run_sql, show_sql
from state_engine.savepoint import trigger_savepoint
from state_engine.storage.state_reader import load_groups
from state_engine.testing.changes import put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, sample_job

pytest.importorskip("duckdb")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def publish(job: JobBuilder, checkpoint_id: int, changes: dict | None = None) -> None:
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(changes, checkpoint_id=checkpoint_id))
    job.adopt(publisher.completed())


def counted(root: str) -> JobBuilder:
    """Makes a job with two checkpoints, and one epoch after them."""
    job = sample_job(root)
    publish(job, 1, {("aircraft", "count"): [put("N1", 1), put("N2", 2)]})
    publish(job, 2, {("aircraft", "count"): [put("N1", 10)], ("carrier", "seen"): [put(("UA", 1), 0.5, user_key="a")]})
    job.epoch({("aircraft", "count"): [put("N3", 100)]})
    return job


TOTAL = "select sum(value)::bigint as total from aircraft.count"


def total(root: str, **options: object) -> int:
    return run_sql(root, "flights", TOTAL, **options)["total"].to_pylist()[0]  # type: ignore[arg-type]


def test_a_state_is_a_table_of_its_live_rows(root: str) -> None:
    counted(root)
    assert (
        run_sql(root, "flights", 'from "aircraft"."count"').column_names
        == read_state(root, "flights", "aircraft", "count").column_names
    )
    joined = "select c.tailnum, s.carrier from aircraft.count c join carrier.seen s on s.value < c.value order by 1"
    assert run_sql(root, "flights", joined).to_pylist() == [
        {"tailnum": "N1", "carrier": "UA"},
        {"tailnum": "N2", "carrier": "UA"},
    ]


def test_equal_user_keys_are_one_row(root: str) -> None:
    """As in the fold: NaN of any bits equals NaN, and -0.0 equals 0.0."""
    job = JobBuilder(root, "numbers", [state("op", "times", "k string", "bigint", shape="map", user_key="double")])
    nans = np.array([0x7FF8 << 48, (0xFFF8 << 48) + 1], np.uint64).view(np.float64).tolist()
    for number, zero in enumerate((0.0, -0.0)):
        publish(job, 1 + number, {("op", "times"): [put("a", number, user_key=key) for key in (nans[number], zero)]})
    for live in (False, True):
        result = run_sql(root, "numbers", "select value from op.times", live=live)
        assert result["value"].to_pylist() == [1, 1]


def test_published_rows_by_default_and_sealed_ones_on_request(root: str) -> None:
    job = counted(root)
    pin = trigger_savepoint(root, job.job)
    assert total(root) == 12
    assert total(root, live=True) == 112
    assert total(root, at="checkpoint:1") == total(root, at="checkpoint:1", live=True) == 3
    assert total(root, at=pin.savepoint_id, live=True) == total(root, at=pin, live=True) == 112
    assert total(root, at="epoch:1/2", live=True) == 12


def test_a_state_that_a_checkpoint_does_not_hold_is_an_empty_table(root: str) -> None:
    counted(root)
    result = run_sql(root, "flights", "select tailnum, value.origin from aircraft.legs")
    assert (result.num_rows, result.column_names) == (0, ["tailnum", "origin"])


def test_before_the_first_checkpoint_only_live_rows_are_there(root: str) -> None:
    job = sample_job(root)
    job.epoch({("aircraft", "count"): [put("N1", 7)]})
    assert total(root, live=True) == 7
    with pytest.raises(NothingToRestoreError, match=r"published nothing.*--live"):
        total(root)


def test_all_states_of_one_statement_are_of_one_epoch(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = counted(root)

    def read_while_the_job_goes_on(*args: object, **options: object) -> object:
        job.epoch({("aircraft", "count"): [put("N4", 1000)]})
        return load_groups(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("state_engine.inspect.query.load_groups", read_while_the_job_goes_on)
    assert total(root, live=True) == 112


def test_only_states_that_the_statement_names_are_looked_at(root: str) -> None:
    counted(root)
    for file in Path(root, "flights", "carrier", "seen").glob("*.parquet"):
        file.unlink()
    assert total(root) == 12
    with pytest.raises(LakestateError, match=r"DuckDB refuses the statement.*No files found"):
        run_sql(root, "flights", "from carrier.seen")


def test_names_of_signs_and_capitals_are_quoted(root: str) -> None:
    schemas = [state("by-Tail.1", 'odd "name', "tailnum string", "bigint"), state("main", "a__b", "k string", "bigint")]
    job = JobBuilder(root, "flights", schemas)
    job.epoch({("by-Tail.1", 'odd "name'): [put("N1", 5)], ("main", "a__b"): [put("x", 1)]})
    result = run_sql(root, "flights", 'select value from "by-Tail.1"."odd ""name"', live=True)
    assert result["value"].to_pylist() == [5]
    assert run_sql(root, "flights", "from main.a__b", live=True).num_rows == 1


def test_names_that_differ_in_case_alone_are_refused(root: str) -> None:
    job = JobBuilder(root, "flights", [state("a", "n", "k string", "bigint"), state("a", "N", "k string", "bigint")])
    job.epoch({("a", "n"): [put("x", 1)]})
    with pytest.raises(LakestateError, match=r"a/N and a/n have one name"):
        run_sql(root, "flights", "from a.n", live=True)


@pytest.mark.parametrize(
    "statement", ["from aircraft.cuont", "from count", "from nothing.here", "from history", 'from "../aircraft".count']
)
def test_an_unknown_table_is_an_error_that_names_the_states(root: str, statement: str) -> None:
    counted(root)
    with pytest.raises(UnknownOperatorError, match=r'"aircraft"."count", "aircraft"."legs".*What to do: Name a state'):
        run_sql(root, "flights", statement)


@pytest.mark.parametrize("statement", ["selec", "select nothing from aircraft.count", "select cast('x' as int)"])
def test_a_statement_that_duckdb_refuses_is_a_named_error(root: str, statement: str) -> None:
    counted(root)
    with pytest.raises(LakestateError, match=r"DuckDB refuses the statement: .*What to do: Correct"):
        run_sql(root, "flights", statement)


def test_the_states_of_a_job(root: str) -> None:
    counted(root)
    assert list_states(root, "flights") == list(SCHEMAS)
    with pytest.raises(NothingToRestoreError, match="no sealed epoch"):
        list_states(root, "other")


def test_the_script_for_duckdb_runs_as_it_is_given(root: str) -> None:
    import duckdb

    counted(root)
    script = show_sql(root, "flights", f"{TOTAL};\n", "duckdb")
    with duckdb.connect() as connection:
        assert connection.sql(script).fetchall() == [(12,)]


def test_statements_for_other_engines(root: str) -> None:
    counted(root)
    spark = show_sql(root, "flights", "from aircraft.count", "spark")
    assert f"FROM delta.`{root}/flights/aircraft/count`" in spark
    assert "carrier" not in spark
    both = show_sql(root, "flights", "from aircraft.count, carrier.seen", "polars")
    assert (both.count("import polars"), both.count("# aircraft/count"), both.count("# carrier/seen")) == (2, 1, 1)
    with pytest.raises(UnknownOperatorError, match="names no state"):
        show_sql(root, "flights", "select 1", "spark")
