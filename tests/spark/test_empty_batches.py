"""A batch without records is an epoch like any other: every subtask runs and acks."""

from pathlib import Path

import pytest
from support import Input, assert_counts, count_job, newest, outputs, run_all, table_rows, tally_job

from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark


def test_a_condition_that_nothing_meets(spark, tmp_path: Path) -> None:
    source, sinks = Input(tmp_path / "in").add_many(2), outputs(tmp_path / "out")
    df = source.stream(spark).where("n < 0")
    client = run_all(tally_job(df, tmp_path / "root", "nothing-meets", sinks, 3, max_parallelism=7))
    assert [e.records for e in client.epochs] == [0, 0]
    operators = newest(tmp_path / "root", "nothing-meets").operators
    assert {uid: [a.subtask for a in op.acks] for uid, op in operators.items()} == {
        "tally": [0, 1, 2],
        "totals": [0, 1, 2],
    }
    assert table_rows(sinks.tally) == []


def test_a_file_without_rows_between_files_with_rows(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(1)
    source.add([])
    source.add_many(1)
    client = run_all(count_job(source.stream(spark), tmp_path / "root", "empty-file"))
    assert [e.records for e in client.epochs] == [60, 0, 60]
    assert_counts(tmp_path / "root", "empty-file", source.all)


def test_all_records_of_one_key(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    df = source.stream(spark).where("k = 'k3'")
    run_all(count_job(df, tmp_path / "root", "one-key", parallelism=7))
    assert {row["k"] for row in MemorySink("one-key").rows()} == {"k3"}
    assert_counts(tmp_path / "root", "one-key", [row for row in source.all if row.k == "k3"])
