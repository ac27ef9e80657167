"""The meaning of each op, one behaviour per test."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.errors import DamagedFileError
from state_engine.log import grouping
from state_engine.log.fold import coalesce, fold
from state_engine.log.grouping import codes_of
from state_engine.log.ops import Op, log_schema, ops_to_names
from state_engine.log.records import StateSchema
from state_engine.serialization.column import Column
from state_engine.serialization.types import ddl_to_arrow

PUT, APPEND, DELETE, CLEAR, RESET = Op
NANS = np.array([0x7FF8 << 48, (0xFFF8 << 48) + 1], np.uint64).view(np.float64).tolist()


def _schema(shape: Any, user_key: str | None = None) -> StateSchema:
    key = (Column(name="k", type="string"),)
    return StateSchema(
        schema_id="s", uid="u", kind="keyed", name="n", shape=shape, key=key, user_key=user_key, value="bigint"
    )


def _epoch(schema: StateSchema, position: int, *rows: tuple[Any, ...]) -> pa.Table:
    """Makes an epoch of rows (op, key, value), or for a map (op, key, user key, value); all in key group 1."""
    dictionaries = []
    for seq, (op, key, *rest) in enumerate(rows):
        row = {"key_group": 1, "k": key, "op": int(op), "position": position, "seq": seq, "last_access": position}
        if schema.user_key is not None and rest:
            row["user_key"] = rest[0]
        dictionaries.append(row | {"value": rest[-1] if rest else None})
    return pa.Table.from_pylist(dictionaries, schema=log_schema(schema, ddl_to_arrow, position=True))


def _found(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = ["op", "k", *(["user_key"] if "user_key" in table.column_names else []), "value"]
    return [(Op(row["op"]), *(row[name] for name in columns[1:])) for row in table.to_pylist()]


VALUE, LIST, MAP = _schema("value"), _schema("list"), _schema("map", "string")


def test_the_last_put_stays_with_its_own_position_and_last_access() -> None:
    rows = fold(VALUE, [_epoch(VALUE, 1, (PUT, "a", 1)), _epoch(VALUE, 2, (PUT, "a", 2), (PUT, "a", 3))])
    assert _found(rows) == [(PUT, "a", 3)]
    assert (rows["position"].to_pylist(), rows["seq"].to_pylist(), rows["last_access"].to_pylist()) == ([2], [1], [2])


def test_a_null_value_is_a_value_and_a_delete_is_not() -> None:
    assert _found(fold(VALUE, [_epoch(VALUE, 1, (PUT, "a", None), (PUT, "b", 1), (DELETE, "b"))])) == [(PUT, "a", None)]


def test_a_null_key_is_an_ordinary_key() -> None:
    rows = _epoch(VALUE, 1, (PUT, None, 1), (PUT, "", 2), (PUT, None, 3))
    assert sorted(_found(fold(VALUE, [rows])), key=repr) == [(PUT, "", 2), (PUT, None, 3)]


def test_a_reset_drops_what_came_before_in_its_group() -> None:
    rows = _epoch(VALUE, 1, (PUT, None, 1), (PUT, "a", 1), (RESET, None), (PUT, "a", 2))
    assert _found(fold(VALUE, [rows])) == [(PUT, "a", 2)]
    assert _found(coalesce(VALUE, [rows])) == [(RESET, None, None), (PUT, "a", 2)]


def test_a_delete_after_a_reset_has_nothing_to_delete() -> None:
    rows = _epoch(VALUE, 1, (RESET, None), (PUT, "a", 1), (DELETE, "a"))
    assert _found(coalesce(VALUE, [rows])) == [(RESET, None, None)]


def test_a_delete_stays_in_an_interval() -> None:
    rows = _epoch(VALUE, 5, (PUT, "a", 1), (DELETE, "a"))
    assert _found(fold(VALUE, [rows])) == []
    assert _found(coalesce(VALUE, [rows])) == [(DELETE, "a", None)]


def test_lists_keep_their_order_over_epochs_and_keys() -> None:
    rows = [_epoch(LIST, 2, (APPEND, "a", 3), (APPEND, "b", 9)), _epoch(LIST, 1, (APPEND, "a", 1), (APPEND, "a", 1))]
    folded = _found(fold(LIST, rows))
    assert [row for row in folded if row[1] == "a"] == [(APPEND, "a", 1), (APPEND, "a", 1), (APPEND, "a", 3)]
    keys = [key for _, key, _ in folded]
    assert keys in (["a", "a", "a", "b"], ["b", "a", "a", "a"])


def test_an_update_of_a_list_is_clear_and_appends() -> None:
    rows = [_epoch(LIST, 1, (APPEND, "a", 1)), _epoch(LIST, 2, (CLEAR, "a"), (APPEND, "a", 2), (APPEND, "a", None))]
    assert _found(fold(LIST, rows)) == [(APPEND, "a", 2), (APPEND, "a", None)]
    assert _found(coalesce(LIST, rows)) == [(CLEAR, "a", None), (APPEND, "a", 2), (APPEND, "a", None)]


def test_a_map_that_was_cleared_holds_what_was_put_since() -> None:
    rows = _epoch(MAP, 1, (PUT, "a", "x", 1), (DELETE, "a", "z", None), (CLEAR, "a"), (PUT, "a", "y", 2))
    assert _found(fold(MAP, [rows])) == [(PUT, "a", "y", 2)]
    assert _found(coalesce(MAP, [rows])) == [(CLEAR, "a", None, None), (PUT, "a", "y", 2)]


def test_a_null_user_key_is_an_entry() -> None:
    rows = _epoch(MAP, 1, (PUT, "a", None, 1), (PUT, "a", "x", None), (PUT, "a", None, 2), (DELETE, "a", "x", None))
    assert _found(fold(MAP, [rows])) == [(PUT, "a", None, 2)]


def test_rows_of_a_table_have_ops_by_name() -> None:
    base = ops_to_names(_epoch(VALUE, 1, (PUT, "a", 1), (PUT, "b", 1)))
    assert _found(fold(VALUE, [base, _epoch(VALUE, 2, (DELETE, "a"))])) == [(PUT, "b", 1)]


def test_states_without_keys_fold_by_group() -> None:
    schema = StateSchema(schema_id="s", uid="u", kind="operator", name="n", shape="list", value="bigint")
    rows = [
        {"key_group": group, "op": 2, "position": 1, "seq": seq, "value": seq} for seq, group in enumerate([1, 0, 1])
    ]
    table = pa.Table.from_pylist(rows, schema=log_schema(schema, ddl_to_arrow, position=True))
    assert fold(schema, [table])["value"].to_pylist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("schema", "op"), [(VALUE, APPEND), (VALUE, CLEAR), (LIST, PUT), (LIST, DELETE), (MAP, APPEND)]
)
def test_an_op_that_a_shape_does_not_have_is_damage(schema: StateSchema, op: Op) -> None:
    with pytest.raises(DamagedFileError, match=rf"op \[{int(op)}\]; a {schema.shape} state"):
        fold(schema, [_epoch(schema, 1, (op, "a"))])


def test_rows_without_a_position_are_refused() -> None:
    with pytest.raises(ValueError, match="with_position"):
        fold(VALUE, [_epoch(VALUE, 1, (PUT, "a", 1)).drop_columns("position")])
    with pytest.raises(ValueError, match="No tables to fold"):
        fold(VALUE, [])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 1, None, None], pa.int32()),
        (["a", "", None, "a"], pa.large_string()),
        ([0.0, -0.0, float("nan"), float("nan"), None], pa.float64()),
        ([0.0, -0.0, *NANS, None, 1.0], pa.float64()),
        ([{"x": -0.0}, {"x": 0.0}, *({"x": nan} for nan in NANS), None], pa.struct({"x": "float64"})),
        ([[-0.0], [0.0], *([nan] for nan in NANS)], pa.list_(pa.float64())),
        ([True, False, None, True], pa.bool_()),
        ([b"a", b"", None, b"a"], pa.binary()),
        (
            [{"x": 1, "y": None}, {"x": 1, "y": None}, None, {"x": None, "y": None}],
            pa.struct({"x": "int8", "y": "string"}),
        ),
        ([[1], [1, None], [], None, [1], []], pa.list_(pa.int64())),
        ([[("a", 1)], [], None, [("a", 1)], [("a", None)]], pa.map_(pa.string(), pa.int64())),
        ([[1, 2], None, [1, 2], [2, 1], [None, None]], pa.list_(pa.int64(), 2)),
        ([None, None], pa.null()),
        (["x", "y", "x"], pa.dictionary(pa.int8(), pa.string())),
    ],
)
def test_equal_rows_have_equal_numbers(values: list[Any], kind: pa.DataType) -> None:
    array = pa.array(values, kind)
    expected = [[_same(a, b) for b in values] for a in values]
    for given in (array, pa.concat_arrays([array, array]).slice(len(array)), pa.chunked_array([array[:1], array[1:]])):
        codes = codes_of(given).tolist()
        assert [[a == b for b in codes] for a in codes] == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[n, n + 1] for n in range(1_000)], pa.list_(pa.int64())),
        ([[n, n + 1] for n in range(1_000)], pa.large_list(pa.int64())),
        ([[n, n + 1] for n in range(1_000)], pa.list_(pa.int64(), 2)),
        ([[(n, [n])] for n in range(1_000)], pa.map_(pa.int64(), pa.list_(pa.int64()))),
        ([{"x": [n, n]} for n in range(1_000)], pa.struct({"x": pa.list_(pa.int64())})),
    ],
)
@pytest.mark.parametrize("rows", [10, 0])
def test_of_a_slice_only_its_own_elements_are_numbered(
    values: list[Any], kind: pa.DataType, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered: list[int] = []
    dense = grouping._dense

    def counting(array: Any) -> Any:
        numbered.append(len(array))
        return dense(array)

    monkeypatch.setattr(grouping, "_dense", counting)
    codes = codes_of(pa.array(values, kind).slice(500, rows))
    assert len(set(codes.tolist())) == rows
    assert max(numbered) <= 2 * rows


def _many(rows: int) -> pa.Table:
    return _epoch(VALUE, 1, *((PUT, f"a key of some length {n}", n) for n in range(rows)))


@pytest.mark.parametrize("places", [[700], [700, 15_000], [0], [19_488]])
def test_a_copy_keeps_nothing_of_a_larger_table_alive(places: list[int]) -> None:
    large = _many(20_000)
    assert large.get_total_buffer_size() > 1_000_000
    parts = [large.slice(place, 512) for place in places]
    copied = fold(VALUE, [large.slice(0, 0), *parts])
    assert copied.equals(pa.concat_tables(parts))
    assert copied.get_total_buffer_size() < 2 * copied.nbytes
    assert not _addresses(copied) & _addresses(large)
    assert all(column.num_chunks == 1 for column in copied.columns)


def test_what_is_not_to_be_copied_stays_where_it_is() -> None:
    table = _many(2_000)
    assert _addresses(fold(VALUE, [table], copy=False)) == _addresses(table)
    assert not _addresses(fold(VALUE, [table])) & _addresses(table)


def _addresses(table: pa.Table) -> set[int]:
    buffers = (buffer for column in table.columns for chunk in column.chunks for buffer in chunk.buffers())
    return {buffer.address for buffer in buffers if buffer is not None and buffer.size}


def _same(a: Any, b: Any) -> bool:
    return repr(a).replace("-0.0", "0.0") == repr(b).replace("-0.0", "0.0")
