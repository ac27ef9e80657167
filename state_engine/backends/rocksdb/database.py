"""Controls who may open a database: one worker at a time, which keeps it open until another one wants it.

```
<folder of a key-group range>/
  0.lock     held (flock) by the owner; the kernel frees it when the owner dies
  0.wanted   another process waits for it
  0/db       the database; beside it `boot` (boot.py) and pieces of a load
  0.aside    a folder that is being made, or removed
  1.…        a second one, made by a process that waited without success
```

Why owners keep it open and hand it over, and do not close it after each task: docs/adr/0010-rocksdb-owners.md.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from state_engine.backends.rocksdb.locks import LOOK_EVERY_S, WAIT_S, Slot, take_slot
from state_engine.backends.rocksdb.options import Tuning
from state_engine.backends.rocksdb.ranges import RangeFolder
from state_engine.backends.rocksdb.store import Store
from state_engine.errors import LocalStateError


class LocalDatabase:
    """The database of one key-group range, as one instance of an operator sees it.

    Between `acquire` and `release` only this instance uses it. Otherwise it stays open, and is closed as soon as
    another process wants it.

    Args:
        folder: The folder of the range; made if it is missing. A `RangeFolder` may begin as a part of another range.
        tuning: Memory and options.
        wait_s: How long to wait for a busy owner.
    """

    def __init__(self, folder: Path | RangeFolder, tuning: Tuning, wait_s: float = WAIT_S) -> None:
        self._range = folder if isinstance(folder, RangeFolder) else None
        self.folder = folder.path if isinstance(folder, RangeFolder) else folder
        self._tuning = tuning
        self._wait_s = wait_s
        self._guard = threading.Lock()
        self._slot: Slot | None = None
        self._store: Store | None = None
        self._busy = False

    @property
    def store(self) -> Store:
        """The open database.

        Raises:
            LocalStateError: No database can be opened: the folder cannot be written.
        """
        if self._store is None:
            self.acquire()
        assert self._store is not None
        return self._store

    def acquire(self) -> bool:
        """Takes the database; True if others may have had it since the last time.

        If it cannot be opened, or if its folder is missing, it is replaced by an empty one.

        Raises:
            LocalStateError: No database can be opened: the folder cannot be written.
        """
        with self._guard:
            self._busy = True
            if self._slot is not None:
                if self._store is not None and self._slot.folder.exists():
                    return False
                self._close()  # the folder was deleted: the open files have no names any more
            with self._naming():
                self._take()
            return True

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStateError(
                f"No local state can be stored in {self.folder}: {error}",
                action="Let the workers write there, or give other folders with set_db_storage_paths().",
            ) from error

    def _take(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        slot = take_slot(self.folder, self._wait_s)
        try:
            if self._range is not None and not slot.folder.exists():
                self._range.begin(slot, self._tuning)
                self._range.sweep()
            try:
                self._store = self._open(slot)
            except LocalStateError:
                self._store = self._open_empty(slot)
        except BaseException:
            slot.unlock()
            raise
        self._slot = slot

    def _open(self, slot: Slot) -> Store:
        slot.folder.mkdir(exist_ok=True)
        return Store(slot.folder / "db", self._tuning)

    def _open_empty(self, slot: Slot) -> Store:
        slot.empty()
        return self._open(slot)

    def release(self) -> None:
        """Ends the task: from now on the database may be handed over."""
        with self._guard:
            self._busy = False
        LANDLORD.watch(self)

    def hand_over(self) -> bool:
        """Closes the database if another process wants it and no task uses it; True if it is closed."""
        with self._guard:
            if self._slot is not None and not self._busy and self._slot.wanted.exists():
                self._close()
            return self._store is None

    def discard(self) -> None:
        """Replaces the database by an empty one.

        Raises:
            LocalStateError: No empty one can be made: the old one cannot be removed.
        """
        with self._guard, self._naming():
            self._busy = True
            if self._slot is None:
                self._take()
            store, slot, self._store = self._store, self._slot, None
            assert slot is not None
            if store is not None:
                store.close()
            self._store = self._open_empty(slot)

    def close(self) -> None:
        """Closes the database and lets others take it; a damaged one is removed first."""
        with self._guard:
            self._busy = False
            self._close()

    def _close(self) -> None:
        store, slot, self._store, self._slot = self._store, self._slot, None, None
        if store is not None:
            store.close()
        if slot is not None:
            if store is None or store.damaged:
                with contextlib.suppress(OSError):  # the next process that opens it finds the same damage
                    slot.empty()
            slot.unlock()


class _Landlord:
    """Checks, in a thread of its own, whether another process wants a database that is idle in this process."""

    def __init__(self) -> None:
        self._idle: weakref.WeakSet[LocalDatabase] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def watch(self, database: LocalDatabase) -> None:
        """Watches a database until it is closed."""
        self._idle.add(database)
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():  # also in a process that was forked
            self._thread = threading.Thread(target=self._look, name="lakestate-databases", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while True:
            if not self._idle:
                self._wake.wait()
            self._wake.clear()
            time.sleep(LOOK_EVERY_S)
            for database in list(self._idle):
                with contextlib.suppress(OSError):
                    if database.hand_over():
                        self._idle.discard(database)


LANDLORD = _Landlord()


__all__ = ["LANDLORD", "LocalDatabase"]
