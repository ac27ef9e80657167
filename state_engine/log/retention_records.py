"""The records of retention: floors, lists of condemned files, leases; and their bytes, in the envelope of a manifest.

`docs/formats/retention.md` explains every field.
"""

from state_engine.errors import DamagedFileError
from state_engine.log.envelope import seal, unseal
from state_engine.serialization.column import Record

FLOOR_FORMAT = "lakestate.floor"
CONDEMNED_FORMAT = "lakestate.condemned"
LEASE_FORMAT = "lakestate.lease"


class Floor(Record, frozen=True, kw_only=True):
    """Numbers of a generation up to `epoch` are not to be sealed any more: their manifests may be deleted.

    `checkpoint_id` is the highest id that a checkpoint of the job may have had so far; later ids are higher.
    """

    job: str
    generation: int
    epoch: int
    checkpoint_id: int
    raised_at: int


class CondemnedFile(Record, frozen=True, kw_only=True):
    """A file that is going to be deleted: its path relative to the job's root, its length, and the reason."""

    path: str
    bytes: int
    reason: str


class Condemned(Record, frozen=True, kw_only=True):
    """Files that are going to be deleted, no earlier than `grace_ms` after `condemned_at` (ms).

    `rule` names the rule of a policy that released them; lists of earlier releases do not name it.
    """

    list_id: str
    job: str
    condemned_at: int
    grace_ms: int
    files: tuple[CondemnedFile, ...]
    rule: str = ""


class FreeNumber(Record, frozen=True, kw_only=True):
    """The number of a manifest that is about to be sealed, of this job or of one that is forked from it."""

    job: str
    generation: int
    epoch: int


class Lease(Record, frozen=True, kw_only=True):
    """A restore or a reader needs a sealed epoch until `expires_at` (ms).

    With a `folder`, a path below the job's root, the lease is not for an epoch but for all files in the folder.
    `files` are needed in addition: a checkpoint of the epoch is about to name them.
    With `until` the lease holds, whatever the time, as long as no manifest has that number.
    """

    lease_id: str
    job: str
    generation: int
    epoch: int
    manifest: str
    purpose: str
    created_at: int
    expires_at: int
    folder: str = ""
    files: tuple[str, ...] = ()
    until: FreeNumber | None = None


def encode_floor(floor: Floor) -> bytes:
    """Returns the document."""
    return seal(FLOOR_FORMAT, floor)[0]


def decode_floor(data: bytes, *, path: str = "") -> Floor:
    """Decodes and verifies a floor; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return unseal(FLOOR_FORMAT, Floor, data, DamagedFileError, path=path)[0]


def encode_condemned(condemned: Condemned) -> bytes:
    """Returns the document."""
    return seal(CONDEMNED_FORMAT, condemned)[0]


def decode_condemned(data: bytes, *, path: str = "") -> Condemned:
    """Decodes and verifies a list; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return unseal(CONDEMNED_FORMAT, Condemned, data, DamagedFileError, path=path)[0]


def encode_lease(lease: Lease) -> bytes:
    """Returns the document."""
    return seal(LEASE_FORMAT, lease)[0]


def decode_lease(data: bytes, *, path: str = "") -> Lease:
    """Decodes and verifies a lease; `DamagedFileError` or `UnsupportedVersionError` when it cannot."""
    return unseal(LEASE_FORMAT, Lease, data, DamagedFileError, path=path)[0]


__all__ = [
    "CONDEMNED_FORMAT",
    "FLOOR_FORMAT",
    "LEASE_FORMAT",
    "Condemned",
    "CondemnedFile",
    "Floor",
    "FreeNumber",
    "Lease",
    "decode_condemned",
    "decode_floor",
    "decode_lease",
    "encode_condemned",
    "encode_floor",
    "encode_lease",
]
