"""The envelope of every JSON document: format, version and checksum around a body, which is hashed as written.

```
{"format":"lakestate.manifest","version":1,"checksum":"sha256:<64 hex>","body":{…}}
```

The bytes are canonical: fields in this order, no white space outside the body, nothing after the last brace. A
document that differs in a single byte is refused. See `docs/formats/manifest.md`.
"""

import hashlib
from typing import TypeVar

import msgspec

from state_engine.errors import CorruptionError, UnsupportedVersionError
from state_engine.text import UNDECODABLE

VERSION = 1

RecordType = TypeVar("RecordType", bound=msgspec.Struct)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    checksum: str
    body: msgspec.Raw


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Envelope)


def seal(name: str, record: msgspec.Struct) -> tuple[bytes, str]:
    """Encodes a record.

    Args:
        name: Name of the format, such as `lakestate.manifest`.
        record: The body.

    Returns:
        The document and the hash of its body: 64 hex digits of SHA-256.
    """
    body = _encoder.encode(record)
    digest = hashlib.sha256(body).hexdigest()
    return _assemble(name, VERSION, f"sha256:{digest}", body), digest


def unseal(
    name: str, kind: type[RecordType], data: bytes, damaged: type[CorruptionError], *, path: str = ""
) -> tuple[RecordType, str]:
    """Decodes and verifies a document.

    Args:
        name: Name of the format that is expected.
        kind: Type of the body.
        data: The document.
        damaged: Error for bytes that are not what was written.
        path: Where the bytes came from, for messages.

    Returns:
        The record and the hash of its body.

    Raises:
        UnsupportedVersionError: the version, or a field of the body, is unknown to this release.
        CorruptionError: of the type `damaged`.
    """
    where = path or f"The {name} document"
    found = _body_of(name, data)
    if found is None:
        raise _refusal(name, data, damaged, where)
    body, digest = found
    try:
        return msgspec.json.decode(body, type=kind), digest
    except UNDECODABLE as error:  # the checksum fits, so these bytes are what their writer meant
        raise UnsupportedVersionError(
            f"{where} was written by another release: it is not allowed in version {VERSION} of {name} as this "
            f"release knows it ({error}).",
            action="Use the release that wrote it, or a newer one.",
        ) from error


def _body_of(name: str, data: bytes) -> tuple[memoryview, str] | None:
    """Returns the body and its hash; None if these are not the bytes that `seal` makes of a body.

    Manifests have up to megabytes, so no byte is copied: that took twice the time of hash and decoding.
    """
    start = len(_head(name, VERSION, f"sha256:{'0' * 64}"))
    if len(data) <= start or not data.endswith(b"}"):
        return None
    body = memoryview(data)[start:-1]
    digest = hashlib.sha256(body).hexdigest()
    return (body, digest) if data.startswith(_head(name, VERSION, f"sha256:{digest}")) else None


def _refusal(name: str, data: bytes, damaged: type[CorruptionError], where: str) -> CorruptionError:
    """Returns the error that says why bytes are not a sound document."""
    remedy = "Bring the file back from a backup, or restore an older checkpoint or savepoint."
    try:
        envelope = _decoder.decode(data)
    except UNDECODABLE as error:
        return damaged(f"{where} is not a {name} document: {error}.", action=remedy)
    if envelope.format != name:
        return damaged(f"{where} is a {envelope.format!r} document, expected {name!r}.", action=remedy)
    if envelope.version != VERSION:
        return UnsupportedVersionError(
            f"{where} has version {envelope.version} of {name}; this release reads version {VERSION}.",
            action="Use the release that wrote it, or a newer one.",
        )
    digest = hashlib.sha256(bytes(envelope.body)).hexdigest()
    return damaged(
        f"{where} fails its checksum: it claims {envelope.checksum}, its body has sha256:{digest}.", action=remedy
    )


def _assemble(name: str, version: int, checksum: str, body: bytes) -> bytes:
    return _head(name, version, checksum) + body + b"}"


def _head(name: str, version: int, checksum: str) -> bytes:
    return f'{{"format":"{name}","version":{version},"checksum":"{checksum}","body":'.encode()


__all__ = ["VERSION", "seal", "unseal"]
