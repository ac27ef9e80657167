"""Cells of lists: the elements come out as they went in, whichever cells are read together."""

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.backends.rocksdb.list_cells import ListCells
from state_engine.serialization.types import ddl_to_arrow

UTC = datetime.UTC
FIRST, LAST = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 1, -(1 << bits - 1), (1 << bits - 1) - 1])


ATOMS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": integers(8),
    "smallint": integers(16),
    "int": integers(32),
    "bigint": integers(64),
    "float": st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
    "double": st.sampled_from([0.0, -0.0, 1e300, float("nan"), float("inf")]),
    "string": st.sampled_from(["", "x", "a\x00b", "語", "y" * 300]),
    "binary": st.sampled_from([b"", b"\x00", b"\xff\x00"]),
    "date": st.sampled_from([FIRST.date(), datetime.date(1970, 1, 1), LAST.date()]),
    "timestamp": st.sampled_from([FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC)]),
    "timestamp_ntz": st.sampled_from([FIRST, LAST]),
    "decimal(12,2)": st.sampled_from([decimal.Decimal("0.00"), decimal.Decimal("-9999999999.99")]),
    "decimal(38,0)": st.sampled_from([decimal.Decimal(10**38 - 1), decimal.Decimal(1 - 10**38)]),
}
SMALL, TEXT, FLAG = (st.one_of(st.none(), ATOMS[name]) for name in ("int", "string", "boolean"))
NESTED: dict[str, st.SearchStrategy[Any]] = {
    "struct<a:int,b:string,c:boolean>": st.fixed_dictionaries({"a": SMALL, "b": TEXT, "c": FLAG}),
    "array<string>": st.lists(TEXT, max_size=3),
    "array<array<int>>": st.lists(st.one_of(st.none(), st.lists(SMALL, max_size=2)), max_size=3),
    "map<string,int>": st.dictionaries(ATOMS["string"], SMALL, max_size=2).map(lambda made: list(made.items())),
    "struct<a:struct<b:double>,m:map<int,array<boolean>>>": st.fixed_dictionaries(
        {
            "a": st.one_of(st.none(), st.fixed_dictionaries({"b": ATOMS["double"]})),
            "m": st.dictionaries(ATOMS["int"], st.lists(FLAG, max_size=2), max_size=2).map(lambda m: list(m.items())),
        }
    ),
}
TYPES = ATOMS | NESTED
ELEMENTS = st.sampled_from(sorted(TYPES)).flatmap(
    lambda ddl: st.tuples(
        st.just(ddl),
        st.one_of(
            st.lists(st.lists(TYPES[ddl], min_size=1, max_size=4), max_size=5),
            st.lists(st.lists(st.one_of(st.none(), TYPES[ddl]), min_size=1, max_size=4), max_size=5),
        ),
        st.integers(0, 2),
    )
)


def cells_of(ddl: str, lists: list[list[Any]], before: int = 0) -> list[bytes]:
    """Returns the cells of lists that are a part of an array, with other elements around them."""
    kind, flat = ddl_to_arrow(ddl), [one for elements in lists for one in elements]
    array = pa.array([*flat[:before], *flat, None], kind).slice(len(flat[:before]), len(flat))
    return ListCells(kind).cells(array, np.array([len(elements) for elements in lists], np.int64))


@settings(max_examples=5 * settings.default.max_examples)
@given(ELEMENTS, st.randoms(use_true_random=False))
def test_elements_come_back_from_whichever_cells_are_read_together(given: Any, drawn: Any) -> None:
    ddl, lists, before = given
    cells = cells_of(ddl, lists, before)
    order = [drawn.randrange(len(cells)) for _ in range(2 * len(cells))]
    counts, elements = ListCells(ddl_to_arrow(ddl)).elements([cells[n] for n in order])
    elements.validate(full=True)
    assert elements.type == ddl_to_arrow(ddl)
    assert counts.tolist() == [len(lists[n]) for n in order]
    wanted = pa.array([one for n in order for one in lists[n]], elements.type)
    assert repr(elements.to_pylist()) == repr(wanted.to_pylist())  # -0.0 is not 0.0, and NaN is NaN


@given(ELEMENTS)
def test_a_cell_is_the_same_whatever_lies_around_it(given: Any) -> None:
    ddl, lists, before = given
    assert cells_of(ddl, lists, before) == [cell for elements in lists for cell in cells_of(ddl, [elements])]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_what_arrow_has_under_a_null_is_not_stored(kind: str) -> None:
    whole = pa.array(["secret", "x"], kind)
    bits = pa.array([False, True]).buffers()[1]
    hidden = pa.Array.from_buffers(whole.type, 2, [bits, *whole.buffers()[1:]])
    [cell] = ListCells(whole.type).cells(hidden, np.array([2]))
    assert b"secret" not in cell
    assert ListCells(whole.type).elements([cell])[1].equals(pa.array([None, whole[1]], kind))


def test_a_number_takes_its_own_bytes_and_no_more() -> None:
    [cell] = cells_of("bigint", [[1, 2, 3]])
    assert cell == bytes(7) + b"\x03" + bytes(8) + bytes(4) + b"\x18\0\0\0" + b"".join(
        n.to_bytes(8, "little") for n in (1, 2, 3)
    )
