"""What is wanted of a job and what became of its starts: `driver/wanted.json`, version 2.

Control data, not state: without it a job has lost nothing, and nobody restarts it. It is small, written whole and
renamed into place, durably, by one writer at a time.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from lakestate.plain_json import encode_plain
from lakestate.supervision.places import NoControlFolderError, absolute_root, driver_folder
from state_engine.errors import CorruptionError, UnsupportedVersionError
from state_engine.storage import durable
from state_engine.text import UNDECODABLE, shorten

VERSION = 2
_FILE, _MUTEX = "wanted.json", "wanted.lock"
_LONGEST_CAUSE = 3_000
_KEPT = 500
"""So many of the newest attempts are kept."""


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver is started with; a restart starts the same. The environment, which may hold secrets, is not kept.

    Attributes:
        options: For the job's factory.
        parallelism: Subtasks of every operator; that of the job by default.
        cores: Task slots of the local Spark session.
        restore: What to begin a new generation from. It is done once: a restart behind it goes on from there.
        uid_mapping: Of the restore: uids that operators had there to those that they have.
        max_parallelism: Of the restore: how many key groups all keys are sorted into anew.
        allow_non_restored_state: Of the restore: leave the state of operators that the job no longer has.
        resume_state: Operators that are back and go on with their old state.
        discard_state: Operators that are back and begin without state.
        adopt_sinks: Keep rows of sinks that the state root does not know of; a restart does not do it again.
        allow_changed_sources: Numbers of sources that may differ from what they were; not those of a restart.
        strict: Refuse if there is state that the code does not read.
        available_now: End when the input that is there is read.
        rest_address: Where the job's REST server listens.
        rest_port: Its port.
        directory: Folder to start in, which relative paths among the options are seen from; the starter's by default.
    """

    options: dict[str, str] = {}
    parallelism: int | None = None
    cores: str | None = None
    restore: str | None = None
    uid_mapping: dict[str, str] = {}
    max_parallelism: int | None = None
    allow_non_restored_state: bool = False
    resume_state: tuple[str, ...] = ()
    discard_state: tuple[str, ...] = ()
    adopt_sinks: bool = False
    allow_changed_sources: tuple[int, ...] = ()
    strict: bool = False
    available_now: bool = False
    rest_address: str | None = None
    rest_port: int | None = None
    directory: str = ""

    def placed(self) -> "StartRequest":
        """Returns the request with a folder to start in: that of this process, unless it has one."""
        return msgspec.structs.replace(self, directory=self.directory or str(Path.cwd()))

    def restored(self) -> "StartRequest":
        """Returns the request of a restart once the restore is done: behind it lies what came since."""
        return msgspec.structs.replace(
            self,
            restore=None,
            uid_mapping={},
            max_parallelism=None,
            allow_non_restored_state=False,
            resume_state=(),
            discard_state=(),
            adopt_sinks=False,
            allow_changed_sources=(),
        )


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a driver. `ended_at` is when its failure was seen, in ms, and `cause` what is known of it."""

    started_at: int
    ended_at: int | None = None
    cause: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a job.

    Attributes:
        version: Of this format.
        state: Whether the job shall run.
        since: When somebody last said so, in ms.
        request: What its driver is started with.
        generation: The newest one of the job when it was asked for; 0 if there was none.
        attempts: Starts since then, oldest first. The first one was asked for, the others are restarts.
        gave_up: Why there are no more restarts; empty if there may be.
        checksum: SHA-256 of the document without it, as compact JSON. Version 1 had none.
    """

    version: int = VERSION
    state: Literal["running", "stopped"]
    since: int
    request: StartRequest
    generation: int = 0
    attempts: tuple[Attempt, ...] = ()
    gave_up: str = ""
    checksum: str = ""

    def sealed(self) -> "Wanted":
        """Returns it with its checksum."""
        plain = msgspec.structs.replace(self, checksum="")
        return msgspec.structs.replace(self, checksum=f"sha256:{sha256(encode_plain(plain)).hexdigest()}")

    @property
    def restarts(self) -> int:
        """How many starts were made because one before had failed."""
        return max(0, len(self.attempts) - 1)

    def stopped(self, now_ms: int) -> "Wanted":
        """Returns the same job, which shall not run any more."""
        return msgspec.structs.replace(self, state="stopped", since=now_ms)

    def running(self) -> "Wanted":
        """Returns the same job, which shall run after all."""
        return msgspec.structs.replace(self, state="running")

    def with_start(self, now_ms: int) -> "Wanted":
        """Returns it with one attempt more."""
        attempts = (*self.attempts[1 - _KEPT :], Attempt(started_at=now_ms))
        return msgspec.structs.replace(self, attempts=attempts, gave_up="")

    def with_end(self, cause: str, now_ms: int) -> "Wanted":
        """Returns it with the end of the newest attempt, unless that is known already; a long cause is cut."""
        if not self.attempts or self.attempts[-1].ended_at is not None:
            return self
        ended = msgspec.structs.replace(self.attempts[-1], ended_at=now_ms, cause=shorten(cause, _LONGEST_CAUSE))
        return msgspec.structs.replace(self, attempts=(*self.attempts[:-1], ended))

    def with_surrender(self, reason: str) -> "Wanted":
        """Returns it with the reason for which nobody restarts it."""
        return msgspec.structs.replace(self, gave_up=reason)


class WantedFile:
    """The document of one job.

    Args:
        folder: That of the job's driver.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _FILE

    def read(self) -> Wanted | None:
        """Returns what is wanted; null if nobody has ever said so.

        Raises:
            UnsupportedVersionError: A later release has written it.
            CorruptionError: It cannot be read.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if 1 <= version <= VERSION:
                return self._checked(msgspec.json.decode(data, type=Wanted))
        except UNDECODABLE as error:
            raise self._damaged(str(error)) from error
        raise UnsupportedVersionError(
            f"{self._path} has version {version}; this release reads version {VERSION}.",
            action="Use the release that has written it, or a later one.",
        )

    def _checked(self, wanted: Wanted) -> Wanted:
        if wanted.version > 1 and wanted.checksum != wanted.sealed().checksum:
            raise self._damaged("it fails its checksum")
        return msgspec.structs.replace(wanted, version=VERSION, checksum="")

    def _damaged(self, why: str) -> CorruptionError:
        return CorruptionError(
            f"{self._path} cannot be read: {why}.",
            action="Remove it, which loses no state, and say again what is wanted: `lakestate start`.",
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[Wanted | None]:
        """Gives what is wanted, and keeps other writers out until the block ends."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _MUTEX).open("ab") as mutex:
            fcntl.flock(mutex.fileno(), fcntl.LOCK_EX)
            yield self.read()

    def write(self, wanted: Wanted) -> None:
        """Replaces the document; only within `locked`. Options may hold what others need not see."""
        durable.replace(str(self._path), msgspec.json.format(encode_plain(wanted.sealed())) + b"\n", 0o600)


def wanted_of(root: str, job: str) -> Wanted | None:
    """Returns what is wanted of a job; null if nobody of this machine has ever said so."""
    try:
        return WantedFile(driver_folder(absolute_root(root), job)).read()
    except NoControlFolderError:
        return None


class _Version(msgspec.Struct):
    version: int


__all__ = ["VERSION", "Attempt", "StartRequest", "Wanted", "WantedFile", "wanted_of"]
