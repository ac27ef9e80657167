"""Cells of lists by columns: many cells are encoded from one Arrow array at once, and decoded into one.

```
number of elements, 8 bytes | 0, 8 bytes | sizes of the streams, 4 bytes each | the streams
```

The first two are those of a header (`headers.py`), big endian; all else is little endian. Each type has its streams,
one after the other:

| elements | streams |
|---|---|
| of fixed width, booleans as bytes | one byte each, 0 for null (empty if no element is null); the elements |
| text, binary | 4 bytes each for the length, -1 for null; the bytes of all |
| struct | one byte each, 0 for null (empty if none is null); the streams of its fields |
| list, map | 4 bytes each for the length, -1 for null; the streams of their elements |

Arrow weaves the streams of many cells into one buffer, and takes them out of one: no element is a Python object.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from state_engine.api.keys import Numbers, indices
from state_engine.backends.ascending import Flags

HEAD = 16
_SIZE = np.dtype("<u4")
_LENGTH = np.dtype("<i4")


class _Stream(NamedTuple):
    """Bytes of many cells, one cell after the other.

    Attributes:
        data: Any object with a buffer.
        offsets: Where the bytes of each cell begin, and where those of the last cell end.
    """

    data: Any
    offsets: Numbers


class ListCells:
    """Elements of one type, many lists at once.

    Args:
        element: The type, as Arrow has it.
    """

    def __init__(self, element: pa.DataType) -> None:
        self._type = element
        self._streams = _count_streams(element)

    def cells(self, values: Any, counts: Numbers) -> list[bytes]:
        """Returns a cell for each list.

        Args:
            values: The elements of all lists, list by list.
            counts: How many elements each list has, at least one.
        """
        if not len(counts):
            return []
        streams = list(_to_streams(values, _ends(counts)))
        front = np.zeros((len(counts), HEAD + _SIZE.itemsize * len(streams)), np.uint8)
        front[:, :8] = counts.astype(">u8").view(np.uint8).reshape(-1, 8)
        sizes = np.stack([np.diff(stream.offsets) for stream in streams], axis=1).astype(_SIZE)
        front[:, HEAD:] = sizes.view(np.uint8).reshape(len(counts), -1)
        within = _Stream(front, np.arange(len(counts) + 1) * front.shape[1])
        data, offsets = _woven([within, *(stream for stream in streams if stream.offsets[-1])])
        return [data[start:end] for start, end in pairwise(offsets.tolist())]

    def elements(self, cells: Sequence[bytes]) -> tuple[Numbers, Any]:
        """Returns how many elements each cell has, and the elements of all, cell by cell."""
        if not cells:
            return np.empty(0, np.int64), pa.array([], self._type)
        data = np.frombuffer(b"".join(cells), np.uint8)
        starts = _ends(np.fromiter(map(len, cells), np.int64, len(cells)))[:-1]
        width = HEAD + _SIZE.itemsize * self._streams
        front = data[starts[:, np.newaxis] + np.arange(width)]
        counts = numbers_of(front[:, :8])[:, 0]
        sizes = np.ascontiguousarray(front[:, HEAD:]).view(_SIZE).astype(np.int64)
        begins = (starts + width)[:, np.newaxis] + np.cumsum(sizes, axis=1) - sizes
        streams = (_taken_out(data, begins[:, n], sizes[:, n]) for n in range(self._streams))
        return counts, _from_streams(self._type, counts, streams)


def numbers_of(data: "NDArray[np.uint8]") -> Numbers:
    """Returns numbers of 8 bytes, as headers have them, row by row."""
    return np.ascontiguousarray(data).view(">u8").astype(np.int64)


# To bytes -------------------------------------------------------------------------------------------------------------


def _to_streams(array: Any, bounds: Numbers) -> Iterator[_Stream]:
    """Yields the streams of elements; `bounds` has the positions where each cell begins, and the last one ends."""
    kind = array.type
    if pa.types.is_struct(kind):
        yield _flags(array, bounds)
        for field in array.flatten():
            yield from _to_streams(field, bounds)
    elif _is_text(kind):
        whole = array.fill_null(b"" if pa.types.is_binary(kind) else "")  # Arrow may have bytes under a null
        ends = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset : whole.offset + len(whole) + 1]
        yield _fixed(pc.fill_null(pc.binary_length(array), -1), bounds)
        data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
        yield _Stream(data, (ends - ends[0]).astype(np.int64)[bounds])
    elif pa.types.is_nested(kind):
        lists = array.cast(_as_list(kind)) if pa.types.is_map(kind) else array
        lengths = pc.fill_null(pc.list_value_length(lists), -1)
        yield _fixed(lengths, bounds)
        yield from _to_streams(lists.flatten(), _ends(np.maximum(lengths, 0))[bounds])
    else:
        yield _flags(array, bounds)
        yield _fixed(array.cast(pa.uint8()) if pa.types.is_boolean(kind) else array, bounds)


def _flags(array: Any, bounds: Numbers) -> _Stream:
    """Returns one byte for each element, 0 for null, but only for cells that have a null."""
    if not array.null_count:
        return _Stream(b"", np.zeros(len(bounds), np.int64))
    valid = np.asarray(array.is_valid())
    counts = np.diff(bounds)
    has_null = np.diff(_ends(~valid)[bounds]) > 0
    return _Stream(valid[np.repeat(has_null, counts)].view(np.uint8), _ends(counts * has_null))


def _fixed(array: Any, bounds: Numbers) -> _Stream:
    width = array.type.bit_width // 8
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    return _Stream(data[array.offset * width : (array.offset + len(array)) * width], bounds * width)


def _woven(streams: Sequence[_Stream]) -> tuple[bytes, Numbers]:
    """Returns the cells, each with its part of each stream, and where each begins and the last one ends."""
    many, count = len(streams), len(streams[0].offsets) - 1
    parts = pa.concat_arrays([_pieces(*stream) for stream in streams])
    woven = parts.take(indices(np.arange(many * count).reshape(many, count).T.ravel()))
    _, offsets, data = woven.buffers()
    return data.to_pybytes(), np.frombuffer(offsets, np.int64)[: many * count + 1 : many]


# From bytes -----------------------------------------------------------------------------------------------------------


def _from_streams(kind: Any, counts: Numbers, streams: Iterator[Any]) -> Any:
    """Returns the elements of cells as an array of their type; `counts` has the number of elements of each cell."""
    total = int(counts.sum())
    if pa.types.is_struct(kind):
        valid = _there(next(streams), counts)
        fields = [_from_streams(field.type, counts, streams) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=None if valid is None else pa.array(~valid))
    if not (_is_text(kind) or pa.types.is_nested(kind)):
        valid = _there(next(streams), counts)
        plain = pa.uint8() if pa.types.is_boolean(kind) else kind
        return pa.Array.from_buffers(plain, total, [_bits(valid), next(streams).buffer]).cast(kind)
    lengths = np.frombuffer(next(streams).buffer, _LENGTH)[:total]
    ends = _ends(np.maximum(lengths, 0))
    offsets = pa.array(ends, pa.int32()).buffers()[1]  # raises an error if they are too large for one array
    valid = _bits(None if (lengths >= 0).all() else lengths >= 0)
    if _is_text(kind):
        return pa.Array.from_buffers(kind, total, [valid, offsets, next(streams).buffer])
    inner = _from_streams(_as_list(kind).value_type, np.diff(ends[_ends(counts)]), streams)
    return pa.Array.from_buffers(kind, total, [valid, offsets], children=[inner])


class _Taken(NamedTuple):
    """A stream of many cells.

    Attributes:
        buffer: The bytes of all, cell by cell.
        sizes: How many bytes each cell has.
    """

    buffer: Any
    sizes: Numbers


def _taken_out(data: "NDArray[np.uint8]", begins: Numbers, sizes: Numbers) -> _Taken:
    """Takes a stream out of cells."""
    if not sizes.any():
        return _Taken(pa.py_buffer(b""), sizes)
    between = np.stack([begins, begins + sizes], axis=1).ravel()  # the bytes between two cells are a piece, too
    taken = _pieces(data, between).take(indices(np.arange(0, len(between), 2)))
    return _Taken(taken.buffers()[2], sizes)


def _there(flags: _Taken, counts: Numbers) -> Flags | None:
    """Returns which elements are not null; None if no element is null."""
    if not flags.sizes.any():
        return None
    valid = np.ones(int(counts.sum()), bool)
    valid[np.repeat(flags.sizes > 0, counts)] = np.frombuffer(flags.buffer, bool)[: flags.sizes.sum()]
    return valid


def _bits(there: Flags | None) -> Any:
    return None if there is None else pa.array(there).buffers()[1]


# Both -----------------------------------------------------------------------------------------------------------------


def _pieces(data: Any, offsets: Numbers) -> Any:
    """Returns bytes, cut at offsets, as an array."""
    ends: Any = np.ascontiguousarray(offsets, np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _ends(counts: "NDArray[Any]") -> Numbers:
    """Returns 0, and the end of each part, given the counts of the parts."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _as_list(kind: Any) -> Any:
    """Returns the list type with the same layout as a list or map type."""
    return pa.list_(pa.struct([kind.key_field, kind.item_field])) if pa.types.is_map(kind) else kind


def _count_streams(kind: Any) -> int:
    if pa.types.is_struct(kind):
        return 1 + sum(_count_streams(field.type) for field in kind)
    if pa.types.is_nested(kind):
        return 1 + _count_streams(_as_list(kind).value_type)
    return 2


__all__ = ["ListCells", "numbers_of"]
