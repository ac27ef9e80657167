"""The birth id of a job's log: it tells logs apart that use the same numbers.

A log that begins anew under the same root and name counts its generations from 1 again, and its sinks have seen these
numbers. So each log has an id of its own, and each commit to a sink's table records it (docs/formats/birth.md).
"""

from state_engine.errors import DamagedFileError
from state_engine.log.envelope import seal, unseal
from state_engine.serialization.column import Record

BIRTH_FORMAT = "lakestate.birth"
_DIGITS = 15  # 60 bits: a transaction's version is a signed 64-bit number


class Birth(Record, frozen=True, kw_only=True):
    """A log's id: 32 hex digits, given once, by the first start (at `born_at`, ms) of a release that has such ids."""

    job: str
    birth_id: str
    born_at: int


def birth_number(birth_id: str) -> int:
    """Returns the id as tables record it: as the version of an application transaction, which is a number."""
    return int(birth_id[:_DIGITS], 16)


def encode_birth(birth: Birth) -> bytes:
    """Returns the document."""
    return seal(BIRTH_FORMAT, birth)[0]


def decode_birth(data: bytes, *, path: str = "") -> Birth:
    """Decodes and verifies a birth id; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return unseal(BIRTH_FORMAT, Birth, data, DamagedFileError, path=path)[0]


__all__ = ["BIRTH_FORMAT", "Birth", "birth_number", "decode_birth", "encode_birth"]
