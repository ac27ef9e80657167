"""The files of a seeded Spark directory; `test_sources.py` shows that Spark understands them. No JVM."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from state_engine.errors import NotWritableError, SourceFileMissingError
from state_engine.log.source_records import SourceFile, SourcePosition
from state_engine.spark.driver.hadoop_files import missing_files
from state_engine.spark.driver.seeding import check_files_exist, remove_others, seed

META = '{"batchWatermarkMs":17,"batchTimestampMs":1700000000000,"conf":{"a":"b"}}'
DELTA = '{"sourceVersion":1,"reservoirId":"6f","reservoirVersion":3,"index":-1,"isStartingVersion":false}'
FILES = [SourceFile(path=f"file:///in/{n}.parquet", timestamp=n) for n in range(3)]
FILE = SourcePosition(offset='{"logOffset":12}')


def tree(folder: Path) -> list[str]:
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())


def test_a_file_source(tmp_path: Path) -> None:
    folder = tmp_path / "seed"
    seed(str(folder), META, [FILE], [FILES])
    assert tree(folder) == ["commits/0", "commits/1", "metadata", "offsets/0", "offsets/1", "sources/0/0"]
    for batch in ("0", "1"):
        assert (folder / "offsets" / batch).read_text() == f'v1\n{META}\n{{"logOffset":0}}'
        assert (folder / "commits" / batch).read_text() == 'v1\n{"nextBatchWatermarkMs":17}'
    version, *lines = (folder / "sources" / "0" / "0").read_text().splitlines()
    assert version == "v1"
    entries = [json.loads(line) for line in lines]
    assert [(e["path"], e["timestamp"]) for e in entries] == [(f.path, f.timestamp) for f in FILES]
    assert [e["batchId"] for e in entries] == [-1, -1, 0]


def test_each_directory_has_an_id_of_its_own(tmp_path: Path) -> None:
    ids = set()
    for name in ("one", "two"):
        seed(str(tmp_path / name), META, [FILE], [FILES])
        ids.add(uuid.UUID(json.loads((tmp_path / name / "metadata").read_text())["id"]))
    assert len(ids) == 2


def test_other_sources_are_verbatim_and_need_no_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "seed"
    positions = [SourcePosition(offset=DELTA), FILE, SourcePosition(offset='{"topic":{"0":40}}')]
    seed(str(folder), META, positions, [[], FILES, []])
    lines = (folder / "offsets" / "0").read_text().splitlines()
    assert lines == ["v1", META, DELTA, '{"logOffset":0}', '{"topic":{"0":40}}']
    assert tree(folder) == ["commits/0", "commits/1", "metadata", "offsets/0", "offsets/1", "sources/1/0"]


def test_before_the_first_seal_the_directory_is_empty(tmp_path: Path) -> None:
    seed(str(tmp_path / "seed"), "", [], [])
    assert tree(tmp_path / "seed") == []


def test_no_checksum_or_temporary_file_is_left(tmp_path: Path) -> None:
    seed(str(tmp_path / "seed"), META, [FILE, FILE], [FILES, FILES[:1]])
    assert not [name for name in tree(tmp_path / "seed") if "crc" in name or "tmp" in name]


def test_a_directory_is_never_written_over(tmp_path: Path) -> None:
    seed(str(tmp_path / "seed"), META, [FILE], [FILES])
    with pytest.raises(NotWritableError) as caught:
        seed(str(tmp_path / "seed"), META, [FILE], [FILES])
    assert caught.value.action


def test_all_but_the_newest_directory_of_earlier_starts_goes(tmp_path: Path) -> None:
    names = [uuid.UUID(int=n).hex for n in range(4)]
    for number, name in enumerate(names):
        (tmp_path / name / "offsets").mkdir(parents=True)
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "not ours").mkdir()
    remove_others(str(tmp_path / names[3]))
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([names[2], names[3], "not ours"])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotWritableError, match="cannot be written"):
        seed(str(tmp_path / "file" / "seed"), META, [FILE], [FILES])


def test_source_files_that_are_gone_are_named() -> None:
    gone = [f"file:///gone/{n}.parquet" for n in range(5)]
    check_files_exist(["file:///kept"], lambda paths: [])
    with pytest.raises(SourceFileMissingError, match=r"5 source files .*gone/0\.parquet.* and 2 more") as caught:
        check_files_exist(["file:///kept", *gone], lambda paths: paths[1:])
    assert caught.value.action


def test_local_files_are_looked_for_without_a_jvm(tmp_path: Path) -> None:
    existing = tmp_path / "a file%20.parquet"
    existing.touch()
    session: Any = None
    assert missing_files(session, [existing.as_uri(), "/gone/1.parquet"]) == ["/gone/1.parquet"]
