r"""Bytes of a state stream: the rows of one state, in which every key group can be read and verified alone.

```
offset
0        magic "LAKESTS\n"                     8 bytes
8        version                               uint32, little endian
12       length H of the header                uint32
16       header, JSON, padded with spaces      H bytes; 16 + H is a multiple of 8
16 + H   Arrow IPC schema message              S bytes, a multiple of 8
…        XXH3-128 of all before                16 bytes, big endian: end of the prologue
…        blocks                                one per key group that has rows, in order
…        footer, JSON                          F bytes: {"blocks":[[key group, offset, length, rows],…]}
-32      length F of the footer                uint32
-28      version                               uint32
-24      XXH3-128 of footer, F and version     16 bytes, big endian
-8       magic "LAKESTS\n"                     8 bytes
```

A block is one or more Arrow IPC record batch messages, followed by 16 bytes: the XXH3-128 of the prologue's 16 bytes,
the key group (uint32) and the messages. So only the prologue is needed to verify a block, and a block of another file
or key group does not pass. The schema and the messages of any run of blocks, without the 16 bytes of each, are an Arrow
IPC stream. See `docs/formats/state-stream.md`.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from state_engine.errors import DamagedFileError, UnsupportedVersionError
from state_engine.log.ops import KEY_GROUP
from state_engine.log.records import Codec
from state_engine.serialization.column import Record

MAGIC = b"LAKESTS\n"
VERSION = 1
BATCH_ROWS = 1 << 16
WORTH_COMPRESSION = 2048
"""If a key group's rows have fewer bytes, compression makes them larger: each buffer has a frame of its own."""

_PROLOGUE = struct.Struct("<8sII")
_TRAILER = struct.Struct("<II16s8s")
_DIGEST = 16
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_REMEDY = "Restore an older checkpoint or savepoint, or bring the file back from a backup."


class StreamHeader(Record, frozen=True, kw_only=True):
    """Which state a stream holds; for people and repair, a restore does not read it."""

    generation: int
    uid: str
    state: str
    schema_id: str
    max_parallelism: int
    codec: Codec


class StreamFooter(Record, frozen=True, kw_only=True):
    """Index of a stream: (key group, offset, length, rows) of each block."""

    blocks: tuple[tuple[int, int, int, int], ...] = ()


class Block(NamedTuple):
    """The rows of one key group as they are stored in a stream; `offset` and `length` in bytes, checksum included."""

    key_group: int
    offset: int
    length: int
    rows: int


class StateStream(NamedTuple):
    """A verified state stream."""

    header: StreamHeader
    blocks: tuple[Block, ...]


class StreamEncoder:
    """Encodes a table piece by piece, in the order in which the pieces are stored in the stream.

    Args:
        header: Which state it is.
        table: Its rows, sorted by key group; at least one.
        batch_rows: Largest number of rows in a record batch; a key group with more rows has several batches.

    Raises:
        ValueError: The rows are not sorted by key group, or have nulls there.
    """

    def __init__(self, header: StreamHeader, table: pa.Table, batch_rows: int = BATCH_ROWS) -> None:
        column = table.column(KEY_GROUP)
        groups = column.to_numpy().astype(np.int64, copy=False)
        if column.null_count or (np.diff(groups) < 0).any():
            raise ValueError(f"The rows of state {header.state!r} of {header.uid!r} are not sorted by key group.")
        self._table = table.combine_chunks().replace_schema_metadata(None)
        self._batch_rows = batch_rows
        self._cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        self._groups = groups
        self._codec = header.codec
        self.prologue = _prologue(header, self._table.schema.serialize().to_pybytes())
        self.blocks: list[Block] = []

    def encoded(self) -> Iterator[bytes]:
        """Yields the stream in pieces: prologue, blocks, footer. `blocks` then lists where each block is."""
        yield self.prologue
        offset = len(self.prologue)
        for group, rows, messages in self._messages():
            self.blocks.append(Block(group, offset, len(messages) + _DIGEST, rows))
            offset += len(messages) + _DIGEST
            yield messages
            yield _block_digest(self.prologue, group, messages)
        body = msgspec.json.encode(
            StreamFooter(blocks=tuple((b.key_group, b.offset, b.length, b.rows) for b in self.blocks))
        )
        numbers = struct.pack("<II", len(body), VERSION)
        yield body + _TRAILER.pack(len(body), VERSION, xxhash.xxh3_128(body + numbers).digest(), MAGIC)

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields (key group, rows, record batch messages) of each key group."""
        writers = {plain: _BatchWriter(self._table.schema, "none" if plain else self._codec) for plain in (True, False)}
        for start, stop in pairwise(self._cuts):
            rows = self._table.slice(start, stop - start)
            writer = writers[rows.nbytes < WORTH_COMPRESSION]
            yield int(self._groups[start]), stop - start, writer.messages(rows, self._batch_rows)


def decode_blocks(prologue: bytes, blocks: Sequence[tuple[int, int, bytes]], *, path: str = "") -> pa.Table:
    """Decodes blocks of a stream, in the order in which they are given.

    Args:
        prologue: Everything before the first block of the stream.
        blocks: (key group, rows, bytes) of each.
        path: Where the bytes came from, for messages.

    Raises:
        DamagedFileError: A byte is not what was written, or a block is of another key group or stream.
        UnsupportedVersionError: Another release wrote the stream.
    """
    where = path or "The state stream"
    parts = [_schema_of(prologue, where)]
    for group, _, data in blocks:
        messages = data[:-_DIGEST]
        if len(data) < _DIGEST or _block_digest(prologue, group, messages) != data[-_DIGEST:]:
            raise DamagedFileError(f"{where} fails the checksum of key group {group}.", action=_REMEDY)
        parts.append(messages)
    try:
        with pa.ipc.open_stream(pa.py_buffer(b"".join((*parts, _END)))) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"{where} is no Arrow stream: {error}.", action=_REMEDY) from error
    numbers = np.array([(group, rows) for group, rows, _ in blocks], np.int64).reshape(-1, 2)
    expected = np.repeat(numbers[:, 0], numbers[:, 1])
    if not np.array_equal(table.column(KEY_GROUP).to_numpy(), expected):
        raise DamagedFileError(f"{where} has other rows or key groups than those in its handle.", action=_REMEDY)
    return table


def verify_state_stream(data: bytes, *, path: str = "") -> StateStream:
    """Verifies every byte of a state stream and returns its header and blocks.

    Raises:
        DamagedFileError: A byte is not what was written.
        UnsupportedVersionError: Another release wrote the stream.
    """
    where = path or "The state stream"
    blocks = read_footer(data, path=path)
    end = len(data) - _TRAILER.size - int(_TRAILER.unpack_from(data, len(data) - _TRAILER.size)[0])
    starts = [block.offset for block in blocks]
    if [*starts[1:], end] != [block.offset + block.length for block in blocks]:
        raise DamagedFileError(f"{where} has bytes that no block names.", action=_REMEDY)
    prologue = data[: starts[0]]
    decode_blocks(prologue, [(b.key_group, b.rows, data[b.offset : b.offset + b.length]) for b in blocks], path=path)
    length = _PROLOGUE.unpack_from(prologue)[2]
    header = msgspec.json.decode(prologue[_PROLOGUE.size : _PROLOGUE.size + length], type=StreamHeader)
    return StateStream(header, blocks)


def read_footer(data: bytes, *, path: str = "") -> tuple[Block, ...]:
    """Returns where the blocks of a whole stream are, from its own index: for callers without a handle.

    Raises:
        DamagedFileError: It does not end as a state stream does.
        UnsupportedVersionError: Another release wrote the stream.
    """
    where = path or "The state stream"
    start = -1
    if len(data) >= _PROLOGUE.size + _TRAILER.size:
        length, version, digest, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
        start = len(data) - _TRAILER.size - length
    if start < 0 or magic != MAGIC:
        raise DamagedFileError(f"{where} does not end as a state stream does.", action=_REMEDY)
    if xxhash.xxh3_128(data[start : len(data) - _TRAILER.size + 8]).digest() != digest:
        raise DamagedFileError(f"{where} has a damaged footer.", action=_REMEDY)
    _check_version(version, where)
    footer = msgspec.json.decode(data[start : start + length], type=StreamFooter)
    return tuple(Block(*block) for block in footer.blocks)


def _prologue(header: StreamHeader, schema: bytes) -> bytes:
    body = msgspec.json.encode(header)
    body += b" " * (-(_PROLOGUE.size + len(body)) % 8)  # messages begin at multiples of 8: Arrow's alignment
    head = _PROLOGUE.pack(MAGIC, VERSION, len(body)) + body + schema
    return head + xxhash.xxh3_128(head).digest()


def _schema_of(prologue: bytes, where: str) -> bytes:
    """Verifies a prologue and returns its Arrow schema message."""
    if len(prologue) < _PROLOGUE.size + _DIGEST:
        raise DamagedFileError(f"{where} has no room for its header.", action=_REMEDY)
    magic, version, length = _PROLOGUE.unpack_from(prologue)
    if magic != MAGIC:
        raise DamagedFileError(f"{where} does not begin as a state stream does.", action=_REMEDY)
    _check_version(version, where)
    if xxhash.xxh3_128(prologue[:-_DIGEST]).digest() != prologue[-_DIGEST:]:
        raise DamagedFileError(f"{where} has a damaged header.", action=_REMEDY)
    return prologue[_PROLOGUE.size + length : -_DIGEST]


def _check_version(version: int, where: str) -> None:
    if version != VERSION:
        raise UnsupportedVersionError(
            f"{where} is a state stream of version {version}; this release reads version {VERSION}.",
            action="Use the release that wrote it, or a newer one.",
        )


def _block_digest(prologue: bytes, key_group: int, messages: bytes) -> bytes:
    digest = xxhash.xxh3_128(prologue[-_DIGEST:])
    digest.update(struct.pack("<I", key_group))
    digest.update(messages)
    return digest.digest()


class _BatchWriter:
    """Encodes tables of one schema as record batch messages."""

    def __init__(self, schema: pa.Schema, codec: Codec) -> None:
        self._sink = _Sink()
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), schema, options=options)
        self._begun = False

    def messages(self, rows: pa.Table, batch_rows: int) -> bytes:
        """Returns the messages of the table, in batches of at most `batch_rows` rows."""
        self._writer.write_table(rows, max_chunksize=batch_rows)
        messages = self._sink.take()
        if not self._begun:  # skip the schema before the first batch: 8 bytes, and the length that they contain
            self._begun = True
            messages = messages[8 + int.from_bytes(messages[4:8], "little") :]
        return messages


class _Sink(io.RawIOBase):
    """A file for Arrow to write to, from which the written bytes are taken piece by piece."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: object) -> int:
        part = bytes(memoryview(data))  # type: ignore[arg-type]
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def take(self) -> bytes:
        """Returns what was written since the last call."""
        written, self._parts = b"".join(self._parts), []
        return written


__all__ = [
    "BATCH_ROWS",
    "MAGIC",
    "VERSION",
    "WORTH_COMPRESSION",
    "Block",
    "StateStream",
    "StreamEncoder",
    "StreamFooter",
    "StreamHeader",
    "decode_blocks",
    "read_footer",
    "verify_state_stream",
]
