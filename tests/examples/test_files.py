"""A folder of files that grows, for Spark's file source."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from lakestate.examples.files import newest_number, write_file

TABLE = pa.table({"n": [1, 2]})


def test_files_are_numbered_and_each_is_younger_than_the_one_before(tmp_path: Path) -> None:
    paths = [write_file(TABLE, tmp_path, "clicks", number) for number in (1, 2, 3)]
    assert [path.name for path in paths] == [f"clicks-0000{number}.parquet" for number in (1, 2, 3)]
    times = [path.stat().st_mtime for path in paths]
    assert times == [times[0], times[0] + 1, times[0] + 2]
    assert newest_number(tmp_path, "clicks") == 3


def test_only_whole_files_of_that_name_count(tmp_path: Path) -> None:
    write_file(TABLE, tmp_path, "clicks", 7)
    for name in (".clicks-00008.parquet.part", "clicks-00009.parquet.crc", "other-00010.parquet", "clicks-x.parquet"):
        (tmp_path / name).touch()
    assert newest_number(tmp_path, "clicks") == 7


def test_a_folder_that_is_not_there_or_empty_has_no_file(tmp_path: Path) -> None:
    assert newest_number(tmp_path / "no", "clicks") == newest_number(tmp_path, "clicks") == 0


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        write_file(TABLE, tmp_path, "clicks", 1)
    assert not list(tmp_path.iterdir())
