"""Bytes of a base (a published fold) and of a pin (a native savepoint), in the same envelope as a manifest."""

from typing import NamedTuple

from state_engine.errors import DamagedFileError
from state_engine.log.envelope import seal, unseal
from state_engine.log.records import Base, Pin

BASE_FORMAT = "lakestate.base"
PIN_FORMAT = "lakestate.pin"


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


__all__ = [
    "BASE_FORMAT",
    "PIN_FORMAT",
    "StoredBase",
    "StoredPin",
    "decode_base",
    "decode_pin",
    "encode_base",
    "encode_pin",
]
