"""Sections of change files follow key groups, and a read fetches exactly the sections that overlap."""

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.errors import DamagedFileError, UnsupportedVersionError
from state_engine.log import change_file
from state_engine.log.change_file import ChangeFileHeader, decode_section, encode_change_file, read_state
from state_engine.log.ops import log_schema
from state_engine.log.records import Codec, Section, StateHandle, StateSchema
from state_engine.serialization.column import Column
from state_engine.serialization.types import ddl_to_arrow

HEADER = ChangeFileHeader(job="j", generation=1, epoch=1, uid="u", subtask=0, attempt="a", max_parallelism=128)


def _schema(name: str = "s", schema_id: str = "id") -> StateSchema:
    return StateSchema(
        schema_id=schema_id,
        uid="u",
        kind="keyed",
        name=name,
        shape="value",
        key=(Column(name="k", type="string"),),
        value="bigint",
    )


def _table(groups: Any) -> pa.Table:
    groups = np.asarray(groups, np.int32)
    rows = len(groups)
    columns: list[Any] = [
        groups,
        pa.array([f"N{number % 4096}" for number in range(rows)]),
        pa.nulls(rows, pa.string()),
        np.arange(rows) % 1000,
        np.ones(rows, np.int8),
        np.arange(rows),
        np.full(rows, 1_700_000_000_000),
    ]
    return pa.table(columns, schema=log_schema(_schema(), ddl_to_arrow))


class _File:
    """A file that records which ranges were fetched."""

    def __init__(self, *states: tuple[StateSchema, pa.Table], codec: Codec = "zstd", block_rows: int = 4) -> None:
        parts, sections, checksum, length = encode_change_file(HEADER, states, codec, block_rows)
        self.data = b"".join(memoryview(part) for part in parts)
        self.handle = StateHandle(path="file", length=length, checksum=checksum, rows=0, codec=codec, sections=sections)
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, offset: int, length: int) -> bytes:
        self.fetched.append((offset, length))
        return self.data[offset : offset + length]

    def read(self, state: str, first: int, last: int) -> pa.Table | None:
        return read_state(self.fetch, self.handle, state, first, last)


def _ranges(file: _File) -> list[tuple[int, int, int]]:
    return [(section.first, section.last, section.rows) for section in file.handle.sections]


def test_sections_end_at_borders_of_key_groups() -> None:
    assert _ranges(_File((_schema(), _table([0, 0, 1, 1, 1, 2, 3, 4, 4])))) == [(0, 1, 5), (2, 4, 4)]
    assert _ranges(_File((_schema(), _table([7] * 20)))) == [(7, 7, 20)]
    assert _ranges(_File((_schema(), _table([1, 2, 3, 4])))) == [(1, 4, 4)]


def test_a_state_without_rows_has_no_section() -> None:
    file = _File((_schema("empty", "e"), _table([])), (_schema(), _table([1])))
    assert [section.name for section in file.handle.sections] == ["s"]
    assert file.read("empty", 0, 127) is None


def test_an_empty_file_is_a_file() -> None:
    file = _File()
    assert file.handle.sections == ()
    assert change_file.verify_change_file(file.data).header == HEADER


@pytest.mark.parametrize(
    ("first", "last", "sections"),
    [
        (0, 127, [0, 1, 2]),
        (0, 0, [0]),
        (2, 3, [1]),
        (1, 2, [0, 1]),
        (5, 9, [2]),
        (6, 6, [2]),
        (4, 4, []),
        (10, 127, []),
    ],
)
def test_only_overlapping_sections_are_fetched(first: int, last: int, sections: list[int]) -> None:
    groups = np.array([0, 0, 1, 1, 2, 3, 3, 3, 5, 7, 9, 9])
    other = (_schema("other", "o"), _table([0, 50, 100]))
    table = _table(groups)
    file = _File(other, (_schema(), table), other)
    mine = [section for section in file.handle.sections if section.name == "s"]
    assert [(section.first, section.last) for section in mine] == [(0, 1), (2, 3), (5, 9)]
    rows_read = file.read("s", first, last)
    wanted = table.filter(pa.array((groups >= first) & (groups <= last)))
    assert file.fetched == [(mine[index].offset, mine[index].length) for index in sections]
    assert rows_read is None if wanted.num_rows == 0 else rows_read is not None and rows_read.equals(wanted)


def test_states_are_found_by_name_and_by_schema() -> None:
    file = _File((_schema("s", "old"), _table([1])), (_schema("s", "new"), _table([2])))
    rows_read = file.read("new", 0, 127)
    assert rows_read is not None
    assert rows_read.column("key_group").to_pylist() == [2]
    with pytest.raises(ValueError, match="schema_id"):
        file.read("s", 0, 127)


def test_rows_that_are_not_sorted_are_refused() -> None:
    with pytest.raises(ValueError, match="not sorted by key group"):
        _File((_schema(), _table([2, 1])))


def test_a_sliced_table_is_written_as_a_slice() -> None:
    file = _File((_schema(), _table(range(100)).slice(10, 3)))
    assert len(file.data) < 3000
    rows_read = file.read("s", 0, 127)
    assert rows_read is not None
    assert rows_read.column("key_group").to_pylist() == [10, 11, 12]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_few_rows_are_not_compressed_and_many_are(codec: Codec) -> None:
    few, many = _table([1] * 20), _table([2] * 2_000)
    assert few.nbytes < change_file.WORTH_COMPRESSION <= many.nbytes
    compressed, plain = (_File((_schema(), few), (_schema("t"), many), codec=one) for one in (codec, "none"))
    assert change_file.verify_change_file(compressed.data).footer.codec == codec

    def sections(file: _File) -> list[bytes]:
        return [file.data[one.offset : one.offset + one.length] for one in file.handle.sections]

    assert sections(compressed)[0] == sections(plain)[0]
    assert len(sections(compressed)[1]) < len(sections(plain)[1]) / 2
    for file in (compressed, plain):
        assert [rows.equals(wanted) for rows, wanted in zip(_all(file), (few, many), strict=True)] == [True, True]


def _all(file: _File) -> list[pa.Table]:
    found = [file.read(name, 0, 127) for name in ("s", "t")]
    return [rows for rows in found if rows is not None]


def test_a_damaged_section_is_named() -> None:
    file = _File((_schema(), _table([1, 2, 3])))
    (section,) = file.handle.sections
    middle = section.offset + section.length // 2
    file.data = file.data[:middle] + bytes([file.data[middle] ^ 1]) + file.data[middle + 1 :]
    with pytest.raises(DamagedFileError, match=r"section 's' at offset \d+ of file has the checksum"):
        file.read("s", 0, 127)
    file.data = file.data[:middle]
    with pytest.raises(DamagedFileError, match=r"has \d+ bytes, expected"):
        file.read("s", 0, 127)


def test_a_section_that_is_no_arrow_stream_is_damaged_even_without_a_checksum() -> None:
    section = Section(schema_id="i", name="s", first=0, last=1, offset=0, length=8, rows=1)
    with pytest.raises(DamagedFileError, match="no Arrow stream"):
        decode_section(b"\xff\xff\xff\xff\x10\x00\x00\x00", section)


def test_a_later_version_is_not_called_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_file, "VERSION", 2)
    later = _File((_schema(), _table([1])))
    monkeypatch.undo()
    with pytest.raises(UnsupportedVersionError, match=r"version 2; this release reads version 1"):
        change_file.verify_change_file(later.data)


def test_encoding_is_fast_enough_for_the_hot_path() -> None:
    """100,000 rows take about 10 ms of processor time; a loop over rows in Python would take more than this bound."""
    table = _table(np.sort(np.random.default_rng(1).integers(0, 128, 100_000)))
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        encode_change_file(HEADER, [(_schema(), table)])
        best = min(best, time.process_time() - start)
    assert best < 0.1
