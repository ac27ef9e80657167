"""Python → Arrow → Python, for all types, whole, sliced and in chunks."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

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
