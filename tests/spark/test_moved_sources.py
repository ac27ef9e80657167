"""Files of a folder that moved: their paths now, and whether they are the files that were read. No JVM."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from state_engine.errors import SourcesChangedError
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourceFile, SourceFingerprint, SourcePosition
from state_engine.spark.driver.moved_sources import check_moved, follow_files

MODIFIED_MS = 1_600_000_000_123


def source(path: Path | str, *former: str) -> SourceFingerprint:
    return SourceFingerprint(kind="json", path=str(path), former=former)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in ("one", "t wo"):
        (tmp_path / "in" / name).write_text(name)
        os.utime(tmp_path / "in" / name, ns=(MODIFIED_MS * 1_000_000,) * 2)
    return tmp_path / "in"


def check(was: SourceFingerprint, now: SourceFingerprint, *allowed: int) -> None:
    files = [SourceFile(path=f"file://{was.path}/{name}", timestamp=MODIFIED_MS) for name in ("one", "t%20wo", "gone")]
    target = Manifest(
        job="job",
        generation=1,
        epoch=2,
        kind="epoch",
        incarnation="a",
        incarnation_number=1,
        predecessor="",
        processing_time=0,
        lineage=(),
        fingerprints=(was,),
        sources=(SourcePosition(offset='{"logOffset":0}'),),
    )
    check_moved(target, [now], [files], allowed)


def test_files_that_moved_with_their_times_or_are_gone_are_taken_for_read(folder: Path) -> None:
    moved = folder.rename(folder.parent / "moved")
    check(source(folder), source(moved), 0)


def test_a_file_with_another_time_where_the_folder_moved_is_refused(folder: Path) -> None:
    copy = Path(shutil.copytree(folder, folder.parent / "copy"))
    os.utime(copy / "t wo")
    with pytest.raises(SourcesChangedError, match=r"1 of 3 files .* another modification time .*copy/t%20wo") as caught:
        check(source(folder), source(copy), 0)
    assert "cp -p" in caught.value.action


def test_only_what_moved_and_was_allowed_to_is_checked(folder: Path) -> None:
    os.utime(folder / "one")
    check(source(folder), source(f"{folder}/"), 0)
    check(source("/elsewhere"), source(folder))


@pytest.mark.parametrize(
    ("recorded", "now", "expected"),
    [
        (source("/a"), source("/b"), "/b/x"),
        (source("/b", "/a"), source("/b"), "/b/x"),
        (source("/b"), source("/b", "/a"), "/b/x"),
        (source("/a"), source("/a"), "/a/x"),
    ],
)
def test_files_are_followed_from_all_places_where_the_source_was(
    recorded: SourceFingerprint, now: SourceFingerprint, expected: str
) -> None:
    files: Sequence[SourceFile] = [SourceFile(path="file:///a/x", timestamp=1)]
    assert list(follow_files(files, recorded, now)) == [SourceFile(path=f"file://{expected}", timestamp=1)]
