"""Makes a table's log survive a power cut on local disks, which delta-rs leaves to the operating system.

If a power cut leaves only the name of a commit's file, that is harmless as long as the file is empty: it is read as a
version without changes, and the commit is made again. If it leaves only the name of a checkpoint's file, the table is
unreadable as soon as `_last_checkpoint` names it. delta-rs writes both at once and syncs neither. So on local disks the
checkpoint is made in another folder, from links to the log, and put into the log durably before it is named.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from deltalake import DeltaTable

from state_engine.errors import AlreadyExistsError
from state_engine.storage import durable
from state_engine.storage.delta_digests import HINT, LOG, Hint, with_digests
from state_engine.storage.local import LocalStorage
from state_engine.storage.roots import local_path
from state_engine.text import UNDECODABLE

_OLD_S = 600
"""Age at which a temporary file without a lock is what a dead process has left."""
_NUMBERED = re.compile(r"(\d{20})\..+")


def local_root(path: str) -> Path | None:
    """Returns the folder of a table; None if it is not on a local disk."""
    folder = local_path(path)
    return Path(folder) if folder is not None else None


def make_root(path: str) -> None:
    """Makes the folder of a table that is about to be created, if it is local, durably."""
    if (root := local_root(path)) is not None:
        folder = os.path.abspath(root)
        durable.make_folder(folder, folder)


def sync_commit(path: str, version: int) -> None:
    """Makes one entry of the log durable, if the table is local.

    Raises:
        OSError: It is unknown whether it is durable.
    """
    if (root := local_root(path)) is not None:
        with suppress(FileNotFoundError):  # cleaned up since: a checkpoint replaces it
            durable.sync(str(root / LOG / f"{version:020d}.json"))
        durable.sync(str(root / LOG))


def sync_log(path: str) -> None:
    """Makes everything durable that a reader of the newest version reads, if the table is local.

    Raises:
        OSError: It is unknown whether it is durable.
    """
    if (root := local_root(path)) is not None:
        log = root / LOG
        for file in [*_files(log, _hinted(log)), log / HINT]:
            with suppress(FileNotFoundError):
                durable.sync(str(file))
        durable.sync(str(log))
        durable.sync(str(root))


def write_checkpoint(path: str, version: int) -> None:
    """Writes a checkpoint of a version of a table; of a local one durably, before `_last_checkpoint` names it.

    Does nothing if another writer of a local table has written one of this version or a later one. In a bucket it may
    be of a later version.

    Raises:
        DeltaError, OSError, StorageError: It was not written. The table is as usable as before.
    """
    root = local_root(path)
    if root is None:
        DeltaTable(path).create_checkpoint()
        return
    log = root / LOG
    first = _hinted(log)
    if first >= version:
        return
    storage = LocalStorage(log)
    for leftover in storage.abandoned():
        if leftover.modified_ms < 1000 * (time.time() - _OLD_S):  # a new one may not have its lock yet
            storage.delete(leftover.path)
    with TemporaryDirectory(prefix="lakestate-checkpoint-") as scratch:
        twin = Path(scratch, LOG)
        twin.mkdir()
        linked = {file.name for file in _files(log, first, version)} | {"_sidecars"}
        for name in linked & set(os.listdir(log)):
            (twin / name).symlink_to(os.path.abspath(log / name))
        if (log / HINT).exists():
            shutil.copyfile(log / HINT, twin / HINT)
        DeltaTable(scratch).create_checkpoint()
        ours = {}
        for made in sorted(set(os.listdir(twin)) - linked - {HINT}):
            data = (twin / made).read_bytes()
            with suppress(AlreadyExistsError):
                storage.put_if_absent(made, data)
                ours[made] = data
        if _hinted(log) < version:
            durable.replace(str(log / HINT), with_digests((twin / HINT).read_bytes(), ours))


def _files(log: Path, first: int, last: int | None = None) -> Iterator[Path]:
    """Yields the entries and checkpoints of the versions from `first` to `last`."""
    for name in sorted(os.listdir(log)):
        numbered = _NUMBERED.fullmatch(name)
        if numbered is not None and first <= int(numbered[1]) and (last is None or int(numbered[1]) <= last):
            yield log / name


def _hinted(log: Path) -> int:
    """Returns the version from which a reader begins: that of the checkpoint in `_last_checkpoint`, or 0."""
    try:
        return msgspec.json.decode((log / HINT).read_bytes(), type=Hint).version
    except (FileNotFoundError, *UNDECODABLE):
        return 0


__all__ = ["local_root", "make_root", "sync_commit", "sync_log", "write_checkpoint"]
