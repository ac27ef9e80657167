"""Slots: places for databases, each locked by one process at a time.

The lock is `flock` on a file next to the database. The kernel frees it when its process dies, however it dies.
"""

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

WAIT_S = 2.0
LOOK_EVERY_S = 0.01


class Slot:
    """A place for one database, locked by this process.

    A folder that is half made or half removed may look like a database. So folders are made and removed under `aside`,
    and a rename moves them into place or out of it. What is under `aside` when a slot is locked has no owner, and is
    removed.

    Attributes:
        folder: The folder that the owner has open, and that others may read while it is not locked.
        aside: Where a folder is made or removed. Its content is never trusted.
        wanted: The file by which another process requests the slot.
    """

    def __init__(self, lock: Path, descriptor: int) -> None:
        self.folder = lock.with_suffix("")
        self.aside = lock.with_suffix(".aside")
        self.wanted = lock.with_suffix(".wanted")
        self._descriptor = descriptor
        self.wanted.unlink(missing_ok=True)
        shutil.rmtree(self.aside, ignore_errors=True)

    def place(self) -> None:
        """Moves the folder under `aside` to the place of the slot's folder, which must not exist.

        Raises:
            OSError: It is still under `aside`.
        """
        os.rename(self.aside, self.folder)

    def empty(self) -> None:
        """Removes the slot's folder.

        Raises:
            OSError: It still exists.
        """
        shutil.rmtree(self.aside, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(self.folder, self.aside)
        shutil.rmtree(self.aside, ignore_errors=True)

    def unlock(self) -> None:
        """Releases the slot to others."""
        os.close(self._descriptor)


def try_lock(lock: Path) -> Slot | None:
    """Returns the slot of a lock file, or None while another owner holds it."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(lock).st_ino:
                os.utime(descriptor)
                return Slot(lock, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # it was removed between the two calls
        os.close(descriptor)


def lock_files(folder: Path) -> list[Path]:
    """Returns the lock files of a range, lowest number first."""
    return sorted(folder.glob("*.lock"), key=lambda lock: int(lock.stem))


def take_slot(folder: Path, wait_s: float = WAIT_S) -> Slot:
    """Returns a slot of a range: one that is free, or is handed over in time, otherwise a new one."""
    deadline = time.monotonic() + wait_s
    while True:
        locks = lock_files(folder) or [folder / "0.lock"]
        for lock in locks:
            slot = try_lock(lock)
            if slot is not None:
                return slot
        if time.monotonic() >= deadline:
            break
        locks[0].with_suffix(".wanted").touch()
        time.sleep(LOOK_EVERY_S)
    number = int(locks[-1].stem)
    while True:
        number += 1
        slot = try_lock(folder / f"{number}.lock")
        if slot is not None:
            return slot


__all__ = ["LOOK_EVERY_S", "WAIT_S", "Slot", "lock_files", "take_slot", "try_lock"]
