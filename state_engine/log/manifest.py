"""Bytes of an epoch manifest. The hash of its body is its identity: the next manifest names it as predecessor."""

from typing import NamedTuple

from state_engine.errors import DamagedManifestError
from state_engine.log.envelope import seal, unseal
from state_engine.log.records import Manifest

FORMAT = "lakestate.manifest"


class StoredManifest(NamedTuple):
    """A sealed manifest and its hash: SHA-256 of the body as written, 64 hex digits."""

    manifest: Manifest
    hash: str


def encode_manifest(manifest: Manifest) -> tuple[bytes, str]:
    """Returns the document and its hash."""
    return seal(FORMAT, manifest)


def decode_manifest(data: bytes, *, path: str = "") -> StoredManifest:
    """Decodes and verifies a manifest.

    Raises:
        DamagedManifestError: the bytes are not what was written.
        UnsupportedVersionError: another release wrote it.
    """
    return StoredManifest(*unseal(FORMAT, Manifest, data, DamagedManifestError, path=path))


def inlined_bytes(manifest: Manifest) -> int:
    """Returns how many bytes of changes are inlined in a manifest, before base64."""
    return sum(map(len, manifest.inlined.values()))


__all__ = ["FORMAT", "StoredManifest", "decode_manifest", "encode_manifest", "inlined_bytes"]
