"""Spark's own directory is a cache: its loss does not change the results."""

import shutil
from pathlib import Path

import pytest
from support import Input, assert_counts, count_job, run_all

pytestmark = pytest.mark.spark


def test_a_directory_that_lost_its_last_files_is_not_continued(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    run_all(count_job(source.stream(spark), tmp_path / "root", "lost-files"))
    [old] = (tmp_path / "root" / "lost-files" / "_spark").iterdir()
    for folder in ("offsets", "commits", "sources/0"):
        newest = max((f for f in (old / folder).iterdir() if f.name.isdecimal()), key=lambda f: int(f.name))
        newest.unlink()
    before = sorted(old.rglob("*"))
    source.add_many(1)
    client = run_all(count_job(source.stream(spark), tmp_path / "root", "lost-files"))
    assert [e.records for e in client.epochs] == [60]
    assert sorted(old.rglob("*")) == before
    assert_counts(tmp_path / "root", "lost-files", source.all)


def test_without_any_directory_the_job_goes_on(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "root", "no-directory"))
    shutil.rmtree(tmp_path / "root" / "no-directory" / "_spark")
    source.add_many(1)
    client = run_all(count_job(source.stream(spark), tmp_path / "root", "no-directory"))
    assert [e.records for e in client.epochs] == [60]
    assert_counts(tmp_path / "root", "no-directory", source.all)


def test_a_start_without_new_input_reads_nothing_again(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "root", "nothing-new"))
    for _ in range(2):
        assert run_all(count_job(source.stream(spark), tmp_path / "root", "nothing-new")).epochs == []
    source.add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "root", "nothing-new"))
    assert_counts(tmp_path / "root", "nothing-new", source.all)
