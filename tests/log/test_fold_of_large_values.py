"""A fold of values with more bytes than fit into one Arrow array."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.log import fold as module
from state_engine.log.fold import taken

values = st.lists(st.one_of(st.none(), st.binary(max_size=6)), min_size=1, max_size=8)


@settings(max_examples=settings.default.max_examples // 4)
@given(chunks=st.lists(values, min_size=2, max_size=4), data=st.data())
def test_rows_of_several_arrays_are_taken_as_of_one(chunks: list[list[bytes | None]], data: st.DataObject) -> None:
    column = pa.chunked_array(chunks, pa.binary())
    numbers = pa.array(range(len(column)), pa.int64())
    rows = pa.table({"value": column, "n": numbers, "text": column.cast(pa.string(), safe=False)})
    indices = data.draw(st.lists(st.integers(0, len(column) - 1), max_size=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 8)
        result = taken(rows, pa.array(indices, pa.int64()).to_numpy())
    assert result.equals(rows.combine_chunks().take(pa.array(indices, pa.int64())))
    assert all(sum(len(v or b"") for v in piece.to_pylist()) < 8 + 6 for piece in result.column("value").chunks)
