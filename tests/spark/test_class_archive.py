"""An archive of Spark's classes is used if it fits, and does no harm if it does not fit or cannot be written."""

import shlex
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state_engine.spark.class_archive import ClassArchiveError, write_archive
from state_engine.spark.session.archive_options import archive_file, archive_options


def test_without_an_archive_there_is_no_option(tmp_path: Path) -> None:
    assert archive_options(tmp_path / "none.jsa") == ""


@pytest.mark.spark
def test_an_archive_of_something_else_is_passed_over_in_silence(tmp_path: Path) -> None:
    archive = tmp_path / "a folder" / "other.jsa"
    archive.parent.mkdir()
    archive.write_bytes(b"of something else" * 1_000)
    command = ["java", *shlex.split(archive_options(archive)), "--version"]
    plain = subprocess.run(["java", "--version"], capture_output=True, text=True, check=True)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"-XX:SharedArchiveFile={archive}" in command
    assert (done.stdout, done.stderr) == (plain.stdout.replace(", sharing", ""), plain.stderr)


@pytest.mark.spark
def test_the_driver_of_an_environment_that_has_one_maps_it(spark: SparkSession) -> None:
    if not archive_file().exists():
        pytest.skip("`make test` writes the archive; here it was not written")
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    assert str(archive_file()) in Path(f"/proc/{pid}/maps").read_text()


def test_a_job_that_fails_leaves_no_archive_and_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTATE_JARS", str(tmp_path / "no jars"))
    archive = tmp_path / "share" / "classes.jsa"
    archive.parent.mkdir()
    archive.write_bytes(b"old")
    with pytest.raises(ClassArchiveError, match=r"wrote no archive of classes: .*does not hold delta-spark") as failed:
        write_archive(archive)
    assert "only starts take longer" in str(failed.value)
    assert [path.name for path in archive.parent.iterdir()] == ["classes.jsa"]
    assert archive.read_bytes() == b"old"


def test_an_environment_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("no folder")
    with pytest.raises(ClassArchiveError, match="was not written"):
        write_archive(tmp_path / "share" / "classes.jsa")
