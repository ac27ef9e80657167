"""Envelope, paths, lineage and the columns of the log."""

import hashlib
import json

import pyarrow as pa
import pytest

from state_engine.errors import (
    DamagedFileError,
    DamagedManifestError,
    NothingToRestoreError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from state_engine.log import ops, paths
from state_engine.log.documents import decode_base, decode_pin, encode_pin
from state_engine.log.lineage import contains, fork_lineage, generation_of, predecessor_of
from state_engine.log.manifest import decode_manifest, encode_manifest
from state_engine.log.records import Manifest, Origin, Pin, Span, StateSchema
from state_engine.serialization.column import Column
from state_engine.serialization.types import ddl_to_arrow

LINE = (Span(generation=1, first=1, last=5), Span(generation=2, first=6, last=8), Span(generation=4, first=9))


def _manifest(**changes: object) -> Manifest:
    fields: dict[str, object] = {
        "job": "j",
        "generation": 1,
        "epoch": 2,
        "kind": "idle",
        "incarnation": "i",
        "incarnation_number": 1,
        "predecessor": "p",
        "processing_time": 5,
        "lineage": (Span(generation=1, first=1),),
    }
    return Manifest(**(fields | changes))  # type: ignore[arg-type]


def _pin() -> Pin:
    return Pin(
        savepoint_id="s",
        job="j",
        generation=1,
        epoch=1,
        manifest="m",
        base=None,
        manifests=(),
        handles=(),
        created_at=1,
    )


def test_a_document_is_plain_json_with_the_hash_of_its_body() -> None:
    data, digest = encode_manifest(_manifest(inlined={"x": b"\xff"}))
    document = json.loads(data)
    body = data[data.index(b'"body":') + len(b'"body":') : -1]
    assert hashlib.sha256(body).hexdigest() == digest
    assert document["checksum"] == f"sha256:{digest}"
    assert (document["format"], document["version"]) == ("lakestate.manifest", 1)
    assert document["body"]["inlined"] == {"x": "/w=="}


def test_one_format_is_not_taken_for_another() -> None:
    with pytest.raises(DamagedFileError, match=r"here\.json is a 'lakestate.pin' document, expected 'lakestate.base'"):
        decode_base(encode_pin(_pin())[0], path="here.json")


def test_a_field_that_we_do_not_know_comes_from_another_release() -> None:
    body = encode_pin(_pin())[0].split(b'"body":')[1][:-1].replace(b'"job":"j"', b'"job":"j","colour":"red"')
    checksum = hashlib.sha256(body).hexdigest()
    data = b'{"format":"lakestate.pin","version":1,"checksum":"sha256:%s","body":%s}' % (checksum.encode(), body)
    with pytest.raises(UnsupportedVersionError, match=r"another release.*colour"):
        decode_pin(data)


def test_both_versions_are_named() -> None:
    data = encode_manifest(_manifest())[0].replace(b'"version":1', b'"version":3')
    with pytest.raises(UnsupportedVersionError, match=r"x\.json has version 3 .* reads version 1"):
        decode_manifest(data, path="x.json")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\x00" * 10, b'{"format":"lakestate.manifest"}'])
def test_other_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedManifestError, match="What to do"):
        decode_manifest(data)


def test_white_space_is_damage() -> None:
    data = encode_manifest(_manifest())[0]
    for changed in (data + b"\n", b" " + data, data.replace(b',"body":', b', "body":')):
        with pytest.raises(DamagedManifestError, match="checksum"):
            decode_manifest(changed)


def test_paths() -> None:
    assert paths.manifest_path(1, 42) == "_epochs/g000001/e0000000042.json"
    assert paths.change_path(1, 42, "u.i-d", 3, "a") == "_epochs/g000001/changes/e0000000042-u.i-d-3-a.arrow"
    assert paths.output_path(1, 42, "u", 3, "a", "late") == "_epochs/g000001/changes/e0000000042-u-3-a-late.parquet"
    assert paths.base_path(12, 42, "id") == "_epochs/g000012/bases/e0000000042-id.json"
    assert paths.pin_path("sp") == "_savepoints/sp/pin.json"
    assert paths.table_path("u", "s") == "u/s"
    assert paths.operator_table_path("u", "s") == "_operator/u/s"


def test_no_file_has_a_longer_name_than_file_systems_take() -> None:
    """Operators, sinks and states have names of up to 128 characters."""
    uid, sink, attempt = "u" * 128, "s" * 128, "f" * 32
    used_names = [
        paths.output_path(1_000_000, 10**11, uid, 32_767, attempt, sink),
        paths.output_path(1_000_000, 10**11, uid, 32_767, attempt, f"{sink[:-1]}t"),
        paths.output_path(1_000_000, 10**11, f"{uid[:-1]}v", 32_767, attempt, sink),
        paths.change_path(1_000_000, 10**11, uid, 32_767, attempt),
    ]
    assert len(set(used_names)) == 4
    assert all(len(part) <= 255 for path in used_names for part in path.split("/"))
    assert [paths.parse_beside_manifest(path) for path in used_names] == [(1_000_000, 10**11)] * 4


@pytest.mark.parametrize(("generation", "epoch"), [(1, 1), (999_999, 9_999_999_999), (1_234_567, 12_345_678_901)])
def test_manifest_paths_are_parsed_back(generation: int, epoch: int) -> None:
    assert paths.parse_manifest_path(paths.manifest_path(generation, epoch)) == (generation, epoch)
    assert paths.parse_generation_folder(paths.generation_folder(generation).partition("/")[2]) == generation


@pytest.mark.parametrize(
    "path",
    [
        "_epochs/g000001/e0000000042.json.tmp",
        "_epochs/g000001/changes/e0000000042.json",
        "_epochs/g000001/e42.json",
        "_epochs/g0000001/e0000000042.json",
        "_epochs/g000001/e00000000042.json",
        "x/_epochs/g000001/e0000000042.json",
        paths.base_path(1, 1, "b"),
        paths.change_path(1, 1, "u", 0, "a"),
    ],
)
def test_other_paths_are_no_manifests(path: str) -> None:
    assert paths.parse_manifest_path(path) is None


def test_an_epoch_belongs_to_one_generation_of_a_line() -> None:
    assert [generation_of(LINE, epoch) for epoch in (0, 1, 5, 6, 8, 9, 99)] == [None, 1, 1, 2, 2, 4, 4]
    assert contains(LINE, 2, 7)
    assert not contains(LINE, 1, 7)


def test_a_fork_abandons_what_comes_after_it() -> None:
    assert fork_lineage(LINE, 10, 5) == (*LINE[:2], Span(generation=4, first=9, last=10), Span(generation=5, first=11))
    assert fork_lineage(LINE, 6, 5) == (
        LINE[0],
        Span(generation=2, first=6, last=6),
        Span(generation=5, first=7),
    )
    assert fork_lineage(LINE, 5, 5) == (LINE[0], Span(generation=5, first=6))
    with pytest.raises(NothingToRestoreError, match="Epoch 0"):
        fork_lineage(LINE, 0, 5)


def test_predecessors() -> None:
    assert predecessor_of(_manifest(predecessor="", epoch=1)) is None
    assert predecessor_of(_manifest()) == ("j", 1, 1)
    assert predecessor_of(_manifest(generation=4, epoch=12, lineage=LINE)) == ("j", 4, 11)
    assert predecessor_of(_manifest(generation=4, epoch=9, lineage=LINE)) == ("j", 2, 8)
    origin = Origin(job="other", generation=7, epoch=8, manifest="p")
    assert predecessor_of(_manifest(generation=4, epoch=9, lineage=LINE, origin=origin)) == ("other", 7, 8)
    assert predecessor_of(_manifest(generation=4, epoch=10, lineage=LINE, origin=origin)) == ("j", 4, 9)


def test_a_manifest_that_contradicts_itself_is_damaged() -> None:
    origin = Origin(job="j", generation=2, epoch=8, manifest="another hash")
    with pytest.raises(DamagedManifestError, match="its origin has the hash"):
        predecessor_of(_manifest(generation=4, epoch=9, lineage=LINE, origin=origin))
    with pytest.raises(DamagedManifestError, match="does not reach epoch 1"):
        predecessor_of(_manifest(lineage=(Span(generation=1, first=2),)))


def _schema(key: str = "k", shape: str = "value", user_key: str | None = None) -> StateSchema:
    return StateSchema(
        schema_id="i",
        uid="u",
        kind="keyed",
        name="n",
        shape=shape,  # type: ignore[arg-type]
        key=(Column(name=key, type="bigint"),),
        user_key=user_key,
        value="string",
    )


def test_columns_of_the_log() -> None:
    names = ["key_group", "k", "namespace", "value", "op", "seq", "last_access"]
    assert ops.log_schema(_schema(), ddl_to_arrow).names == names
    of_map = ops.log_schema(_schema(shape="map", user_key="date"), ddl_to_arrow, position=True)
    assert of_map.names == [*names[:3], "user_key", "value", "op", "position", "seq", "last_access"]
    assert of_map.field("user_key").type == pa.date32()
    assert ops.table_schema(_schema(), ddl_to_arrow).field("op").type == pa.string()


@pytest.mark.parametrize("name", ["op", "Value", "KEY_GROUP", "last_access"])
def test_a_key_column_cannot_have_a_name_of_the_log(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="Rename it"):
        ops.log_schema(_schema(key=name), ddl_to_arrow)


def test_ops_by_name_and_by_code() -> None:
    schema = ops.log_schema(_schema(), ddl_to_arrow)
    rows = [{"key_group": 1, "op": int(op), "seq": 1} for op in ops.Op]
    table = pa.Table.from_pylist(rows, schema=schema)
    named = ops.ops_to_names(ops.with_position(table, 7))
    assert named.schema == ops.table_schema(_schema(), ddl_to_arrow)
    assert named.column("op").to_pylist() == ["put", "append", "delete", "clear", "reset_group"]
    assert ops.ops_to_codes(named).drop_columns("position") == table
    assert ops.ops_to_names(named) is named
    assert ops.ops_to_codes(table) is table
    wrong = named.set_column(named.schema.get_field_index("op"), "op", pa.array(["put", "set", "x", "y", "z"]))
    with pytest.raises(DamagedFileError, match="none of"):
        ops.ops_to_codes(wrong)
