"""Stores what is wanted of a job, and how its starts ended: `driver/wanted.json`, version 4.

It is control data, not state: a job loses nothing without it, but is not restarted. The file is small. One writer at a
time writes it as a whole, durably, and renames it into place.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from lakestate.plain_json import encode_plain
from lakestate.start_request import StartRequest
from lakestate.supervision.places import NoControlFolderError, absolute_root, driver_folder
from state_engine.errors import CorruptionError, UnsupportedVersionError
from state_engine.storage import durable
from state_engine.text import UNDECODABLE, shorten

VERSION = 4
_FILE, _MUTEX = "wanted.json", "wanted.lock"
_LONGEST_CAUSE = 3_000
_KEPT = 500
"""How many of the newest attempts are kept."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a driver. `ended_at` is when its failure was noticed, in ms, and `cause` its known cause."""

    started_at: int
    ended_at: int | None = None
    cause: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a job: whether it shall run, with which request, and how its starts ended.

    Attributes:
        version: Of this format.
        state: Whether the job shall run.
        since: When that was last requested, in ms.
        request: How its driver is started.
        generation: The newest one of the job at the time of the request, if that has a restore or keeps output; else 0.
        epoch: The newest epoch of that generation; 0 if there was none.
        attempts: Starts since then, oldest first. The first one was requested, the others are restarts.
        gave_up: Why there are no more restarts; empty if there may be more.
        checksum: SHA-256 of the document without it, as compact JSON. Version 1 had none.
    """

    version: int = VERSION
    state: Literal["running", "stopped"]
    since: int
    request: StartRequest
    generation: int = 0
    epoch: int = 0
    attempts: tuple[Attempt, ...] = ()
    gave_up: str = ""
    checksum: str = ""

    def sealed(self) -> "Wanted":
        """Returns a copy with its checksum."""
        plain = msgspec.structs.replace(self, checksum="")
        return msgspec.structs.replace(self, checksum=_checksum_of(encode_plain(plain)))

    @property
    def restarts(self) -> int:
        """Number of starts that followed a failed one."""
        return max(0, len(self.attempts) - 1)

    def stopped(self, now_ms: int) -> "Wanted":
        """Returns a copy for a job that shall not run any more."""
        return msgspec.structs.replace(self, state="stopped", since=now_ms)

    def running(self) -> "Wanted":
        """Returns a copy for a job that shall run after all."""
        return msgspec.structs.replace(self, state="running")

    def with_start(self, now_ms: int) -> "Wanted":
        """Returns a copy with one more attempt."""
        attempts = (*self.attempts[1 - _KEPT :], Attempt(started_at=now_ms))
        return msgspec.structs.replace(self, attempts=attempts, gave_up="")

    def with_end(self, cause: str, now_ms: int) -> "Wanted":
        """Returns a copy with the end of the newest attempt, unless that is known already; a long cause is cut."""
        if not self.attempts or self.attempts[-1].ended_at is not None:
            return self
        ended = msgspec.structs.replace(self.attempts[-1], ended_at=now_ms, cause=shorten(cause, _LONGEST_CAUSE))
        return msgspec.structs.replace(self, attempts=(*self.attempts[:-1], ended))

    def with_surrender(self, reason: str) -> "Wanted":
        """Returns a copy with the reason why the job is not restarted any more."""
        return msgspec.structs.replace(self, gave_up=reason)


class WantedFile:
    """The file with what is wanted of one job.

    Args:
        folder: Folder of the control files of the job's driver.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _FILE

    def read(self) -> Wanted | None:
        """Returns what is wanted; null if that was never recorded.

        Raises:
            UnsupportedVersionError: A later release has written the file.
            CorruptionError: The file cannot be read.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if 1 <= version <= VERSION:
                return self._checked(msgspec.json.decode(data, type=Wanted), data)
        except UNDECODABLE as error:
            raise self._damaged(str(error)) from error
        raise UnsupportedVersionError(
            f"{self._path} has version {version}; this release reads version {VERSION}.",
            action="Use the release that wrote it, or a later one.",
        )

    def _checked(self, wanted: Wanted, data: bytes) -> Wanted:
        # Of the document itself: that of an earlier release has fewer fields.
        document = msgspec.json.decode(data) | {"checksum": ""}
        if wanted.version > 1 and wanted.checksum != _checksum_of(encode_plain(document)):
            raise self._damaged("it fails its checksum")
        return msgspec.structs.replace(wanted, version=VERSION, checksum="")

    def _damaged(self, why: str) -> CorruptionError:
        return CorruptionError(
            f"{self._path} cannot be read: {why}.",
            action="Remove it, which loses no state. If the job is to be supervised, use `lakestate start` again.",
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[Wanted | None]:
        """Yields what is wanted, and keeps other writers out until the block ends."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _MUTEX).open("ab") as mutex:
            fcntl.flock(mutex.fileno(), fcntl.LOCK_EX)
            yield self.read()

    def write(self, wanted: Wanted) -> None:
        """Replaces the file; only within `locked`. Only its owner may read it, since options may be confidential."""
        durable.replace(str(self._path), msgspec.json.format(encode_plain(wanted.sealed())) + b"\n", 0o600)


def wanted_of(root: str, job: str) -> Wanted | None:
    """Returns what is wanted of a job; null if that was never recorded on this machine."""
    try:
        return WantedFile(driver_folder(absolute_root(root), job)).read()
    except NoControlFolderError:
        return None


def _checksum_of(document: bytes) -> str:
    return f"sha256:{sha256(document).hexdigest()}"


class _Version(msgspec.Struct):
    version: int


__all__ = ["VERSION", "Attempt", "StartRequest", "Wanted", "WantedFile", "wanted_of"]
