"""How a changed type changes the schema, and how rows of old types are read through it."""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from state_engine.api import ValueStateDescriptor
from state_engine.backends.schemas import state_schema
from state_engine.epoch.compatibility import Written, check_migrated, merge_schemas, written_of
from state_engine.errors import StateTypeChangedError
from state_engine.log.evolution import convert_rows, counts, evolve, types_of
from state_engine.log.manifest import decode_manifest, encode_manifest
from state_engine.log.ops import log_schema
from state_engine.log.records import Ack, Manifest, Section, Span, StateHandle, StateSchema, StateTtl
from state_engine.serialization.types import ddl_to_arrow, parse_columns

KEY = parse_columns("k string")


def schema(value: str, **aliases: str) -> StateSchema:
    descriptor = ValueStateDescriptor("s", value)
    for new, old in aliases.items():
        descriptor.with_alias(new, old)
    return state_schema("op", KEY, descriptor)


def migrated(old: str, new: str) -> StateSchema:
    return state_schema("op", KEY, ValueStateDescriptor("s", new).migrate_from(old, str))


def rows(value: str, *values: Any) -> pa.Table:
    target = log_schema(schema(value), ddl_to_arrow, position=True)
    table = [
        {"key_group": 1, "k": "a", "value": v, "op": 1, "position": 9, "seq": n, "last_access": 7}
        for n, v in enumerate(values)
    ]
    return pa.Table.from_pylist(table, target)


AB, AC, BC = schema("struct<a:int,b:int>"), schema("struct<a:int,c:int>", c="b"), schema("struct<b:int,c:int>", b="a")


def test_each_type_is_kept_with_its_last_epoch_and_what_was_said_then() -> None:
    known = merge_schemas(merge_schemas([AB], [AC], 5), [BC], 8)
    (state,) = known
    assert types_of(state) == (AB.value, AC.value, BC.value)
    assert [(f.until, f.schema_id, f.renamed) for f in state.former] == [
        (5, AB.schema_id, {"c": "b"}),
        (8, AC.schema_id, {"b": "a"}),
    ]
    assert (state.schema_id, state.declared) == (BC.schema_id, None)
    assert merge_schemas(known, [BC], 9) == known


def test_rows_go_through_every_type_since_they_were_written() -> None:
    state = evolve(evolve(AB, AC, 5), BC, 8)
    old = rows(AB.value, {"a": 1, "b": 2}, None)
    assert convert_rows(state, old, 5).column("value").to_pylist() == [{"b": 1, "c": 2}, None]
    middle = rows(AC.value, {"a": 1, "c": 2})
    for epoch in (6, 8):
        assert convert_rows(state, middle, epoch).column("value").to_pylist() == [{"b": 1, "c": 2}]
    assert convert_rows(state, rows(BC.value, {"b": 1, "c": 2}), 9).equals(rows(BC.value, {"b": 1, "c": 2}))
    assert convert_rows(state, old, 5).drop_columns(["value"]).equals(old.drop_columns(["value"]))


def test_a_field_that_went_and_came_back_is_a_new_one() -> None:
    state = evolve(evolve(AB, schema("struct<a:int>"), 5), AB, 8)
    assert state.schema_id == AB.schema_id
    assert convert_rows(state, rows(AB.value, {"a": 1, "b": 2}), 5).column("value").to_pylist() == [{"a": 1, "b": None}]
    assert convert_rows(state, rows(AB.value, {"a": 1, "b": 2}), 9).column("value").to_pylist() == [{"a": 1, "b": 2}]


def test_rows_of_a_type_that_was_not_there_then_are_damage() -> None:
    with pytest.raises(StateTypeChangedError, match="rows of struct<a:int,c:int> from epoch 5, when its type was"):
        convert_rows(evolve(AB, AC, 5), rows(AC.value, {"a": 1, "c": 2}), 5)


def test_another_layout_of_the_same_type_is_read() -> None:
    large = rows("string", "x", None)
    large = large.set_column(3, "value", large.column("value").cast(pa.large_string()))
    assert convert_rows(schema("string"), large, 1).column("value").type == pa.string()


def test_a_claim_judges_and_leaves_the_type() -> None:
    assert merge_schemas([AB], [AC], 5, claim=True) == (AB,)
    with_ttl = replace(AC, ttl=StateTtl(milliseconds=1))
    assert merge_schemas([AB], [with_ttl], 5, claim=True) == (replace(AB, ttl=with_ttl.ttl),)
    with pytest.raises(StateTypeChangedError, match="no field of the old type is left"):
        merge_schemas([AB], [schema("struct<x:int>")], 5, claim=True)


def test_what_has_to_stay() -> None:
    for change, says in (
        ({"shape": "list"}, "shape was value, is list"),
        ({"key": parse_columns("k bigint")}, "key was k string, is k bigint"),
        ({"namespace": "bigint"}, "namespace was None, is bigint"),
        ({"user_key": "string"}, "user key was None, is string"),
        ({}, "only its schema id"),
    ):
        with pytest.raises(StateTypeChangedError, match=rf"State 's' \(keyed\) of operator 'op' changed: {says}"):
            evolve(AB, replace(AB, schema_id="x", **change), 5)


def test_a_function_comes_before_the_rules_and_ends_what_was_before() -> None:
    state = evolve(schema("int"), migrated("int", "bigint"), 5)
    assert state.former[0].by_function
    assert [counts(state, epoch) for epoch in (4, 5, 6)] == [False, False, True]
    later = evolve(state, schema("decimal(20,0)"), 8)
    assert [counts(later, epoch) for epoch in (5, 6, 8, 9)] == [False, True, True, True]
    with pytest.raises(StateTypeChangedError, match=r"bigint, is string.*migrate_from\(\)"):
        evolve(schema("bigint"), migrated("int", "string"), 5)


def wrote(subtask: int, asked: StateSchema, *sections: StateSchema) -> Written:
    made = [Section(schema_id=s.schema_id, name=s.name, first=0, last=1, offset=0, length=1, rows=1) for s in sections]
    handle = StateHandle(path="p", length=1, checksum="c", rows=1, codec="zstd", sections=tuple(made))
    ack = Ack(uid="op", subtask=subtask, attempt="a", records_in=0, records_out=0, changes=handle, schemas=(asked,))
    return written_of(ack if sections else replace(ack, changes=None))


def test_a_migrated_state_must_be_written_by_all_subtasks_at_once() -> None:
    known, new = schema("int"), migrated("int", "string")
    check_migrated([known], [wrote(0, new, new), wrote(1, new, new)])
    check_migrated([new], [wrote(0, new), wrote(1, new)])
    check_migrated([known], [wrote(0, schema("bigint")), wrote(1, schema("bigint"))])
    for lacking in (wrote(1, new), wrote(1, new, known), wrote(1, known, known)):
        with pytest.raises(StateTypeChangedError, match=r"only 1 of 2 subtasks.*open\(\)"):
            check_migrated([known], [wrote(0, new, new), lacking])


def test_manifests_keep_former_types_and_nothing_for_states_that_never_changed() -> None:
    manifest = Manifest(
        job="j", generation=1, epoch=6, kind="epoch", incarnation="i", incarnation_number=1, predecessor="",
        processing_time=1, lineage=(Span(generation=1, first=1),), schemas=(AB,),
    )  # fmt: skip
    assert b"former" not in encode_manifest(manifest)[0]
    assert b"declared" not in encode_manifest(manifest)[0]
    defaulted = state_schema("op", KEY, ValueStateDescriptor("s", "struct<a:int,d:string>").with_default("d", "x"))
    changed = replace(manifest, schemas=(evolve(AB, defaulted, 5),))
    assert decode_manifest(encode_manifest(changed)[0]).manifest == changed
