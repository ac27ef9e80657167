"""State streams as bytes: every key group is read and verified alone."""

import random

import pyarrow as pa
import pytest

from state_engine.errors import DamagedFileError, UnsupportedVersionError
from state_engine.log.ops import log_schema
from state_engine.log.records import Codec
from state_engine.log.state_stream import (
    Block,
    StreamEncoder,
    StreamHeader,
    decode_blocks,
    read_footer,
    verify_state_stream,
)
from state_engine.serialization.types import ddl_to_arrow
from state_engine.testing.changes import state

SCHEMA = state("delays", "routes", "carrier string", "struct<from:string,to:string,minutes:array<int>>")


def header(codec: Codec = "zstd") -> StreamHeader:
    return StreamHeader(generation=2, uid="delays", state="routes", schema_id="22bb", max_parallelism=128, codec=codec)


def rows(groups: list[int], seed: int = 1) -> pa.Table:
    rng = random.Random(seed)
    values = [{"from": f"a{rng.randrange(99)}", "to": None, "minutes": [rng.randrange(9)] * rng.randrange(3)}, None]
    decoded_rows = [
        {
            "key_group": group,
            "carrier": rng.choice([None, "UA", "DL"]),
            "namespace": None,
            "value": rng.choice(values),
            "op": 1,
            "position": 7,
            "seq": seq,
            "last_access": None,
        }
        for seq, group in enumerate(groups)
    ]
    return pa.Table.from_pylist(decoded_rows, log_schema(SCHEMA, ddl_to_arrow, position=True))


def encoded(table: pa.Table, codec: Codec = "zstd", batch_rows: int = 1 << 16) -> tuple[bytes, list[Block]]:
    encoder = StreamEncoder(header(codec), table, batch_rows)
    return b"".join(encoder.encoded()), encoder.blocks


def decoded(data: bytes, blocks: list[Block], low: int = 0, high: int = 99) -> pa.Table:
    parts = [(b.key_group, b.rows, data[b.offset : b.offset + b.length]) for b in blocks[low : high + 1]]
    return decode_blocks(data[: blocks[0].offset], parts, path="f")


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("batch_rows", [2, 1 << 16])
def test_any_run_of_key_groups_is_what_was_written(codec: Codec, batch_rows: int) -> None:
    groups = [0, 0, 0, 3, 4, 4, 4, 4, 4, 127]
    table = rows(groups)
    data, blocks = encoded(table, codec, batch_rows)
    assert [(block.key_group, block.rows) for block in blocks] == [(0, 3), (3, 1), (4, 5), (127, 1)]
    assert tuple(blocks) == read_footer(data)
    starts = [0, 3, 4, 9, 10]
    for low in range(4):
        for high in range(low, 4):
            decoded_rows = decoded(data, blocks, low, high)
            assert decoded_rows.equals(table.slice(starts[low], starts[high + 1] - starts[low]))


def test_small_key_groups_do_not_grow_by_compression() -> None:
    small, large = rows([1, 2, 3]), rows([1] * 2000 + [2] * 2000)
    assert len(encoded(small, "zstd")[0]) == len(encoded(small, "none")[0])
    assert len(encoded(large, "zstd")[0]) < len(encoded(large, "none")[0]) / 2
    mixed = pa.concat_tables([rows([0]), rows([1] * 2000), rows([2])])
    data, blocks = encoded(mixed, "lz4")
    assert decoded(data, blocks).equals(mixed)


def test_the_same_rows_are_the_same_bytes() -> None:
    table = rows([1, 2, 2, 5])
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert encoded(table)[0] == encoded(chunked)[0]


def test_every_byte_is_under_a_checksum() -> None:
    data, blocks = encoded(rows([1, 2, 2, 5]))
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((DamagedFileError, UnsupportedVersionError)):
            verify_state_stream(damaged)
    assert verify_state_stream(data) == (header(), tuple(blocks))


def test_a_block_counts_only_where_it_belongs() -> None:
    table = rows([1, 2])
    data, (first, second) = encoded(table)
    prologue = data[: first.offset]
    block = data[first.offset : first.offset + first.length]
    assert decode_blocks(prologue, [(1, 1, block)]).num_rows == 1
    with pytest.raises(DamagedFileError, match="checksum of key group 2"):
        decode_blocks(prologue, [(2, 1, block)])
    with pytest.raises(DamagedFileError, match="other rows"):
        decode_blocks(prologue, [(1, 2, block)])
    with pytest.raises(DamagedFileError, match="checksum of key group 1"):
        decode_blocks(prologue, [(1, 1, block[:-1])])
    with pytest.raises(DamagedFileError, match="checksum of key group 1"):
        decode_blocks(prologue, [(1, 1, b"")])
    other, (of_other, *_) = encoded(table, "none")
    with pytest.raises(DamagedFileError, match="checksum of key group 1"):
        decode_blocks(other[: of_other.offset], [(1, 1, block)])
    with pytest.raises(DamagedFileError, match="no room"):
        decode_blocks(prologue[:20], [(1, 1, block)])
    with pytest.raises(DamagedFileError, match="does not begin"):
        decode_blocks(data[second.offset :], [(1, 1, block)])


@pytest.mark.parametrize("cut", [0, 1, 40, 300])
def test_a_stream_that_was_cut_has_no_footer(cut: int) -> None:
    data, _ = encoded(rows([1, 2]))
    with pytest.raises(DamagedFileError, match="does not end"):
        read_footer(data[:cut])


def test_rows_are_sorted_by_key_group() -> None:
    with pytest.raises(ValueError, match="not sorted by key group"):
        StreamEncoder(header(), rows([2, 1]))


def test_an_arrow_reader_needs_nothing_of_ours() -> None:
    """As the page of the format says: without header and checksums, the rest is an Arrow IPC stream."""
    table = rows([1, 2, 2])
    data, blocks = encoded(table)
    length = int.from_bytes(data[12:16], "little")
    messages = [data[16 + length : blocks[0].offset - 16]]
    messages += [data[block.offset : block.offset + block.length - 16] for block in blocks]
    assert pa.ipc.open_stream(b"".join(messages)).read_all().equals(table)
