"""Bytes of a base (a published fold) and of savepoints of both kinds, in the same envelope as a manifest."""

from typing import NamedTuple

from state_engine.errors import DamagedFileError
from state_engine.log.envelope import seal, unseal
from state_engine.log.records import Base, Pin
from state_engine.log.savepoints import CanonicalSavepoint, SavepointReference

BASE_FORMAT = "lakestate.base"
PIN_FORMAT = "lakestate.pin"
SAVEPOINT_FORMAT = "lakestate.savepoint"
REFERENCE_FORMAT = "lakestate.savepoint-reference"


class StoredBase(NamedTuple):
    """A base and its hash: SHA-256 of the body as written, 64 hex digits."""

    base: Base
    hash: str


class StoredPin(NamedTuple):
    """A pin and its hash: SHA-256 of the body as written, 64 hex digits."""

    pin: Pin
    hash: str


def encode_base(base: Base) -> tuple[bytes, str]:
    """Returns the document and its hash, which `BaseReference.checksum` holds."""
    return seal(BASE_FORMAT, base)


def decode_base(data: bytes, *, path: str = "") -> StoredBase:
    """Decodes and verifies a base; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return StoredBase(*unseal(BASE_FORMAT, Base, data, DamagedFileError, path=path))


def encode_pin(pin: Pin) -> tuple[bytes, str]:
    """Returns the document and its hash."""
    return seal(PIN_FORMAT, pin)


def decode_pin(data: bytes, *, path: str = "") -> StoredPin:
    """Decodes and verifies a pin; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return StoredPin(*unseal(PIN_FORMAT, Pin, data, DamagedFileError, path=path))


class StoredSavepoint(NamedTuple):
    """The metadata of a canonical savepoint and its hash: SHA-256 of the body as written, 64 hex digits."""

    savepoint: CanonicalSavepoint
    hash: str


def encode_savepoint(savepoint: CanonicalSavepoint) -> tuple[bytes, str]:
    """Returns the document and its hash."""
    return seal(SAVEPOINT_FORMAT, savepoint)


def decode_savepoint(data: bytes, *, path: str = "") -> StoredSavepoint:
    """Decodes and verifies metadata; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return StoredSavepoint(*unseal(SAVEPOINT_FORMAT, CanonicalSavepoint, data, DamagedFileError, path=path))


def encode_reference(reference: SavepointReference) -> bytes:
    """Returns the document."""
    return seal(REFERENCE_FORMAT, reference)[0]


def decode_reference(data: bytes, *, path: str = "") -> SavepointReference:
    """Decodes and verifies a reference; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return unseal(REFERENCE_FORMAT, SavepointReference, data, DamagedFileError, path=path)[0]


def is_reference(data: bytes) -> bool:
    """Returns whether a document is, by its format name, a reference to a savepoint that is stored elsewhere."""
    return data.startswith(f'{{"format":"{REFERENCE_FORMAT}"'.encode())


__all__ = [
    "BASE_FORMAT",
    "PIN_FORMAT",
    "REFERENCE_FORMAT",
    "SAVEPOINT_FORMAT",
    "StoredBase",
    "StoredPin",
    "StoredSavepoint",
    "decode_base",
    "decode_pin",
    "decode_reference",
    "decode_savepoint",
    "encode_base",
    "encode_pin",
    "encode_reference",
    "encode_savepoint",
    "is_reference",
]
