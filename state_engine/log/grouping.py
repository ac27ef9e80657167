"""Gives equal keys equal numbers: rows of any Arrow type become small int64 codes, without Python per row.

Equal means equal as keys are: nulls equal each other, NaN equals NaN, -0.0 equals 0.0, structs and lists are equal
element by element.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.floats import one_spelling

Codes = np.ndarray[tuple[int], np.dtype[np.int64]]


def codes_of(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> Codes:
    """Returns one number per row, below the number of rows + 1; equal rows, and only these, have equal numbers."""
    array = _flat(column)
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return codes_of(array.storage)
    if isinstance(array, pa.StructArray):
        return _with_nulls(combine([np.zeros(len(array), np.int64), *(codes_of(f) for f in array.flatten())]), array)
    if isinstance(array, pa.MapArray):
        return _with_nulls(_codes_of_runs([array.keys, array.items], array.offsets.to_numpy()), array)
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return _with_nulls(_codes_of_runs([array.values], array.offsets.to_numpy()), array)
    if isinstance(array, pa.FixedSizeListArray):
        offsets = (np.arange(len(array) + 1) + array.offset) * kind.list_size
        return _with_nulls(_codes_of_runs([array.values], offsets), array)
    return _dense(one_spelling(array) if pa.types.is_floating(kind) else array)


def combine(columns: Sequence[Codes]) -> Codes:
    """Returns one number per row for the tuple of the columns' numbers; equal exactly if the tuples are equal."""
    combined = columns[0]
    for codes in columns[1:]:
        if not _follows(codes, combined):
            # both factors are at most the number of rows + 1, so the product stays far below 2**63
            combined = _dense(pa.array(combined * (int(codes.max(initial=0)) + 1) + codes))
    return combined


def cuts_of(groups: "np.ndarray[tuple[int], np.dtype[np.signedinteger[Any]]]", rows: int) -> list[tuple[int, int]]:
    """Cuts rows that are sorted by key group at borders of key groups, once a piece has `rows` rows or more."""
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(groups):
        stop = len(groups)
        if stop - start > rows:
            stop = int(np.searchsorted(groups, groups[start + rows - 1], side="right"))
        cuts.append((start, stop))
        start = stop
    return cuts


def _follows(codes: Codes, combined: Codes) -> bool:
    """Whether rows with one number in `combined` have one number in `codes`, too, so that `codes` adds nothing.

    This is the case for the key groups of equal keys. The check takes a tenth of the time of numbering tuples anew.
    """
    last = np.zeros(int(combined.max(initial=0)) + 1, np.int64)
    last[combined] = codes
    return np.array_equal(last[combined], codes)


def _flat(column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> Any:
    array: Any = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        if column.num_chunks == 0:
            array = pa.array([], column.type)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _dense(array: Any) -> Codes:
    if array.null_count == len(array):
        return np.zeros(len(array), np.int64)
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    indices: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return indices


def _with_nulls(codes: Codes, array: Any) -> Codes:
    """Returns 0 for every null, whatever its children hold: a null differs from a struct of nulls and an empty list."""
    if array.null_count == 0:
        return codes
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), codes + 1, 0)


def _codes_of_runs(children: Sequence[Any], offsets: Any) -> Codes:
    """Numbers lists by their elements' numbers: each list becomes the bytes of its run, and bytes can be encoded.

    A slice of a column has the elements of the whole column as its children; only those of the slice are numbered.
    """
    start, stop = int(offsets[0]), int(offsets[-1])
    values = combine([codes_of(child.slice(start, stop - start)) for child in children])
    starts = (offsets.astype(np.int64) - start) * values.itemsize
    buffers = [None, pa.py_buffer(starts.data), pa.py_buffer(np.ascontiguousarray(values).data)]
    return _dense(pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers))


__all__ = ["Codes", "codes_of", "combine", "cuts_of"]
