"""The fold equals the reference, and coalescing changes no result of a later fold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.log import fold as module
from state_engine.log.fold import coalesce, fold
from state_engine.log.grouping import codes_of, combine
from state_engine.log.ops import Op, log_schema, ops_to_names
from state_engine.log.records import StateSchema
from state_engine.serialization.column import Column
from state_engine.serialization.types import ddl_to_arrow
from state_engine.testing.reference import ReferenceState

GROUPS = 3
_numbers = st.one_of(st.none(), st.integers(0, 2))
_texts = st.sampled_from([None, "", "a", "b"])
_structs = st.one_of(st.none(), st.fixed_dictionaries({"x": _numbers, "y": _texts}))
_lists = st.one_of(st.none(), st.lists(_numbers, max_size=2))
_floats = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")])

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": _numbers,
    "string": _texts,
    "double": _floats,
    "struct<x:bigint,y:string>": _structs,
    "array<bigint>": _lists,
    "struct<s:struct<x:bigint,y:string>,l:array<bigint>>": st.one_of(
        st.none(), st.fixed_dictionaries({"s": _structs, "l": _lists})
    ),
}
OPS = {
    "value": [Op.PUT, Op.PUT, Op.PUT, Op.DELETE, Op.RESET_GROUP],
    "list": [Op.APPEND, Op.APPEND, Op.APPEND, Op.CLEAR, Op.RESET_GROUP],
    "map": [Op.PUT, Op.PUT, Op.PUT, Op.DELETE, Op.CLEAR, Op.RESET_GROUP],
}


def _schema(shape: Any, key: tuple[str, ...], user_key: str) -> StateSchema:
    return StateSchema(
        schema_id="s",
        uid="u",
        kind="keyed",
        name="n",
        shape=shape,
        key=tuple(Column(name=f"k{index}", type=ddl) for index, ddl in enumerate(key)),
        user_key=user_key if shape == "map" else None,
        value="array<bigint>",
    )


@st.composite
def _logs(draw: Callable[..., Any]) -> tuple[StateSchema, list[list[dict[str, Any]]]]:
    """Draws a state and its rows, cut into epochs; as with hashing, a key's rows are in one key group."""
    types = st.sampled_from(sorted(VALUES))
    schema = _schema(draw(st.sampled_from(sorted(OPS))), tuple(draw(st.lists(types, max_size=2))), draw(types))
    keys = draw(
        st.lists(st.tuples(st.integers(0, GROUPS - 1), *(VALUES[c.type] for c in schema.key)), min_size=1, max_size=4)
    )
    keys = list({repr([key[1:]]).replace("-0.0", "0.0"): key for key in keys}.values())
    epochs = []
    for epoch in range(1, draw(st.integers(1, 4)) + 1):
        epochs.append([_row(draw, schema, keys, epoch, seq) for seq in range(draw(st.integers(0, 12)))])
    return schema, epochs


def _row(draw: Callable[..., Any], schema: StateSchema, keys: list[Any], epoch: int, seq: int) -> dict[str, Any]:
    group, *key = draw(st.sampled_from(keys))
    op = draw(st.sampled_from(OPS[schema.shape]))
    if op is Op.RESET_GROUP:
        key = [None] * len(key)
    row = {"key_group": group, **{c.name: k for c, k in zip(schema.key, key, strict=True)}}
    row["namespace"] = draw(st.sampled_from([None, "w"]))
    if schema.user_key is not None:
        of_entry = op in (Op.PUT, Op.DELETE)
        row["user_key"] = draw(VALUES[schema.user_key]) if of_entry else None
    data = op in (Op.PUT, Op.APPEND)
    row["value"] = draw(_lists) if data else None
    return row | {"op": int(op), "position": epoch, "seq": seq, "last_access": draw(_numbers)}


def _table(schema: StateSchema, rows: list[dict[str, Any]]) -> pa.Table:
    """Returns rows as a change file holds them: sorted by key group."""
    rows = sorted(rows, key=lambda row: row["key_group"])
    return pa.Table.from_pylist(rows, schema=log_schema(schema, ddl_to_arrow, position=True))


def _live(schema: StateSchema, *tables: pa.Table) -> list[Any]:
    return ReferenceState(schema).apply_all(row for table in tables for row in table.to_pylist()).live()


@contextmanager
def _cut(rows: int) -> Iterator[None]:
    """Cuts into pieces of `rows` rows; with one row, each piece has one key group, and every run counts as long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE_ROWS", rows)
        patch.setattr(module, "_RUN_ROWS", rows)
        yield


pieces = st.sampled_from([1, 4, 1 << 15])


@given(_logs(), pieces)
def test_fold_leaves_what_the_reference_leaves(log: Any, rows_of_piece: int) -> None:
    schema, epochs = log
    tables = [_table(schema, rows) for rows in epochs]
    with _cut(rows_of_piece):
        folded = fold(schema, tables)
    assert folded.schema.equals(log_schema(schema, ddl_to_arrow, position=True))
    assert _live(schema, folded) == _live(schema, *tables)
    assert set(folded.column("op").to_pylist()) <= {Op.PUT, Op.APPEND}
    assert folded.column("key_group").to_pylist() == sorted(folded.column("key_group").to_pylist())


@given(_logs(), pieces, st.data())
def test_coalescing_any_intervals_changes_no_fold(log: Any, rows_of_piece: int, data: Any) -> None:
    schema, epochs = log
    tables = [_table(schema, rows) for rows in epochs]
    cut = data.draw(st.integers(0, len(tables)))
    halves = [part for part in (tables[:cut], tables[cut:]) if part]
    with _cut(rows_of_piece):
        coalesced = [ops_to_names(coalesce(schema, part)) for part in halves]
    assert fold(schema, coalesced).num_rows == fold(schema, tables).num_rows
    assert _live(schema, fold(schema, coalesced)) == _live(schema, *tables)
    assert _live(schema, *coalesced) == _live(schema, *tables)


@given(_logs(), pieces)
def test_rows_of_an_entry_are_neighbours_in_the_order_in_which_they_were_written(log: Any, rows_of_piece: int) -> None:
    schema, epochs = log
    with _cut(rows_of_piece):
        folded = fold(schema, [_table(schema, rows) for rows in epochs]).to_pylist()
    entries = [
        repr([row["key_group"], *(row[c.name] for c in schema.key), row["namespace"]]).replace("-0.0", "0.0")
        for row in folded
    ]
    assert len(list(groupby(entries))) == len(set(entries))
    for _, rows in groupby(zip(entries, folded, strict=True), key=itemgetter(0)):
        places = [(row["position"], row["seq"]) for _, row in rows]
        assert places == sorted(places)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))))
def test_numbers_of_tuples_are_equal_exactly_if_the_tuples_are(tuples: list[tuple[int, int, int]]) -> None:
    columns = [codes_of(pa.array([one[at] for one in tuples], pa.int64())) for at in range(3)]
    columns.insert(1, columns[0] // 2)  # determined by the first column, as the group is by the key
    numbers = combine(columns).tolist()
    pairs = [(a, b) for a in range(len(tuples)) for b in range(len(tuples))]
    assert all((numbers[a] == numbers[b]) == (tuples[a] == tuples[b]) for a, b in pairs)


@settings(max_examples=settings.default.max_examples // 3)
@given(_logs(), st.data())
def test_no_row_of_a_coalesced_interval_can_be_left_out(log: Any, data: Any) -> None:
    """Coalescing gives the fewest rows: for each one there is an earlier state where leaving it out is visible."""
    schema, epochs = log
    everything = [_table(schema, rows) for rows in epochs]
    interval = coalesce(schema, everything)
    if interval.num_rows == 0:
        return
    before = _everything_there(schema, interval)
    left_out = data.draw(st.integers(0, interval.num_rows - 1))
    rest = [row for index, row in enumerate(interval.to_pylist()) if index != left_out]
    with_all = ReferenceState(schema).apply_all([*before, *interval.to_pylist()]).live()
    assert ReferenceState(schema).apply_all([*before, *rest]).live() != with_all


def _everything_there(schema: StateSchema, interval: pa.Table) -> list[dict[str, Any]]:
    """Returns an earlier state with data in every cell, list and group that the interval touches, and beside them."""
    data = {"op": int(Op.APPEND if schema.shape == "list" else Op.PUT), "position": 0, "value": [77], "last_access": 77}
    rows = []
    for seq, row in enumerate(interval.to_pylist()):
        rows += [row | data | {"seq": seq}, row | data | {"seq": seq, "namespace": "elsewhere"}]
        if schema.user_key is not None:
            rows.append(row | data | {"seq": seq, "user_key": "elsewhere"})
    return rows


@pytest.mark.parametrize("shape", ["value", "list", "map"])
def test_nothing_folds_to_nothing(shape: str) -> None:
    schema = _schema(shape, ("string",), "bigint")
    empty = _table(schema, [])
    assert fold(schema, [empty, empty]).num_rows == 0
    assert coalesce(schema, [empty]).schema == empty.schema
