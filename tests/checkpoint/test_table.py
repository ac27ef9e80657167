"""Rows of `_checkpoints` are what was written, or a named error; so is the base that one of them names."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, decode_rows, encode_rows
from state_engine.errors import DamagedFileError, DamagedManifestError
from state_engine.log.documents import encode_base
from state_engine.log.lineage import predecessor_of
from state_engine.log.paths import CHECKPOINTS, base_path
from state_engine.log.records import Base, BaseReference
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.open_access import open_tables
from state_engine.storage.state_reader import history_of, read_base
from state_engine.testing.sample_jobs import sample_job

ROW = CheckpointRow(
    id="1", kind="checkpoint", checkpoint_id=1, status="completed", generation=1, epoch=7, manifest="hash",
    triggered_at=1, completed_at=2, duration_ms=1,
)  # fmt: skip


@pytest.mark.parametrize("every", [41, pytest.param(1, marks=pytest.mark.long)])
def test_a_flipped_bit_anywhere_is_an_error(every: int) -> None:
    storage = MemoryStorage()
    table = CheckpointTable(storage, open_tables(storage))
    table.append([ROW], app_id="test", version=1)
    [path] = [info.path for info in storage.list(CHECKPOINTS) if info.path.endswith(".parquet")]
    data, name = storage.get(path), path.rpartition("/")[2]
    assert table.read(name) == [ROW]
    for place in range(0, len(data) * 8, every):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        storage.objects[path] = bytes(flipped), 0
        with pytest.raises(DamagedFileError, match=name):
            table.read(name)


@pytest.mark.parametrize(("count", "codec"), [(1, "UNCOMPRESSED"), (100, "ZSTD")])
def test_a_file_of_few_rows_is_not_compressed(count: int, codec: str) -> None:
    rows = [replace(ROW, id=str(number)) for number in range(count)]
    _, data = encode_rows(rows)
    assert pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0).compression == codec
    assert list(decode_rows(data.to_pybytes())) == rows


def test_a_table_that_another_tool_compacted_has_no_digests_to_compare() -> None:
    storage = MemoryStorage()
    table = CheckpointTable(storage, open_tables(storage))
    table.append([ROW], app_id="test", version=1)
    [path] = [info.path for info in storage.list(CHECKPOINTS) if info.path.endswith(".parquet")]
    storage.objects[f"{CHECKPOINTS}/part-00000-compacted.snappy.parquet"] = storage.objects[path]
    assert table.read("part-00000-compacted.snappy.parquet") == [ROW]


@pytest.mark.parametrize("wrong", [{"epoch": 4}, {"generation": 2}])
def test_a_base_is_not_taken_for_that_of_another_epoch(wrong: dict[str, int]) -> None:
    storage, base = MemoryStorage(), Base(
        job="job", generation=1, epoch=5, checkpoint_id=1, manifest="hash", full=True, files=()
    )  # fmt: skip
    data, checksum = encode_base(base)
    path = base_path(1, 5, "id")
    storage.put_exclusive(path, data)
    reference = BaseReference(path=path, checksum=checksum, generation=1, epoch=5, checkpoint_id=1)
    assert read_base(storage, reference) == base
    with pytest.raises(DamagedFileError, match="but its reference names epoch"):
        read_base(storage, replace(reference, **wrong))


def test_a_history_begins_where_its_base_ends() -> None:
    job = sample_job("memory://history")
    sealed = [job.epoch() for _ in range(3)]
    manifests = [stored.manifest for stored in sealed]
    base = Base(
        job=job.job, generation=1, epoch=manifests[0].epoch, checkpoint_id=1, manifest=sealed[0].hash, full=True,
        files=(),
    )  # fmt: skip
    assert predecessor_of(manifests[1]) is not None
    assert len(history_of(base, job.job, manifests[1:], lambda _: job.storage)) == 1
    for wrong in (manifests, manifests[2:]):
        with pytest.raises(DamagedManifestError, match="follows the manifest"):
            history_of(base, job.job, wrong, lambda _: job.storage)
