"""Stores the settings of the last `lakestate up` in a folder (`up.json`, version 2), and admits one command at a time.

The file does not list the processes: each holds a lock as long as it lives.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lakestate.up.errors import BusyError, ForeignFolderError
from state_engine.errors import CorruptionError, UnsupportedVersionError
from state_engine.text import UNDECODABLE

VERSION = 2
_READABLE = (1, 2)  # version 1 had no Kafka
_FILE, _MUTEX = "up.json", "up.lock"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the last `lakestate up`.

    Attributes:
        version: Of this format.
        port: Port of Dagster's address.
        every_s: Time between two input files.
        kafka: Whether there is a Kafka broker.
        kafka_port: Its port, also after an `up` without it, since the job knows it by its address; null before.
    """

    version: int = VERSION
    port: int
    every_s: float
    kafka: bool = False
    kafka_port: int | None = None

    @property
    def url(self) -> str:
        """Dagster's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def kafka_servers(self) -> str:
        """The address of the Kafka broker."""
        return f"127.0.0.1:{self.kafka_port}"


class _Version(msgspec.Struct):
    version: int


def read_record(folder: Path) -> Record | None:
    """Returns the settings of the last `up` in the folder; null if there was none.

    Raises:
        ForeignFolderError: The folder contains something else.
        CorruptionError: The record cannot be read.
        UnsupportedVersionError: A later release has written the record.
    """
    path = folder / _FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        _check_empty(folder)
        return None
    except NotADirectoryError:
        raise ForeignFolderError(
            f"{folder} is not a folder.", action="Name an empty or new folder with --dir."
        ) from None
    try:
        if (version := msgspec.json.decode(data, type=_Version).version) in _READABLE:
            return msgspec.structs.replace(msgspec.json.decode(data, type=Record), version=VERSION)
    except UNDECODABLE as error:
        action = "End what runs with `lakestate down`, and remove the file. This loses no state."
        raise CorruptionError(f"{path} cannot be read: {error}.", action=action) from error
    raise UnsupportedVersionError(
        f"{path} has version {version}; this release reads up to version {VERSION}.",
        action="Use the release that wrote it, or name another folder with --dir.",
    )


def write_record(folder: Path, record: Record) -> None:
    """Replaces the record."""
    draft = folder / f".{_FILE}.part"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    draft.replace(folder / _FILE)


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keeps other commands out of the folder, which must exist, until the block ends.

    Raises:
        BusyError: Another command is running in it.
    """
    with (folder / _MUTEX).open("ab") as mutex:
        try:
            fcntl.flock(mutex.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            action = "Wait until it has ended; `lakestate up --status` works without waiting."
            raise BusyError(f"Another command is running in {folder}.", action=action) from None
        yield


def _check_empty(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if any(name != _MUTEX for name in os.listdir(folder)):
            raise ForeignFolderError(
                f"{folder} contains files that `lakestate up` has not made.",
                action="Name an empty or new folder with --dir.",
            )


__all__ = ["VERSION", "Record", "only_one", "read_record", "write_record"]
