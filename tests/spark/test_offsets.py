"""Reading Spark's offset log as Spark 4.2 writes it: positions, and the new files of file sources. No JVM."""

import json
from pathlib import Path

import pytest

from state_engine.errors import MissingFileError, SourcesChangedError
from state_engine.log.source_records import SourceFile, SourceFingerprint, SourcePosition
from state_engine.spark.driver.offsets import SparkOffsetLog, is_file_source

META = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'
RATE = '{"offset":30,"timestamp":0}'
FILE = SourceFingerprint(kind="parquet", path="/in")
OTHER = SourceFingerprint(kind="rate-micro-batch", path="")


def write_batch(folder: Path, batch: int, *lines: str, version: str = "v1") -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text("\n".join([version, META, *lines]))


def entry(number: int, batch: int) -> dict[str, object]:
    return {"path": f"file:///in/{number}.parquet", "timestamp": number, "batchId": batch}


def write_log(folder: Path, name: str, *entries: dict[str, object], source: int = 0) -> None:
    target = folder / "sources" / str(source)
    target.mkdir(parents=True, exist_ok=True)
    (target / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))


def file(number: int) -> SourceFile:
    return SourceFile(path=f"file:///in/{number}.parquet", timestamp=number)


def test_positions_are_verbatim_and_the_metadata_too(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, RATE)
    state = SparkOffsetLog(str(tmp_path), [OTHER], []).read(0)
    assert state.metadata == META
    assert state.positions == (SourcePosition(offset=RATE),)
    assert state.fingerprints == (OTHER,)


def test_a_fresh_file_source_brings_the_files_of_log_offset_0(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, '{"logOffset":0}')
    write_log(tmp_path, "0", entry(1, 0), entry(2, 0))
    [position] = SparkOffsetLog(str(tmp_path), [FILE], []).read(0).positions
    assert position.new_files == (file(1), file(2))


def test_after_a_seed_the_files_of_log_offset_0_are_known(tmp_path: Path) -> None:
    write_batch(tmp_path, 1, '{"logOffset":1}')
    write_log(tmp_path, "0", entry(1, -1), entry(2, 0))
    write_log(tmp_path, "1", entry(3, 1))
    seeded = [SourcePosition(offset='{"logOffset":7}')]
    [position] = SparkOffsetLog(str(tmp_path), [FILE], seeded).read(1).positions
    assert position.new_files == (file(3),)


def test_files_stay_new_until_their_epoch_is_sealed(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, '{"logOffset":0}')
    write_batch(tmp_path, 1, '{"logOffset":1}')
    write_log(tmp_path, "0", entry(1, 0))
    write_log(tmp_path, "1", entry(2, 1))
    log = SparkOffsetLog(str(tmp_path), [FILE], [])
    first = log.read(0)
    assert log.read(0) == first
    log.advance(first)
    assert log.read(1).positions[0].new_files == (file(2),)


def test_a_compacted_log_gives_only_the_files_of_its_own_number(tmp_path: Path) -> None:
    write_batch(tmp_path, 9, '{"logOffset":9}')
    write_log(tmp_path, "9.compact", *(entry(n, n) for n in range(10)))
    log = SparkOffsetLog(str(tmp_path), [FILE], [])
    log._file_offsets = [8]
    assert log.read(9).positions[0].new_files == (file(9),)


def test_a_source_that_ran_dry_brings_nothing(tmp_path: Path) -> None:
    write_batch(tmp_path, 5, '{"logOffset":2}', '{"logOffset":5}')
    for source, last in ((0, 2), (1, 5)):
        for number in range(last + 1):
            write_log(tmp_path, str(number), entry(100 * source + number, number), source=source)
    log = SparkOffsetLog(str(tmp_path), [FILE, FILE], [])
    log._file_offsets = [2, 4]
    dry, fed = log.read(5).positions
    assert dry.new_files == ()
    assert fed.new_files == (file(105),)


def test_a_batch_that_spans_several_log_entries_brings_all_their_files(tmp_path: Path) -> None:
    """A batch that was planned twice may have left an entry between the others."""
    write_batch(tmp_path, 2, '{"logOffset":2}')
    for number in range(3):
        write_log(tmp_path, str(number), entry(number, number))
    log = SparkOffsetLog(str(tmp_path), [FILE], [])
    assert log.read(2).positions[0].new_files == (file(0), file(1), file(2))


def test_an_entry_that_is_gone_is_found_in_a_later_compaction(tmp_path: Path) -> None:
    write_batch(tmp_path, 2, '{"logOffset":19}')
    write_log(tmp_path, "9.compact", *(entry(n, n) for n in range(10)))
    write_log(tmp_path, "19.compact", *(entry(n, n) for n in range(20)))
    log = SparkOffsetLog(str(tmp_path), [FILE], [])
    log._file_offsets = [8]
    assert log.read(2).positions[0].new_files == tuple(file(n) for n in range(9, 20))


@pytest.mark.parametrize("folder", [True, False])
def test_an_entry_that_is_nowhere_is_an_error(tmp_path: Path, folder: bool) -> None:
    """A manifest without these files would let the next start read them twice."""
    write_batch(tmp_path, 2, '{"logOffset":2}')
    if folder:
        write_log(tmp_path, "0", entry(0, 0))
        write_log(tmp_path, "2", entry(2, 2))
    log = SparkOffsetLog(str(tmp_path), [FILE], [])
    with pytest.raises(MissingFileError, match=f"source 0 has no entry {1 if folder else 0}") as caught:
        log.read(2)
    assert caught.value.action


def test_a_source_without_offset_yet(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, '{"logOffset":0}', "-")
    write_log(tmp_path, "0", entry(1, 0))
    _, waiting = SparkOffsetLog(str(tmp_path), [FILE, OTHER], []).read(0).positions
    assert waiting.offset == "-"
    assert not is_file_source(waiting)


@pytest.mark.parametrize(("lines", "version"), [([RATE, RATE], "v1"), ([], "v1"), ([RATE], "v2")])
def test_another_number_of_sources_or_version_is_refused(tmp_path: Path, lines: list[str], version: str) -> None:
    write_batch(tmp_path, 0, *lines, version=version)
    with pytest.raises(SourcesChangedError) as caught:
        SparkOffsetLog(str(tmp_path), [OTHER], []).read(0)
    assert caught.value.action


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ('{"logOffset":3}', True),
        (RATE, False),
        ('{"topic":{"0":4}}', False),
        ("-", False),
        ("12", False),
        ("[]", False),
    ],
)
def test_which_lines_are_those_of_file_sources(offset: str, expected: bool) -> None:
    assert is_file_source(SourcePosition(offset=offset)) is expected
