"""Deaths of processes and machines before any step that changes databases on disk."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Checkpoint, Rdict

from state_engine.backends.rocksdb import boot, locks, store

WRITES = ("write", "put", "__setitem__", "delete", "__delitem__", "delete_range", "merge", "ingest_external_file")


class Died(BaseException):
    """The process has died. No `except Exception` catches this, as none catches SIGKILL."""


class Life:
    """Counts the steps of one process, and ends it before one of them.

    Args:
        steps: How many steps the process has.

    Attributes:
        left: How many of the steps are left.
    """

    def __init__(self, steps: int) -> None:
        self.left = steps
        self._synced: dict[int, int] = {}

    @contextmanager
    def lived(self) -> Iterator[None]:
        """Counts steps until the end of the block; a death ends only the block."""
        place = locks.Slot.place

        def place_or_die(slot: locks.Slot) -> None:
            self.spend()
            place(slot)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "Rdict", lambda *args: Mortal(Rdict(*args), self))
            patch.setattr(store, "Checkpoint", self._checkpoint)
            patch.setattr(locks.Slot, "place", place_or_die)
            with suppress(Died):
                yield

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died

    def _checkpoint(self, database: "Mortal") -> Any:
        self.spend()
        return Checkpoint(database.opened)

    def synced(self, database: Rdict) -> None:
        """Records that the logs of a database are durable in their current state."""
        for log in Path(database.path()).glob("*.log"):
            self._synced[log.stat().st_ino] = log.stat().st_size

    def left_by_the_machine(self, folder: Path) -> Path:
        """Returns a copy of a folder as it is if the machine dies now: unsynced parts of logs are lost.

        RocksDB syncs its other files, and names them in folders that it has synced.
        """
        copy = folder.with_name(f"{folder.name}-after")
        while True:
            try:
                shutil.copytree(folder, copy)
                break
            except shutil.Error:  # a compaction in the background has removed files
                shutil.rmtree(copy)
        for log in folder.rglob("*.log"):
            os.truncate(copy / log.relative_to(folder), self._synced.get(log.stat().st_ino, 0))
        return copy


class Mortal:
    """An open database; each write to it costs one step of a life."""

    def __init__(self, opened: Rdict, life: Life) -> None:
        self.opened = opened
        self._life = life

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            self._life.spend()
        return getattr(self.opened, name)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._life.spend()
        self.opened[key] = value

    def __delitem__(self, key: bytes) -> None:
        self._life.spend()
        del self.opened[key]

    def write(self, batch: Any, options: Any = None) -> None:
        self._life.spend()
        self.opened.write(batch, options)
        if options is not None and options.sync:
            self._life.synced(self.opened)


def die_while_removing(patch: pytest.MonkeyPatch, files: str) -> None:
    """Lets this process die in the first removal of an existing folder, after some of its files were removed."""

    def rmtree(folder: Path, **how: Any) -> None:
        if folder.exists():
            for file in folder.rglob(files):
                file.unlink()
            raise Died

    patch.setattr(shutil, "rmtree", rmtree)


@contextmanager
def another_boot() -> Iterator[None]:
    """Simulates a restart of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boot, "boot_id", lambda: "another")
        yield
