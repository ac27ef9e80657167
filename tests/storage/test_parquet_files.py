"""Row groups follow key groups, statistics are Delta's, and damage is found."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from state_engine.errors import AlreadyExistsError, DamagedFileError, MissingFileError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import StateFile
from state_engine.storage.faults import FaultyStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.parquet import ParquetFile, encode_parquet, read_parquet, write_parquet
from state_engine.storage.statistics import delta_statistics


def _table(groups: list[int]) -> pa.Table:
    return pa.table({"key_group": pa.array(groups, pa.int32()), "v": pa.array(range(len(groups)), pa.int64())})


def _handle(written: ParquetFile, groups: list[int]) -> StateFile:
    return StateFile(
        schema_id="s",
        path="f.parquet",
        length=written.length,
        checksum=written.checksum,
        rows=written.rows,
        first=groups[0],
        last=groups[-1],
        generation=1,
        max_parallelism=128,
        codec="zstd",
        row_groups=written.row_groups,
    )


def _cut(groups: list[int], target: int, largest: int) -> tuple[tuple[int, int, int], ...]:
    data, written = encode_parquet(_table(groups), target_rows=target, max_rows=largest)
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [
        rows for _, _, rows in written.row_groups
    ]
    return written.row_groups


def test_small_key_groups_share_a_row_group() -> None:
    assert _cut([0, 1, 1, 2, 3, 4, 4, 5], 3, 100) == ((0, 1, 3), (2, 4, 4), (5, 5, 1))


def test_a_large_key_group_has_its_own() -> None:
    assert _cut([0, 1, 2, 2, 2, 2, 3], 4, 100) == ((0, 1, 2), (2, 2, 4), (3, 3, 1))


def test_a_huge_key_group_has_several() -> None:
    assert _cut([0, *[1] * 10, 2], 4, 4) == ((0, 0, 1), (1, 1, 4), (1, 1, 4), (1, 1, 2), (2, 2, 1))


def test_many_key_groups_do_not_make_many_row_groups() -> None:
    groups = np.sort(np.random.default_rng(1).integers(0, 32768, 400_000)).tolist()
    _, written = encode_parquet(_table(groups))
    assert len(written.row_groups) == 4
    assert sum(rows for _, _, rows in written.row_groups) == 400_000


@pytest.mark.parametrize(("rows", "codec"), [(10, "UNCOMPRESSED"), (2_000, "ZSTD")])
def test_a_small_file_is_not_compressed(rows: int, codec: str) -> None:
    table = _table([0] * rows)
    data, _ = encode_parquet(table)
    reader = pq.ParquetFile(pa.BufferReader(data))
    assert reader.metadata.row_group(0).column(0).compression == codec
    assert reader.read().equals(table)


def test_nothing_is_a_file_without_row_groups() -> None:
    data, written = encode_parquet(_table([]))
    assert written.row_groups == ()
    assert pq.read_table(pa.BufferReader(data)).num_rows == 0


def test_staged_output_needs_no_key_group() -> None:
    table = pa.table({"v": range(10)})
    data, written = encode_parquet(table, max_rows=4, target_rows=4, codec="snappy")
    assert (written.rows, written.row_groups) == (10, ())
    assert pq.read_table(pa.BufferReader(data)).equals(table)


def test_unsorted_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="not sorted by key group"):
        encode_parquet(_table([1, 0]))


def test_length_and_checksum_are_those_of_the_bytes() -> None:
    storage = MemoryStorage()
    written = write_parquet(storage, "f.parquet", _table([0, 1]))
    data = storage.get("f.parquet")
    assert (written.length, written.checksum) == (len(data), checksum_of(data))
    with pytest.raises(AlreadyExistsError):
        write_parquet(storage, "f.parquet", _table([0, 1]))


def test_reading_some_key_groups_fetches_some_of_the_file() -> None:
    groups = np.repeat(np.arange(8), 5000).tolist()
    table = _table(groups)
    storage = FaultyStorage(MemoryStorage())
    file = _handle(write_parquet(storage, "f.parquet", table, target_rows=5000), groups)
    assert len(file.row_groups) == 8
    result = read_parquet(storage, file, 3, 4)
    assert result is not None
    assert result.equals(table.slice(15000, 10000))
    assert {operation for operation, _ in storage.calls} == {"put_exclusive", "get_range"}
    whole = read_parquet(storage, file, 0, 127)
    assert whole is not None
    assert whole.equals(table)
    assert storage.calls[-1][0] == "get"
    storage.calls.clear()
    assert read_parquet(storage, file, 8, 127) is None
    assert storage.calls == []


def test_a_shared_row_group_is_filtered() -> None:
    groups = [0, 1, 1, 2, 5]
    storage = MemoryStorage()
    file = _handle(write_parquet(storage, "f.parquet", _table(groups)), groups)
    result = read_parquet(storage, file, 1, 2)
    assert result is not None
    assert result.column("v").to_pylist() == [1, 2, 3]
    assert read_parquet(storage, file, 3, 4) is None


def test_damage_and_loss_are_found() -> None:
    groups = np.repeat(np.arange(4), 2000).tolist()
    storage = MemoryStorage()
    file = _handle(write_parquet(storage, "f.parquet", _table(groups), target_rows=2000), groups)
    data = bytearray(storage.get("f.parquet"))
    data[len(data) // 8] ^= 1  # inside the first row group's pages
    storage.objects["f.parquet"] = (bytes(data), 0)
    for last in (0, 3):
        with pytest.raises(DamagedFileError, match=r"f\.parquet"):
            read_parquet(storage, file, 0, last)
    for last in (0, 3):
        storage.objects["f.parquet"] = (bytes(data[:100]), 0)
        with pytest.raises(DamagedFileError, match=r"f\.parquet"):
            read_parquet(storage, file, 0, last)
        storage.delete("f.parquet")
        with pytest.raises(MissingFileError, match="is gone"):
            read_parquet(storage, file, 0, last)


def _columns(data: pa.Buffer) -> dict[str, str]:
    """Returns how the columns of the first row group are compressed."""
    rows = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    return {rows.column(at).path_in_schema: rows.column(at).compression for at in range(rows.num_columns)}


def test_values_that_do_not_get_smaller_are_not_compressed() -> None:
    random, rows = np.random.default_rng(1), 30_000
    table = pa.table(
        {
            "key_group": pa.array([0] * rows, pa.int32()),
            "k": pa.array(range(rows), pa.int64()),
            "random": pa.array([random.bytes(20) for _ in range(rows)], pa.binary()),
            "text": [f"a text like {number} others" for number in range(rows)],
            "lists": [[number % 7] for number in range(rows)],
        }
    )
    data, _ = encode_parquet(table)
    kinds = _columns(data)
    assert {path for path, kind in kinds.items() if kind == "UNCOMPRESSED"} == {"random"}
    assert set(kinds) == {"key_group", "k", "random", "text", "lists.list.element"}
    assert pq.read_table(pa.BufferReader(data)).equals(table)
    assert encode_parquet(table)[0].equals(data), "the same table is the same file"


def test_a_column_with_a_dictionary_is_written_as_its_values() -> None:
    values = pa.table({"key_group": pa.array([0, 1, 1], pa.int32()), "op": ["b", None, "a"]})
    names = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["a", "b", "unused"]))
    data, written = encode_parquet(values.set_column(1, "op", names))
    assert pq.read_table(pa.BufferReader(data)).equals(values)
    assert written.statistics == encode_parquet(values)[1].statistics


def test_a_file_that_is_larger_than_its_rows_in_memory_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = encode_parquet(_table([0, 1]))
    monkeypatch.setattr("state_engine.storage.parquet._ROOM", 0)
    data, written = encode_parquet(_table([0, 1]))
    assert data.equals(expected)
    assert written.length == len(expected)


@pytest.mark.parametrize("at", ["allocated", "written"])
def test_without_memory_for_all_at_once_a_file_is_written_bit_by_bit(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    expected, _ = encode_parquet(_table([0, 1]))

    def refused(*_: object) -> None:
        raise pa.lib.ArrowMemoryError("malloc of size 6000000000 failed")

    monkeypatch.setattr(pa, "allocate_buffer" if at == "allocated" else "FixedSizeBufferWriter", refused)
    assert encode_parquet(_table([0, 1]))[0].equals(expected)


def test_few_rows_are_no_sample_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one row per piece no value would repeat: neither a key group, nor a value that many rows share."""
    monkeypatch.setattr("state_engine.storage.parquet_forms._PIECE_BYTES", 1)
    rows, random = 20_000, np.random.default_rng(1)
    table = pa.table(
        {
            "key_group": pa.array(np.arange(rows), pa.int32()),
            "few": pa.array(random.permutation(rows) % 2_000),
            "many": pa.array(random.permutation(rows)),
        }
    )
    data, written = encode_parquet(table, target_rows=5_000)
    assert encodings(data) == {"key_group": True, "few": True, "many": False}
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    bounds = [metadata.row_group(at).column(0).statistics for at in range(metadata.num_row_groups)]
    assert [(one.min, one.max) for one in bounds] == [(first, last) for first, last, _ in written.row_groups]


def test_statistics_are_bounds() -> None:
    time = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
    table = pa.table(
        {
            "i": pa.array([3, None, -1], pa.int64()),
            "s": ["b", "a" * 40, "z"],
            "long": ["x" * 33, "y" * 33, None],
            "f": [1.5, -0.5, 2.0],
            "nan": [1.0, float("nan"), 2.0],
            "d": [dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)],
            "t": pa.array([time, time, None], pa.timestamp("us", tz="UTC")),
            "ntz": pa.array([time.replace(tzinfo=None)] * 3, pa.timestamp("us")),
            "b": [True, False, None],
            "bin": [b"x", None, None],
            "none": pa.nulls(3, pa.string()),
            "nested": [{"x": 1}, None, None],
        }
    )
    assert json.loads(delta_statistics(table)) == {
        "numRecords": 3,
        "minValues": {
            "i": -1,
            "s": "a" * 32,
            "long": "x" * 32,
            "f": -0.5,
            "d": "1969-01-01",
            "t": "2024-01-02T03:04:05.678Z",
            "ntz": "2024-01-02T03:04:05.678",
        },
        "maxValues": {
            "i": 3,
            "s": "z",
            "f": 2.0,
            "d": "2024-02-29",
            "t": "2024-01-02T03:04:05.679Z",
            "ntz": "2024-01-02T03:04:05.679",
        },
        "nullCount": {
            "i": 1,
            "s": 0,
            "long": 1,
            "f": 0,
            "nan": 0,
            "d": 1,
            "t": 1,
            "ntz": 0,
            "b": 1,
            "bin": 2,
            "none": 3,
        },
    }


def test_statistics_of_nothing() -> None:
    assert json.loads(delta_statistics(_table([])))["minValues"] == {}


def test_files_on_disk_are_plain_parquet(tmp_path: Path) -> None:
    from state_engine.storage.open import open_root

    write_parquet(open_root(str(tmp_path)), "f.parquet", _table([0, 1]))
    assert pq.read_table(tmp_path / "f.parquet").equals(_table([0, 1]))


def encodings(data: pa.Buffer) -> dict[str, bool]:
    """Returns which columns of the first row group have a dictionary, by their paths."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema: column.has_dictionary_page for column in columns}


@pytest.mark.parametrize("rows", [1_000, 40_000])
def test_columns_whose_values_hardly_repeat_have_no_dictionary(rows: int) -> None:
    numbers = np.arange(rows)
    table = pa.table(
        {
            "key_group": pa.array(np.sort(numbers % 128), pa.int32()),
            "k": pa.array(numbers * 7919 % 100_003),
            "text": pa.array([f"value {number}" for number in numbers.tolist()]),
            "few": pa.array([f"value {number % 100}" for number in numbers.tolist()]),
            "nothing": pa.nulls(rows, pa.string()),
            "time": pa.array(numbers, pa.timestamp("us")),
            "pair": pa.array([{"x": number, "y": [number]} for number in numbers.tolist()]),
            "a.b": pa.array(numbers),
        }
    )

    data, described = encode_parquet(table)

    assert pq.read_table(pa.BufferReader(data)).equals(table)
    assert encode_parquet(table)[0].equals(data), "a repeated attempt writes the same bytes"
    result = encodings(data)
    assert described.rows == rows
    assert {name for name, has in result.items() if not has} >= (set() if rows < 20_000 else {"k", "text", "time"})
    assert all(result[name] for name in ("key_group", "few", "pair.x", "pair.y.list.element"))
    assert result["k"] is (rows < 20_000)


def packed_columns(data: pa.Buffer) -> set[str]:
    """Returns which columns of the first row group are kept as differences, by their paths."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema for column in columns if "DELTA_BINARY_PACKED" in column.encodings}


def test_integers_that_hardly_repeat_are_kept_as_differences() -> None:
    rows, random = 40_000, np.random.default_rng(1)
    ordered, mixed = np.arange(rows), random.permutation(rows)
    extremes = np.array([-(2**63), 2**63 - 1, 0, -1])
    packed = {
        "k": pa.array(mixed, pa.int64(), mask=mixed == 7),
        "int": pa.array(mixed, pa.int32()),
        "unsigned": pa.array(mixed, pa.uint64()),
        "seq": pa.array(ordered, pa.int64()),
        "time": pa.array(1_700_000_000_000_000 + ordered, pa.timestamp("us", "UTC")),
        "of day": pa.array(ordered, pa.time64("us")),
        "day": pa.array(ordered.astype(np.int32), pa.date32()),
        "far apart": pa.array(np.concatenate([ordered[:-4], extremes]), pa.int64()),
    }
    others = {
        "key_group": pa.array(np.sort(ordered % 128), pa.int32()),
        "random": pa.array(random.integers(-(2**63), 2**63, rows, endpoint=False), pa.int64()),
        "few": pa.array(ordered % 100, pa.int64()),
        "real": pa.array(random.random(rows)),
        "text": [f"value {number}" for number in mixed.tolist()],
        "a": [{"b": f"value {number}"} for number in mixed.tolist()],
        "a.b": pa.array(ordered, pa.int64()),  # also the path of the field above
    }
    table = pa.table({**others, **packed})

    data, described = encode_parquet(table)

    assert packed_columns(data) == set(packed)
    assert pq.read_table(pa.BufferReader(data)).equals(table)
    assert encode_parquet(table)[0].equals(data), "the same table is the same file"
    assert _bounds(data, "int") == (0, rows - 1), "readers still skip row groups by them"
    storage = MemoryStorage()
    storage.put_exclusive("f.parquet", data)
    some = read_parquet(storage, _handle(described, [0, 127]), 3, 5)
    assert some is not None
    assert some.equals(table.filter(pc.is_in(table["key_group"], pa.array([3, 4, 5], pa.int32()))))


def _bounds(data: pa.Buffer, column: str) -> tuple[object, object]:
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    [result] = [one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == column]
    return result.statistics.min, result.statistics.max
