"""The bytes of every format, as released. Run this file as a program to write new ones, and say so to the reader.

Longer than 500 lines because all formats share the records that these files are made of.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from state_engine.errors import CorruptionError
from state_engine.log.birth import Birth, decode_birth, encode_birth
from state_engine.log.change_file import ChangeFileHeader, checksum_of, encode_change_file, verify_change_file
from state_engine.log.documents import (
    decode_base,
    decode_pin,
    decode_reference,
    decode_savepoint,
    encode_base,
    encode_pin,
    encode_reference,
    encode_savepoint,
)
from state_engine.log.manifest import decode_manifest, encode_manifest
from state_engine.log.ops import log_schema, with_position
from state_engine.log.records import (
    Ack,
    Adopted,
    Base,
    BaseReference,
    Codec,
    FormerType,
    Manifest,
    OperatorEpoch,
    Origin,
    OutputFile,
    Pin,
    SinkTable,
    Span,
    StateFile,
    StateHandle,
    StateSchema,
    StateStatistics,
    Successor,
    TableVersion,
)
from state_engine.log.savepoints import CanonicalSavepoint, SavepointReference, SavepointTable
from state_engine.log.source_records import SourceFile, SourceFingerprint, SourcePosition
from state_engine.log.state_stream import StreamEncoder, StreamHeader, decode_blocks, verify_state_stream
from state_engine.serialization.column import Column
from state_engine.serialization.types import ddl_to_arrow

GOLDEN = Path(__file__).parent / "golden"

HEADER = ChangeFileHeader(
    job="flights", generation=2, epoch=42, uid="delays", subtask=1, attempt="a1b2", max_parallelism=128
)
COUNTS = StateSchema(
    schema_id="11aa",
    uid="delays",
    kind="keyed",
    name="count",
    shape="value",
    key=(Column(name="carrier", type="string"),),
    value="bigint",
)
ROUTES = StateSchema(
    schema_id="22bb",
    uid="delays",
    kind="keyed",
    name="routes",
    shape="map",
    key=(Column(name="carrier", type="string"),),
    user_key="struct<from:string,to:string>",
    value="double",
)
COUNT_ROWS = [
    {"key_group": 64, "carrier": "UA", "value": 3, "op": 1, "seq": 0, "last_access": 1_700_000_000_000},
    {"key_group": 70, "carrier": None, "value": None, "op": 1, "seq": 3, "last_access": None},
    {"key_group": 99, "carrier": "DL", "value": None, "op": 3, "seq": 1, "last_access": None},
]
ROUTE_ROWS = [
    {"key_group": 64, "carrier": "UA", "user_key": None, "value": None, "op": 4, "seq": 4, "last_access": None},
    {
        "key_group": 64,
        "carrier": "UA",
        "user_key": {"from": "EWR", "to": "IAH"},
        "value": 1.5,
        "op": 1,
        "seq": 5,
        "last_access": 1_700_000_000_001,
    },
]


def _rows(schema: StateSchema, rows: list[dict[str, object]]) -> pa.Table:
    full = [{"namespace": None} | row for row in rows]
    return pa.Table.from_pylist(full, schema=log_schema(schema, ddl_to_arrow))


def _change_file(codec: Codec) -> tuple[bytes, StateHandle]:
    states = [(COUNTS, _rows(COUNTS, COUNT_ROWS)), (ROUTES, _rows(ROUTES, ROUTE_ROWS))]
    parts, sections, checksum, length = encode_change_file(HEADER, states, codec, block_rows=2)
    handle = StateHandle(
        path="_epochs/g000002/changes/e0000000042-delays-1-a1b2.arrow",
        length=length,
        checksum=checksum,
        rows=5,
        codec=codec,
        sections=sections,
    )
    return b"".join(memoryview(part) for part in parts), handle


BIRTH = Birth(job="flights", birth_id="5e" * 16, born_at=1_700_000_000_000)
BASE_REFERENCE = BaseReference(
    path="_epochs/g000001/bases/e0000000040-77.json", checksum="0f" * 32, generation=1, epoch=40, checkpoint_id=7
)


def _manifest() -> Manifest:
    ack = Ack(
        uid="delays",
        subtask=1,
        attempt="a1b2",
        records_in=100,
        records_out=3,
        changes=_change_file("none")[1],
        outputs=(
            OutputFile(
                output="main",
                path="part-1.parquet",
                in_table=True,
                length=99,
                checksum="xxh3:" + "ab" * 16,
                rows=3,
                statistics='{"numRecords":3}',
            ),
        ),
        schemas=(COUNTS, ROUTES),
        statistics=(StateStatistics(name="count", rows=2, keys=2),),
        earliest_timer=1_700_000_100_000,
        timings_ms={"process": 12.5},
    )
    return Manifest(
        job="flights",
        generation=2,
        epoch=42,
        kind="epoch",
        incarnation="5e" * 16,
        incarnation_number=3,
        predecessor="cd" * 32,
        processing_time=1_700_000_000_002,
        lineage=(Span(generation=1, first=1, last=41), Span(generation=2, first=42)),
        watermarks={"flights": 1_699_999_999_000},
        fingerprints=(SourceFingerprint(kind="parquet", path="/data/in", options={"maxFilesPerTrigger": "2"}),),
        source_metadata='{"batchWatermarkMs":0}',
        sources=(
            SourcePosition(offset='{"logOffset":3}', new_files=(SourceFile(path="/data/in/ü.parquet", timestamp=1),)),
        ),
        operators={
            "delays": OperatorEpoch(parallelism=2, max_parallelism=128, acks=(ack,)),
            "idle": OperatorEpoch(parallelism=1, max_parallelism=128),
        },
        schemas=(COUNTS, ROUTES),
        keys={"delays": (Column(name="carrier", type="string"),)},
        inlined={"_epochs/g000002/changes/e0000000042-idle-0-c3d4.arrow": b"\x00\xff inlined"},
        base=BASE_REFERENCE,
        checkpoint_id=8,
        origin=Origin(job="flights", generation=1, epoch=41, manifest="cd" * 32, savepoint_id="sp-1"),
        successor=Successor(
            generation=3, origin=Origin(job="flights", generation=2, epoch=42, manifest="ef" * 32), parallelism=4
        ),
    )


def _inlined() -> Manifest:
    """The changes of two states are inlined in the manifest; there is no change file."""
    data, handle = _change_file("none")
    ack = Ack(uid="delays", subtask=1, attempt="a1b2", records_in=7, records_out=5, changes=handle)
    operator = OperatorEpoch(parallelism=1, max_parallelism=128, acks=(ack,))
    return replace(_manifest(), operators={"delays": operator}, inlined={handle.path: data})


def _closing() -> Manifest:
    """As `_manifest`, of the release that records whether output is kept; the older file has no such field."""
    manifest = _manifest()
    assert manifest.successor is not None
    return replace(manifest, kind="closing", successor=replace(manifest.successor, keep_output=True))


def _adopting() -> Manifest:
    """As `_closing`, of the release that can resume from the files of a canonical savepoint."""
    manifest = _closing()
    assert manifest.successor is not None
    reference = replace(BASE_REFERENCE, path="_restored/sp-1-abababababababab/base-g0.json", generation=0)
    successor = replace(
        manifest.successor,
        origin=replace(manifest.successor.origin, savepoint_id="sp-1", imported=True),
        adopted=Adopted(base=reference, manifest_path="_restored/sp-1-abababababababab/epoch.json"),
    )
    return replace(manifest, successor=successor)


def _adopting_sinks() -> Manifest:
    """As `_closing`, of the release that can take over tables of another log."""
    manifest = _closing()
    assert manifest.successor is not None
    return replace(manifest, successor=replace(manifest.successor, adopt_sinks=True))


def _resetting() -> Manifest:
    """As `_closing`, of the release that can begin a generation with the time of the clock."""
    manifest = _closing()
    assert manifest.successor is not None
    return replace(manifest, successor=replace(manifest.successor, reset_processing_time=True))


def _changed_sources() -> Manifest:
    """As `_closing`, of the release that goes on with sources that have changed, and with folders that have moved."""
    manifest = _closing()
    assert manifest.successor is not None
    moved = SourceFingerprint(kind="json", path="/data/new", options={"schema": "struct<n:int>"}, former=("/data/in",))
    successor = replace(manifest.successor, allow_changed_sources=(0, 2))
    return replace(manifest, fingerprints=(moved,), successor=successor)


def _with_sinks() -> Manifest:
    """As `_manifest`, of the release that records the sinks; the older files have no such field."""
    return replace(
        _manifest(),
        sinks=(
            SinkTable(uid="main", kind="delta", table="/data/out/old"),
            SinkTable(uid="main", kind="delta", table="s3://bucket/out"),
            SinkTable(uid="rows", kind="memory", table="rows"),
            SinkTable(uid="told", kind="foreach"),
        ),
    )


def _partitioned() -> Manifest:
    """As `_manifest`, of the release that divides tables by columns; the older files have no such field."""
    manifest = _manifest()
    operator = manifest.operators["delays"]
    [ack] = operator.acks
    by_day = replace(ack.outputs[0], path="day=2026-11-30/part-1.parquet", partition={"day": "2026-11-30", "k": None})
    table = SinkTable(uid="main", kind="delta", table="/data/out", options={"partition_by": '["day","k"]'})
    divided = replace(operator, acks=(replace(ack, outputs=(by_day,)),))
    return replace(manifest, operators={**manifest.operators, "delays": divided}, sinks=(table,))


def _with_operator_state() -> Manifest:
    """An epoch at the end of the input, with operator state, broadcast state and notifications of functions."""
    manifest = _manifest()
    operator = manifest.operators["delays"]
    schemas = (
        StateSchema(schema_id="33cc", uid="delays", kind="operator", name="held", shape="list", value="bigint"),
        StateSchema(
            schema_id="44dd",
            uid="delays",
            kind="broadcast",
            name="rules",
            shape="map",
            user_key="string",
            value="double",
        ),
    )
    acks = tuple(replace(ack, broadcast={"rules": "0f" * 16}) for ack in operator.acks)
    return replace(
        manifest,
        snapshot_id=8,
        schemas=(*manifest.schemas, *schemas),
        operators={"delays": replace(operator, acks=acks, since=3, finished=True)},
    )


def _evolved() -> Manifest:
    """As `_manifest`, of the release that records former types; the older files have no such field."""
    renamed = FormerType(
        until=7,
        schema_id="00ff",
        value="struct<cost:int>",
        renamed={"price": "cost"},
        defaults={"currency": b"\xff\xff\xff\xff an Arrow IPC stream"},
    )
    by_function = FormerType(until=20, schema_id="10aa", value="struct<price:int,currency:string>", by_function=True)
    return replace(_manifest(), schemas=(replace(COUNTS, former=(renamed, by_function)), ROUTES))


def _rescaled() -> Manifest:
    """As `_manifest`, of the release that records from which parallelism a running job was rescaled."""
    manifest = _manifest()
    operator = replace(manifest.operators["delays"], parallelism=4, rescaled_from=2)
    return replace(manifest, operators={**manifest.operators, "delays": operator})


def _base() -> Base:
    return Base(
        job="flights",
        generation=1,
        epoch=40,
        checkpoint_id=7,
        manifest="ab" * 32,
        full=True,
        files=(
            StateFile(
                schema_id="11aa",
                path="delays/count/e0000000040-0-127.parquet",
                length=1234,
                checksum="xxh3:" + "12" * 16,
                rows=5,
                first=0,
                last=127,
                generation=1,
                max_parallelism=128,
                codec="zstd",
                row_groups=((0, 64, 3), (65, 127, 2)),
            ),
        ),
        tables=(TableVersion(path="delays/count", version=4),),
        source_files=((SourceFile(path="/data/in/a.parquet", timestamp=1_700_000_000_000),),),
        schemas=(COUNTS,),
    )


def _stream(codec: Codec) -> tuple[bytes, StreamEncoder]:
    header = StreamHeader(generation=1, uid="delays", state="count", schema_id="11aa", max_parallelism=128, codec=codec)
    encoder = StreamEncoder(header, with_position(_rows(COUNTS, COUNT_ROWS), 40))
    return b"".join(encoder.encoded()), encoder


def _base_of_streams() -> Base:
    """As `_base`, of the release that has several checkpoint storages; the older file has no such fields."""
    data, encoder = _stream("none")
    file = replace(
        _base().files[0],
        path=f"delays/count/part-g000001-e0000000040-full-00000-00127.{'5e' * 16}.stream",
        length=len(data),
        checksum=checksum_of(data),
        rows=3,
        first=64,
        last=99,
        codec="none",
        row_groups=tuple((block.key_group, block.key_group, block.rows) for block in encoder.blocks),
        format="stream",
        spans=tuple((block.offset, block.length) for block in encoder.blocks),
    )
    layer = f"delays/count/part-g000001-e0000000041-from-e0000000040-00000-00127.{'6f' * 16}.stream"
    files = (file, replace(file, path=layer, inlined=data))
    return replace(_base(), files=files, tables=(), storage="filesystem")


def _pin() -> Pin:
    return Pin(
        savepoint_id="sp-1",
        job="flights",
        generation=2,
        epoch=42,
        manifest="ab" * 32,
        base=BASE_REFERENCE,
        manifests=(("_epochs/g000001/e0000000041.json", "cd" * 32), ("_epochs/g000002/e0000000042.json", "ab" * 32)),
        handles=(("delays/count/e0000000040-0-127.parquet", 1234),),
        created_at=1_700_000_000_003,
        label="before the upgrade",
        bytes=4321,
        rows=10,
    )


def _savepoint() -> CanonicalSavepoint:
    sealed, digest = encode_manifest(replace(_manifest(), inlined={}))
    [file] = _base().files
    tables = (
        SavepointTable(
            schema=COUNTS,
            path="delays/count",
            max_parallelism=128,
            ranges=((0, 127, 5),),
            files=(replace(file, path="delays/count/part-77-00000-00127.parquet", generation=2),),
        ),
        SavepointTable(schema=ROUTES, path="delays/routes", max_parallelism=128, ranges=((0, 127, 0),)),
    )
    return CanonicalSavepoint(
        savepoint_id="sp-1",
        job="flights",
        generation=2,
        epoch=42,
        manifest=digest,
        sealed=msgspec.Raw(sealed),
        tables=tables,
        source_files=_base().source_files,
        created_at=1_700_000_000_003,
        label="before the upgrade",
        bytes=1234,
        rows=5,
    )


REFERENCE = SavepointReference(
    savepoint_id="sp-1", job="flights", root="/data/state", manifest="ab" * 32, relocatable=False, note="It lies there."
)

ENCODED: dict[str, Callable[[], bytes]] = {
    "manifest.json": lambda: encode_manifest(_manifest())[0],
    "closing.json": lambda: encode_manifest(_closing())[0],
    "adopting-sinks.json": lambda: encode_manifest(_adopting_sinks())[0],
    "changed-sources.json": lambda: encode_manifest(_changed_sources())[0],
    "birth.json": lambda: encode_birth(BIRTH),
    "inlined.json": lambda: encode_manifest(_inlined())[0],
    "sinks.json": lambda: encode_manifest(_with_sinks())[0],
    "partitioned.json": lambda: encode_manifest(_partitioned())[0],
    "evolved.json": lambda: encode_manifest(_evolved())[0],
    "operator_state.json": lambda: encode_manifest(_with_operator_state())[0],
    "rescaled.json": lambda: encode_manifest(_rescaled())[0],
    "base.json": lambda: encode_base(_base())[0],
    "base-of-streams.json": lambda: encode_base(_base_of_streams())[0],
    "pin.json": lambda: encode_pin(_pin())[0],
    "resetting.json": lambda: encode_manifest(_resetting())[0],
    "adopting.json": lambda: encode_manifest(_adopting())[0],
    "savepoint.json": lambda: encode_savepoint(_savepoint())[0],
    "savepoint-reference.json": lambda: encode_reference(REFERENCE),
    "changes-none.arrow": lambda: _change_file("none")[0],
    "state-none.stream": lambda: _stream("none")[0],
}
DECODERS: dict[str, Callable[[bytes], object]] = {
    "manifest.json": lambda data: decode_manifest(data).manifest,
    "closing.json": lambda data: decode_manifest(data).manifest,
    "adopting-sinks.json": lambda data: decode_manifest(data).manifest,
    "changed-sources.json": lambda data: decode_manifest(data).manifest,
    "birth.json": decode_birth,
    "inlined.json": lambda data: decode_manifest(data).manifest,
    "sinks.json": lambda data: decode_manifest(data).manifest,
    "partitioned.json": lambda data: decode_manifest(data).manifest,
    "evolved.json": lambda data: decode_manifest(data).manifest,
    "operator_state.json": lambda data: decode_manifest(data).manifest,
    "rescaled.json": lambda data: decode_manifest(data).manifest,
    "base.json": lambda data: decode_base(data).base,
    "base-of-streams.json": lambda data: decode_base(data).base,
    "pin.json": lambda data: decode_pin(data).pin,
    "resetting.json": lambda data: decode_manifest(data).manifest,
    "adopting.json": lambda data: decode_manifest(data).manifest,
    "savepoint.json": lambda data: decode_savepoint(data).savepoint,
    "savepoint-reference.json": decode_reference,
    "changes-none.arrow": verify_change_file,
    "changes-zstd.arrow": verify_change_file,
    "changes-lz4.arrow": verify_change_file,
    "state-none.stream": verify_state_stream,
    "state-zstd.stream": verify_state_stream,
}


@pytest.mark.parametrize("name", sorted(ENCODED))
def test_the_same_record_has_the_same_bytes(name: str) -> None:
    assert ENCODED[name]() == (GOLDEN / name).read_bytes()


def test_golden_documents_decode_to_their_records() -> None:
    assert decode_manifest((GOLDEN / "manifest.json").read_bytes()).manifest == _manifest()
    assert decode_manifest((GOLDEN / "closing.json").read_bytes()).manifest == _closing()
    assert decode_manifest((GOLDEN / "adopting-sinks.json").read_bytes()).manifest == _adopting_sinks()
    assert decode_manifest((GOLDEN / "changed-sources.json").read_bytes()).manifest == _changed_sources()
    assert decode_birth((GOLDEN / "birth.json").read_bytes()) == BIRTH
    assert decode_manifest((GOLDEN / "inlined.json").read_bytes()).manifest == _inlined()
    assert decode_manifest((GOLDEN / "sinks.json").read_bytes()).manifest == _with_sinks()
    assert decode_manifest((GOLDEN / "partitioned.json").read_bytes()).manifest == _partitioned()
    assert decode_manifest((GOLDEN / "evolved.json").read_bytes()).manifest == _evolved()
    assert decode_manifest((GOLDEN / "operator_state.json").read_bytes()).manifest == _with_operator_state()
    assert decode_manifest((GOLDEN / "rescaled.json").read_bytes()).manifest == _rescaled()
    assert decode_base((GOLDEN / "base.json").read_bytes()).base == _base()
    assert decode_base((GOLDEN / "base-of-streams.json").read_bytes()).base == _base_of_streams()
    assert decode_pin((GOLDEN / "pin.json").read_bytes()).pin == _pin()
    assert decode_manifest((GOLDEN / "resetting.json").read_bytes()).manifest == _resetting()
    assert decode_manifest((GOLDEN / "adopting.json").read_bytes()).manifest == _adopting()
    assert decode_savepoint((GOLDEN / "savepoint.json").read_bytes()).savepoint == _savepoint()
    assert decode_reference((GOLDEN / "savepoint-reference.json").read_bytes()) == REFERENCE


@pytest.mark.parametrize("name", ["manifest.json", "closing.json", "sinks.json", "base.json", "pin.json"])
def test_golden_documents_encode_back_to_their_bytes(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    encode: Callable[..., tuple[bytes, str]] = {
        "manifest.json": encode_manifest,
        "closing.json": encode_manifest,
        "sinks.json": encode_manifest,
        "base.json": encode_base,
        "pin.json": encode_pin,
    }[name]
    assert encode(DECODERS[name](data))[0] == data


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_golden_change_files_hold_their_rows(codec: Codec) -> None:
    from state_engine.log.change_file import read_state

    data = (GOLDEN / f"changes-{codec}.arrow").read_bytes()
    header, footer = verify_change_file(data)
    assert (header, footer.codec, len(footer.sections)) == (HEADER, codec, 3)
    handle = StateHandle(
        path="golden", length=len(data), checksum=checksum_of(data), rows=5, codec=codec, sections=footer.sections
    )
    for schema, rows in ((COUNTS, COUNT_ROWS), (ROUTES, ROUTE_ROWS)):
        found = read_state(lambda at, length: data[at : at + length], handle, schema.schema_id, 0, 127)
        assert found is not None
        assert found.equals(_rows(schema, rows))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_golden_state_streams_hold_their_rows(codec: Codec) -> None:
    data = (GOLDEN / f"state-{codec}.stream").read_bytes()
    header, blocks = verify_state_stream(data)
    assert (header.uid, header.codec) == ("delays", codec)
    parts = [(block.key_group, block.rows, data[block.offset : block.offset + block.length]) for block in blocks]
    found = decode_blocks(data[: blocks[0].offset], parts)
    assert found.equals(with_position(_rows(COUNTS, COUNT_ROWS), 40))


@pytest.mark.parametrize("name", sorted(DECODERS))
@given(st.data())
def test_a_changed_byte_anywhere_is_detected(name: str, data: st.DataObject) -> None:
    golden = (GOLDEN / name).read_bytes()
    position = data.draw(st.integers(0, len(golden) - 1))
    flipped = data.draw(st.integers(1, 255))
    damaged = golden[:position] + bytes([golden[position] ^ flipped]) + golden[position + 1 :]
    with pytest.raises(CorruptionError):
        DECODERS[name](damaged)


@pytest.mark.parametrize("name", sorted(DECODERS))
@settings(max_examples=settings.default.max_examples // 4)
@given(st.data())
def test_a_cut_or_longer_file_is_detected(name: str, data: st.DataObject) -> None:
    golden = (GOLDEN / name).read_bytes()
    with pytest.raises(CorruptionError):
        DECODERS[name](golden[: data.draw(st.integers(0, len(golden) - 1))])
    with pytest.raises(CorruptionError):
        DECODERS[name](golden + data.draw(st.binary(min_size=1, max_size=9)))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, encoded in ENCODED.items():
        (GOLDEN / name).write_bytes(encoded())
    for other in ("zstd", "lz4"):
        (GOLDEN / f"changes-{other}.arrow").write_bytes(_change_file(other)[0])
    (GOLDEN / "state-zstd.stream").write_bytes(_stream("zstd")[0])
