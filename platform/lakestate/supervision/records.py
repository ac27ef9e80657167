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
from lakestate.supervision.places import NoControlFolderError, absolute_root, driver_folder
from state_engine.errors import CorruptionError, UnsupportedVersionError
from state_engine.storage import durable
from state_engine.text import UNDECODABLE, shorten

VERSION = 4
_FILE, _MUTEX = "wanted.json", "wanted.lock"
_LONGEST_CAUSE = 3_000
_KEPT = 500
"""How many of the newest attempts are kept."""


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver is started; a restart uses the same request. The environment, which may hold secrets, is not stored.

    Attributes:
        options: For the job's factory.
        parallelism: Subtasks of every operator; by default that of the job.
        cores: Task slots of the local Spark session.
        master: Address of a cluster; by default the session is local.
        python: The interpreter of the cluster's executors.
        environment: A packed environment that Spark sends to the executors.
        conf: Further settings of Spark.
        restore: What a new generation starts from. This happens once: a later restart goes on from the new epochs.
        uid_mapping: For the restore: former uids of operators to their current ones.
        max_parallelism: For the restore: new number of key groups for all keys.
        allow_non_restored_state: For the restore: skip the state of operators that the job no longer has.
        resume_state: Operators that were removed and added again, and go on with their old state.
        discard_state: Operators that were removed and added again, and start without state.
        keep_output: Do not change the sinks; for the restore, or only for this start, not a restart.
        adopt_sinks: Keep rows in sinks that the state root does not know about; only for this start, not a restart.
        allow_changed_sources: Numbers of sources that may have changed; only for this start, not a restart.
        strict: Fail if there is state that the code does not read.
        available_now: Stop after reading the input that is available now.
        trigger_interval_ms: Time between the beginnings of two epochs with input; by default that of the engine.
        rest_address: Where the job's REST server listens.
        rest_port: Its port.
        directory: Working directory, for relative paths in options; by default that of the process that starts it.
    """

    options: dict[str, str] = {}
    parallelism: int | None = None
    cores: str | None = None
    master: str | None = None
    python: str | None = None
    environment: str | None = None
    conf: dict[str, str] = {}
    restore: str | None = None
    uid_mapping: dict[str, str] = {}
    max_parallelism: int | None = None
    allow_non_restored_state: bool = False
    resume_state: tuple[str, ...] = ()
    discard_state: tuple[str, ...] = ()
    keep_output: bool = False
    adopt_sinks: bool = False
    allow_changed_sources: tuple[int, ...] = ()
    strict: bool = False
    available_now: bool = False
    trigger_interval_ms: int | None = None
    rest_address: str | None = None
    rest_port: int | None = None
    directory: str = ""

    def placed(self) -> "StartRequest":
        """Returns the request with a working directory: that of this process, unless the request has one."""
        return msgspec.structs.replace(self, directory=self.directory or str(Path.cwd()))

    def restored(self) -> "StartRequest":
        """Returns the request for a restart after the restore is done: the job goes on from the epochs since then."""
        return msgspec.structs.replace(
            self,
            restore=None,
            uid_mapping={},
            max_parallelism=None,
            allow_non_restored_state=False,
            resume_state=(),
            discard_state=(),
            keep_output=False,
            adopt_sinks=False,
            allow_changed_sources=(),
        )


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
        generation: The newest one of the job at the time of the request, if it has a restore; 0 if there was none.
        attempts: Starts since then, oldest first. The first one was requested, the others are restarts.
        gave_up: Why there are no more restarts; empty if there may be more.
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
