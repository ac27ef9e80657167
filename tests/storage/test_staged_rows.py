"""Rows of staged files, read repeatedly."""

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state_engine.errors import DamagedFileError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.staged import StagedRows


def staged(storage: MemoryStorage, path: str, numbers: list[int]) -> OutputFile:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": numbers}), sink)
    data = sink.getvalue()
    storage.put_exclusive(path, data.to_pybytes())
    return OutputFile(
        output="out", path=path, in_table=False, length=data.size, checksum=checksum_of(data), rows=len(numbers)
    )


def test_rows_come_in_the_order_of_the_files_each_time_and_are_counted_without_reading() -> None:
    storage = MemoryStorage()
    rows = StagedRows(storage, [staged(storage, "a", [3, 1]), staged(storage, "b", [2])])
    for _ in range(2):
        assert [n for batch in rows for n in batch.column("n").to_pylist()] == [3, 1, 2]
    assert rows.table().column("n").to_pylist() == [3, 1, 2]
    assert rows.num_rows == 3


def test_a_damaged_file_ends_them() -> None:
    storage = MemoryStorage()
    good, bad = staged(storage, "a", [1]), staged(storage, "b", [2])
    rows = iter(StagedRows(storage, [good, msgspec.structs.replace(bad, checksum="xxh3:0")]))
    assert next(rows).num_rows == 1
    with pytest.raises(DamagedFileError, match="staged output b"):
        next(rows)
