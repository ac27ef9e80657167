"""The bytes of what retention writes, as released. Run this file as a program to write new ones, and say so."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from state_engine.errors import DamagedFileError
from state_engine.log.paths import floor_path, parse_beside_manifest, parse_floor_path, parse_state_file
from state_engine.log.retention_records import (
    Condemned,
    CondemnedFile,
    Floor,
    FreeNumber,
    Lease,
    decode_condemned,
    decode_floor,
    decode_lease,
    encode_condemned,
    encode_floor,
    encode_lease,
)

GOLDEN = Path(__file__).parent / "golden"
FLOOR = Floor(job="flights", generation=2, epoch=42, checkpoint_id=7, raised_at=1_700_000_000_000)
CONDEMNED = Condemned(
    list_id="c0ffee",
    job="flights",
    condemned_at=1_700_000_000_000,
    grace_ms=600_000,
    files=(CondemnedFile(path="_epochs/g000002/e0000000041.json", bytes=1234, reason="it lies before epoch 42"),),
)
CONDEMNED_BY_RULE = replace(CONDEMNED, rule="strays")
LEASE = Lease(
    lease_id="f00d",
    job="flights",
    generation=2,
    epoch=42,
    manifest="ab" * 32,
    purpose="restore",
    created_at=1_700_000_000_000,
    expires_at=1_700_003_600_000,
)
LEASE_UNTIL = replace(LEASE, until=FreeNumber(job="flights", generation=2, epoch=44))
Decoder = Callable[[bytes], msgspec.Struct]
CASES: list[tuple[str, bytes, Decoder, msgspec.Struct]] = [
    ("floor.json", encode_floor(FLOOR), decode_floor, FLOOR),
    ("condemned.json", encode_condemned(CONDEMNED), decode_condemned, CONDEMNED),
    ("condemned-by-rule.json", encode_condemned(CONDEMNED_BY_RULE), decode_condemned, CONDEMNED_BY_RULE),
    ("lease.json", encode_lease(LEASE), decode_lease, LEASE),
    ("lease-until.json", encode_lease(LEASE_UNTIL), decode_lease, LEASE_UNTIL),
]


@pytest.mark.parametrize(("name", "encoded", "decode", "record"), CASES, ids=[case[0] for case in CASES])
def test_golden_documents(name: str, encoded: bytes, decode: Decoder, record: msgspec.Struct) -> None:
    golden = (GOLDEN / name).read_bytes()
    assert decode(golden) == record
    assert encoded == golden
    for position in range(0, len(golden), 7):
        damaged = golden[:position] + bytes([golden[position] ^ 1]) + golden[position + 1 :]
        with pytest.raises(Exception, match=r"is a|is not|version|checksum"):
            decode(damaged)
    with pytest.raises(DamagedFileError):
        decode(golden[:-1])


def test_names_of_files_contain_their_epoch() -> None:
    assert parse_floor_path(floor_path(2, 42)) == (2, 42)
    assert parse_floor_path("_epochs/g000002/e0000000042.json") is None
    assert parse_beside_manifest("_epochs/g000002/changes/e0000000042-a-0-f.arrow") == (2, 42)
    assert parse_beside_manifest("_epochs/g000002/bases/e0000000042-f.json") == (2, 42)
    assert parse_beside_manifest("_epochs/g000002/e0000000042.json") is None
    layer = "part-g000002-e0000000042-from-e0000000040-00000-00012.parquet"
    assert parse_state_file(f"aircraft/count/{layer}") == (2, 42)
    assert parse_state_file(f"_operator/aircraft/count/{layer}") == (2, 42)
    for foreign in (f"_savepoints/x/{layer}", f"_checkpoints/{layer}", layer, "aircraft/count/part-1.parquet"):
        assert parse_state_file(foreign) is None


if __name__ == "__main__":
    for file, encoded_, _, _ in CASES:
        (GOLDEN / file).write_bytes(encoded_)
