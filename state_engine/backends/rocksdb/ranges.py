"""The databases of an operator on one host: a folder per range, which may start as a part of another range.

After a rescale a subtask's range is new, but it may be part of a range that was served here before. Then its database
starts as a copy of that one (hard links: no bytes are copied), without the key groups of other subtasks. Ranges that
grew are loaded from the log.

The copy has the token of the other database. So it is made aside, and gets its place only when it is clipped, durably.
"""

import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from state_engine.backends.rocksdb.cells import head_range, state_range
from state_engine.backends.rocksdb.locks import Slot, lock_files, try_lock
from state_engine.backends.rocksdb.options import Tuning
from state_engine.backends.rocksdb.store import Changes, StateMeta, Store
from state_engine.backends.rocksdb.timers import TimerLog, groups_of_block
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange

KEEP_S = 3600.0
_WAIT_S = 0.5
_NAME = re.compile(r"(\d+)\.(\d+)-(\d+)\.(\d+)")


class RangeFolder(NamedTuple):
    """The folder of the databases of one range.

    Attributes:
        operator: Folder of all ranges of the operator.
        generation: Of the job.
        key_groups: The range.
        max_parallelism: Number of key groups.
    """

    operator: Path
    generation: int
    key_groups: KeyGroupRange
    max_parallelism: int

    @property
    def path(self) -> Path:
        """The folder."""
        first, last = self.key_groups
        return self.operator / f"{self.generation}.{first}-{last}.{self.max_parallelism}"

    def begin(self, slot: Slot, tuning: Tuning) -> None:
        """Fills a new slot with this range's part of another one, if such a range exists; else leaves it empty."""
        for donor in self._donors():
            try:
                if _copy_part(donor, slot.aside, tuning, self.key_groups, self.max_parallelism):
                    slot.place()
                    return
            except (LocalStateError, OSError):
                shutil.rmtree(slot.aside, ignore_errors=True)

    def _donors(self) -> list[Path]:
        """Returns the folders of ranges that contain this one, the newest generation and the narrowest range first."""
        donors = []
        for folder in self.operator.iterdir():
            name = _NAME.fullmatch(folder.name)
            if name is None or folder == self.path:
                continue
            generation, first, last, key_groups = map(int, name.groups())
            contains = first <= self.key_groups.first and self.key_groups.last <= last
            if contains and key_groups == self.max_parallelism and generation <= self.generation:
                donors.append((-generation, last - first, folder))
        return [folder for _, _, folder in sorted(donors)]

    def sweep(self, keep_s: float = KEEP_S) -> None:
        """Removes databases of other ranges that no process has used for `keep_s` seconds."""
        for folder in self.operator.iterdir():
            if folder != self.path and _NAME.fullmatch(folder.name):
                with suppress(OSError):
                    _remove_unused(folder, time.time() - keep_s)


def _remove_unused(folder: Path, since: float) -> None:
    locks = lock_files(folder)
    if any(lock.stat().st_mtime > since for lock in locks):
        return
    slots = [slot for slot in map(try_lock, locks) if slot is not None]
    try:
        if len(slots) == len(locks):
            for slot in slots:
                slot.empty()
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        for slot in slots:
            slot.unlock()


def _copy_part(donor: Path, target: Path, tuning: Tuning, key_groups: KeyGroupRange, max_parallelism: int) -> bool:
    slot = _take_filled(donor)
    if slot is None:
        return False
    try:
        whole = Store(slot.folder / "db", tuning)
        try:
            target.mkdir()
            whole.copy_to(target / "db")
        finally:
            whole.close()
    finally:
        slot.unlock()
    part = Store(target / "db", tuning)
    try:
        _clip(part, key_groups, max_parallelism)
    finally:
        part.close()
    return True


def _take_filled(folder: Path) -> Slot | None:
    """Returns a slot with a database in it, which is free or is handed over in time."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        locks = [lock for lock in lock_files(folder) if (lock.with_suffix("") / "db").exists()]
        for lock in locks:
            slot = try_lock(lock)
            if slot is not None:
                return slot
            lock.with_suffix(".wanted").touch()
        if not locks or time.monotonic() >= deadline:
            return None
        time.sleep(0.01)


def _clip(store: Store, key_groups: KeyGroupRange, max_parallelism: int) -> None:
    """Removes the key groups outside the range, and counts anew."""
    first, last = key_groups
    width = groups_of_block(max_parallelism)
    cuts_blocks = first % width > 0 or ((last + 1) % width > 0 and last + 1 < max_parallelism)
    changes = Changes()
    for name, state in list(store.meta.states.items()):
        begin, end = state_range(state.number)
        if cuts_blocks and state.form == TimerLog.form:
            changes.ranges.append((begin, end))  # cells of timers are not cut: they will be loaded from the log
            del store.meta.states[name]
            continue
        changes.ranges.append((begin, head_range(state.number, first)[0]))
        if last + 1 < max_parallelism:
            changes.ranges.append((head_range(state.number, last + 1)[0], end))
        store.meta.states[name] = _counted(store, state, key_groups)
    store.write(changes, sync=True)  # else a crash of the machine may keep the copy's token and lose this write


def _counted(store: Store, state: StateMeta, key_groups: KeyGroupRange) -> StateMeta:
    keys = rows = 0
    for group in range(key_groups.first, key_groups.last + 1):
        for _, head in store.scan(*head_range(state.number, group)):
            keys += 1
            rows += 1 if state.single else int.from_bytes(head[:8], "big")
    return msgspec.structs.replace(state, rows=rows, keys=keys)


__all__ = ["KEEP_S", "RangeFolder"]
