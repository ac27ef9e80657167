"""Python → Arrow → Python, for all types, whole, sliced and in chunks."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import TypeInformation
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.types import to_arrow
from state_engine.testing.strategies import types, values

columns = types().flatmap(lambda t: st.tuples(st.just(t), st.lists(values(t), max_size=6)))


@given(columns)
def test_values_come_back_as_they_went_in(column: tuple[TypeInformation, list[Any]]) -> None:
    type_info, listed = column
    array = writer(type_info)(listed)
    array.validate(full=True)
    assert array.type == to_arrow(type_info)
    back = reader(type_info)(array)
    assert back == listed
    assert list(map(type, back)) == list(map(type, listed))


@given(columns, st.data())
def test_slices_and_chunks_read_alike(column: tuple[TypeInformation, list[Any]], data: st.DataObject) -> None:
    type_info, listed = column
    array, read = writer(type_info)(listed), reader(type_info)
    start = data.draw(st.integers(0, len(listed)))
    stop = data.draw(st.integers(start, len(listed)))
    assert read(array.slice(start, stop - start)) == listed[start:stop]
    chunks = pa.chunked_array([array.slice(0, start), array.slice(start, stop - start), array.slice(stop)])
    assert read(chunks) == listed


@pytest.mark.parametrize(
    ("ddl", "listed"),
    [
        ("array<bigint>", [[1, 2], [3], [], [4, 5, 6], None, [7]]),
        ("map<string,bigint>", [{"a": 1, "b": 2}, {"c": 3}, {}, {"d": 4, "e": 5}, None, {"f": 6}]),
        ("array<array<string>>", [[["a"], ["b", "c"]], [["d"]], [], [["e"], []], None, [["f"]]]),
        ("array<map<string,int>>", [[{"a": 1}, {"b": 2}], [{"c": 3}], [], [{"d": 4}], None, [{"e": 5, "f": 6}]]),
    ],
)
def test_every_slice_of_a_column_has_its_own_elements(ddl: str, listed: list[Any]) -> None:
    array, read = writer(parse_ddl(ddl))(listed), reader(parse_ddl(ddl))
    for start in range(len(listed) + 1):
        for stop in range(start, len(listed) + 1):
            assert read(array.slice(start, stop - start)) == listed[start:stop]


@given(types())
@settings(max_examples=settings.default.max_examples // 4)
def test_nothing_reads_as_nothing(type_info: TypeInformation) -> None:
    read, arrow = reader(type_info), to_arrow(type_info)
    assert read(pa.array([], arrow)) == read(pa.chunked_array([], arrow)) == []
    assert reader(type_info)(writer(type_info)([])) == []


@given(types())
@settings(max_examples=settings.default.max_examples // 4)
def test_nulls_read_as_none(type_info: TypeInformation) -> None:
    assert reader(type_info)(writer(type_info)([None] * 3)) == [None] * 3
    assert reader(type_info)(pa.nulls(3, to_arrow(type_info))) == [None] * 3


@given(columns)
@settings(max_examples=settings.default.max_examples // 4)
def test_a_trip_through_an_ipc_stream_changes_nothing(column: tuple[TypeInformation, list[Any]]) -> None:
    type_info, listed = column
    table = pa.table([writer(type_info)(listed)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)
    again = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert reader(type_info)(again.column("value")) == listed
