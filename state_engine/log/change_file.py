r"""Bytes of a change file: what one attempt of one subtask changed in one epoch.

```
offset
0        magic "LAKECHG\n"                     8 bytes
8        version                               uint32, little endian
12       length H of the header                uint32
16       header, JSON, padded with spaces      H bytes; 16 + H is a multiple of 8
16 + H   sections                              each a complete Arrow IPC stream of one state and a run of key groups
…        footer, JSON                          F bytes: {"prologue":…,"codec":…,"sections":[…]}
-32      length F of the footer                uint32
-28      version                               uint32
-24      XXH3-128 of footer, F and version     16 bytes, big endian
-8       magic "LAKECHG\n"                     8 bytes
```

Every byte is under a checksum: the first 16 + H bytes under `prologue`, each section under its own in the footer
(and in the manifest, so that a reader fetches only the sections that it needs), the rest under the last. The handle has
one over the whole file. See `docs/formats/change-file.md`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from state_engine.errors import DamagedFileError, UnsupportedVersionError
from state_engine.log.grouping import cuts_of
from state_engine.log.ops import KEY_GROUP
from state_engine.log.records import Codec, Section, StateHandle, StateSchema
from state_engine.serialization.column import Record

MAGIC = b"LAKECHG\n"
VERSION = 1
BLOCK_ROWS = 65536
WORTH_COMPRESSION = 4 << 10
"""Sections with fewer bytes of rows are not compressed: ZSTD takes some 40 µs for each column, however few rows it has,
to write, and 20 to read."""

_WORTH_THREADS = 1 << 16
"""Bytes of a section from which Arrow's threads are worth waking: a small one takes half as long without them."""
_PROLOGUE = struct.Struct("<8sII")
_TRAILER = struct.Struct("<II16s8s")
_REMEDY = "Bring the file back from a backup, or restore an older checkpoint or savepoint."

Part = bytes | pa.Buffer


class ChangeFileHeader(Record, frozen=True, kw_only=True):
    """The attempt that wrote a change file."""

    job: str
    generation: int
    epoch: int
    uid: str
    subtask: int
    attempt: str
    max_parallelism: int


class Footer(Record, frozen=True, kw_only=True):
    """Index of a change file. `prologue` is the checksum of everything before the first section."""

    prologue: str
    codec: Codec
    sections: tuple[Section, ...] = ()


class ChangeFile(NamedTuple):
    """A verified change file."""

    header: ChangeFileHeader
    footer: Footer


def encode_change_file(
    header: ChangeFileHeader,
    states: Sequence[tuple[StateSchema, pa.Table]],
    codec: Codec = "zstd",
    block_rows: int = BLOCK_ROWS,
) -> tuple[list[Part], tuple[Section, ...], str, int]:
    """Encodes the changes of one subtask.

    Args:
        header: The attempt that writes.
        states: Rows per state in the columns of `log.ops.log_schema`, sorted by key group. Empty tables are left out.
        codec: Compression of the Arrow buffers.
        block_rows: A section ends at the first border of key groups at or after this number of rows.

    Returns:
        The file in parts (to write one after the other, never copied together), its sections, its checksum
        (`xxh3:` and 32 hex digits) and its length in bytes.

    Raises:
        ValueError: a table is not sorted by key group, or has nulls there.
    """
    compressed, plain = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec), pa.ipc.IpcWriteOptions()
    head = _prologue(header)
    parts: list[Part] = [head]
    sections: list[Section] = []
    offset = len(head)
    for schema, table in states:
        groups = _sorted_groups(schema, table)
        table = table.combine_chunks().replace_schema_metadata(None)
        for start, stop in cuts_of(groups, block_rows):
            rows = table.slice(start, stop - start)
            stream = _stream(rows, compressed if rows.nbytes >= WORTH_COMPRESSION else plain)
            sections.append(
                Section(
                    schema_id=schema.schema_id,
                    name=schema.name,
                    first=int(groups[start]),
                    last=int(groups[stop - 1]),
                    offset=offset,
                    length=stream.size,
                    rows=stop - start,
                    checksum=checksum_of(stream),
                )
            )
            parts.append(stream)
            offset += stream.size
    index = tuple(sections)
    parts.append(_trailer(Footer(prologue=checksum_of(head), codec=codec, sections=index)))
    return parts, index, checksum_of(*parts), offset + len(parts[-1])


def decode_section(data: bytes, section: Section, *, path: str = "") -> pa.Table:
    """Decodes the bytes of one section, in the order in which they were written.

    Raises:
        DamagedFileError: length, checksum or row count differ from the section's.
    """
    where = f"section {section.name!r} at offset {section.offset} of {path or 'a change file'}"
    if len(data) != section.length:
        raise DamagedFileError(f"{where} has {len(data)} bytes, expected {section.length}.", action=_REMEDY)
    if section.checksum and (actual := checksum_of(data)) != section.checksum:
        raise DamagedFileError(f"{where} has the checksum {actual}, expected {section.checksum}.", action=_REMEDY)
    try:
        options = pa.ipc.IpcReadOptions(use_threads=len(data) >= _WORTH_THREADS)
        with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
            table = reader.read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedFileError(f"{where} is no Arrow stream: {error}.", action=_REMEDY) from error
    if table.num_rows != section.rows:
        raise DamagedFileError(f"{where} has {table.num_rows} rows, expected {section.rows}.", action=_REMEDY)
    return table


def read_state(
    fetch: Callable[[int, int], bytes], handle: StateHandle, state: str, first: int, last: int
) -> pa.Table | None:
    """Reads the rows of one state in key groups `first` to `last`, both inclusive.

    Fetches exactly the sections that overlap, one call each; nothing else of the file is read or checked.

    Args:
        fetch: Returns the bytes at (offset, length) of the file; `storage.get_range` with the path filled in.
        handle: The file, as the manifest names it.
        state: The state's `schema_id` or its name.
        first: Lowest key group.
        last: Highest key group.

    Returns:
        The rows in the order in which they were written, None when there are none.

    Raises:
        DamagedFileError: a section is not what the handle says.
        ValueError: several schemas have the name; ask by `schema_id`.
    """
    tables = []
    for section in _sections_of(handle, state):
        if section.last < first or section.first > last:
            continue
        table = decode_section(fetch(section.offset, section.length), section, path=handle.path)
        if section.first < first or section.last > last:
            groups = table.column(KEY_GROUP).to_numpy()
            start, stop = np.searchsorted(groups, first, side="left"), np.searchsorted(groups, last, side="right")
            table = table.slice(int(start), int(stop - start))
        tables.append(table)
    rows = pa.concat_tables(tables) if tables else None
    return rows if rows is not None and rows.num_rows else None


def verify_change_file(data: bytes, *, path: str = "") -> ChangeFile:
    """Verifies every byte of a change file and returns its header and index.

    Raises:
        DamagedFileError: a byte is not what was written.
        UnsupportedVersionError: another release wrote the file.
    """
    where = path or "The change file"
    footer_start, footer = _read_trailer(data, where)
    if footer_start < _PROLOGUE.size:
        raise DamagedFileError(f"{where} has no room for its header.", action=_REMEDY)
    magic, version, length = _PROLOGUE.unpack_from(data)
    offset = _PROLOGUE.size + length
    if magic != MAGIC or version != VERSION or checksum_of(data[:offset]) != footer.prologue:
        raise DamagedFileError(f"{where} has a damaged header.", action=_REMEDY)
    for section in footer.sections:
        if section.offset != offset or not section.checksum:
            raise DamagedFileError(f"{where} has a gap at offset {offset}.", action=_REMEDY)
        offset += section.length
        if offset > footer_start:
            raise DamagedFileError(f"{where} ends inside section {section.name!r}.", action=_REMEDY)
        decode_section(data[section.offset : offset], section, path=path)
    if offset != footer_start:
        raise DamagedFileError(f"{where} has bytes that no section names at offset {offset}.", action=_REMEDY)
    header = msgspec.json.decode(data[_PROLOGUE.size : _PROLOGUE.size + length], type=ChangeFileHeader)
    return ChangeFile(header, footer)


def checksum_of(*buffers: Part) -> str:
    """Returns `xxh3:` and the XXH3-128 of the concatenated buffers in 32 hex digits."""
    digest = xxhash.xxh3_128()
    for buffer in buffers:
        digest.update(memoryview(buffer))
    return f"xxh3:{digest.hexdigest()}"


def _prologue(header: ChangeFileHeader) -> bytes:
    body = msgspec.json.encode(header)
    body += b" " * (-(_PROLOGUE.size + len(body)) % 8)  # sections begin at multiples of 8: Arrow's alignment
    return _PROLOGUE.pack(MAGIC, VERSION, len(body)) + body


def _trailer(footer: Footer) -> bytes:
    body = msgspec.json.encode(footer)
    numbers = struct.pack("<II", len(body), VERSION)
    return body + _TRAILER.pack(len(body), VERSION, xxhash.xxh3_128(body + numbers).digest(), MAGIC)


def _read_trailer(data: bytes, where: str) -> tuple[int, Footer]:
    """Returns where the footer begins, and the footer."""
    if len(data) < _PROLOGUE.size + _TRAILER.size:
        raise DamagedFileError(f"{where} has only {len(data)} bytes.", action=_REMEDY)
    length, version, digest, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    start = len(data) - _TRAILER.size - length
    if magic != MAGIC or start < 0:
        raise DamagedFileError(f"{where} does not end as a change file does.", action=_REMEDY)
    if xxhash.xxh3_128(data[start : len(data) - _TRAILER.size + 8]).digest() != digest:
        raise DamagedFileError(f"{where} has a damaged footer.", action=_REMEDY)
    if version != VERSION:
        raise UnsupportedVersionError(
            f"{where} is a change file of version {version}; this release reads version {VERSION}.",
            action="Use the release that wrote it, or a newer one.",
        )
    return start, msgspec.json.decode(data[start : start + length], type=Footer)


def _sorted_groups(schema: StateSchema, table: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    column = table.column(KEY_GROUP)
    groups: np.ndarray[tuple[int], np.dtype[np.int32]] = column.to_numpy().astype(np.int32, copy=False)
    if column.null_count or (np.diff(groups) < 0).any():
        raise ValueError(f"The rows of state {schema.name!r} of {schema.uid!r} are not sorted by key group.")
    return groups


def _stream(rows: pa.Table, options: pa.ipc.IpcWriteOptions) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _sections_of(handle: StateHandle, state: str) -> list[Section]:
    by_id = [section for section in handle.sections if section.schema_id == state]
    if by_id:
        return by_id
    by_name = [section for section in handle.sections if section.name == state]
    if len({section.schema_id for section in by_name}) > 1:
        raise ValueError(f"{handle.path} holds several schemas with the name {state!r}; ask by schema_id.")
    return by_name


__all__ = [
    "BLOCK_ROWS",
    "MAGIC",
    "VERSION",
    "ChangeFile",
    "ChangeFileHeader",
    "Footer",
    "checksum_of",
    "decode_section",
    "encode_change_file",
    "read_state",
    "verify_change_file",
]
