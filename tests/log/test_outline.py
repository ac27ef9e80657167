"""Outlines of manifests: what they keep, and that they are verified as manifests are."""

from pathlib import Path

import pytest

from state_engine.errors import CorruptionError
from state_engine.log.manifest import FORMAT, decode_manifest, inlined_bytes
from state_engine.log.outline import decode_outline, outline_of

GOLDEN = Path(__file__).parent / "golden"
MANIFESTS = sorted(
    path.name for path in GOLDEN.glob("*.json") if path.read_bytes().startswith(f'{{"format":"{FORMAT}"'.encode())
)


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_outline_is_the_same_whether_the_manifest_was_decoded_or_not(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    whole, outline = decode_manifest(data), decode_outline(data)
    assert outline == outline_of(whole)
    kept, manifest = outline.manifest, whole.manifest
    assert outline.hash == whole.hash
    acks = {uid: [ack for ack in op.acks if ack.outputs] for uid, op in manifest.operators.items()}
    assert {uid: [(ack.attempt, ack.outputs) for ack in op.acks] for uid, op in kept.operators.items()} == {
        uid: [(ack.attempt, ack.outputs) for ack in found] for uid, found in acks.items() if found
    }
    assert outline.change_bytes == sum(
        ack.changes.length for op in manifest.operators.values() for ack in op.acks if ack.changes is not None
    )
    assert outline.inlined_bytes == inlined_bytes(manifest)
    for field in (
        "job", "generation", "epoch", "kind", "incarnation", "incarnation_number", "predecessor", "processing_time",
        "lineage", "fingerprints", "sources", "base", "checkpoint_id", "origin", "successor", "sinks", "snapshot_id",
        "restored",
    ):  # fmt: skip
        assert getattr(kept, field) == getattr(manifest, field)
    assert (kept.schemas, kept.keys, kept.timers, kept.inlined) == ((), {}, {}, {})


def test_the_golden_files_have_what_is_compared() -> None:
    outlines = [decode_outline((GOLDEN / name).read_bytes()) for name in MANIFESTS]
    assert any(one.manifest.operators for one in outlines)
    assert any(one.change_bytes for one in outlines)
    assert any(one.inlined_bytes for one in outlines)
    assert any(one.manifest.sources for one in outlines)


def test_no_flipped_bit_gives_an_outline() -> None:
    data = (GOLDEN / "sinks.json").read_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(CorruptionError, match="What to do"):
            decode_outline(bytes(damaged))
