"""The publisher behind the `Publisher` port: one checkpoint at a time, in the background, never in the stream's way."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from state_engine.checkpoint.attempt import World, app_id, publish
from state_engine.checkpoint.rows import aborted_row, failed_row
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, newest_base
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch.crash_points import NoCrash
from state_engine.epoch.ports import CheckpointEnd, Crash
from state_engine.errors import LakestateError, StorageError
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import BaseReference, Manifest
from state_engine.storage.background import Background, Inline
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.tables import Tables, open_tables


class PublishEvent(NamedTuple):
    """How a checkpoint ended. `base` is null when it failed."""

    checkpoint_id: int
    base: BaseReference | None
    failure: str = ""


class CheckpointPublisher:
    """Publishes checkpoints and reports how they ended.

    All methods are for the driver's thread; folding runs where `background` runs it, one checkpoint after the other.
    A publish that fails leaves a failed row behind; the next checkpoint covers its interval. The log is read through
    a `ManifestLog` of its own, since that is not for two threads.

    Args:
        storage: The job's storage.
        job: Its name.
        tables: The job's tables; by default those that suit the storage.
        background: Where folding runs; on the caller's thread by default.
        clock: Time.
        ids: New names.
        crash: Places where a test ends the process.
        on_end: Is told how each checkpoint ended, during a later call of `completed` or `finish`.
        open_job: Opens the storage of another job: the first checkpoint of a forked job folds that one's files too.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        job: str,
        *,
        tables: Tables | None = None,
        background: Background | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        crash: Crash | None = None,
        on_end: Callable[[PublishEvent], None] | None = None,
        open_job: Callable[[str], CheckpointStorage] | None = None,
    ) -> None:
        tables = tables or open_tables(storage)
        self._world = World(
            job=job,
            storage=storage,
            tables=tables,
            rows=CheckpointTable(storage, tables),
            log=ManifestLog(storage, job, open_job=open_job),
            clock=clock or SystemClock(),
            ids=ids or RandomIds(),
            crash=crash or NoCrash(),
            open_job=open_job,
        )
        self._background = background or Inline()
        self._on_end = on_end
        self._ended: deque[PublishEvent] = deque()  # filled in the background, emptied by the driver
        self._visible: BaseReference | None = None  # written where folding runs, and by `finish` while nothing runs
        self._completed: BaseReference | None = None
        self._untold: list[CheckpointEnd] = []
        self.failures = 0

    def begin(self, sealed: StoredManifest) -> None:
        if sealed.manifest.checkpoint_id is not None:
            self._background.submit(lambda: self._run(sealed))

    def completed(self) -> BaseReference | None:
        while self._ended:
            event = self._ended.popleft()
            self._completed = event.base or self._completed
            self.failures += event.base is None
            self._untold.append(CheckpointEnd(event.checkpoint_id, completed=event.base is not None))
            if self._on_end is not None:
                self._on_end(event)
        return self._completed

    def has_ended(self) -> bool:
        return bool(self._ended or self._untold)

    def ended(self) -> Sequence[CheckpointEnd]:
        self.completed()
        ends, self._untold = self._untold, []
        return ends

    def finish(self, head: StoredManifest) -> BaseReference | None:
        self._background.wait()
        self._visible = self._completed = newest_base(self._world.rows.newest_first(), head.manifest)
        owed = self._owed(head)
        if owed:
            now = self._world.clock.now_ms()
            self._run(owed[-1], [aborted_row(stored, owed[-1], now) for stored in owed[:-1]])
            if self._ended[-1].base is not None:
                joined = [stored.manifest.checkpoint_id or 0 for stored in owed[:-1]]
                self._untold.extend(CheckpointEnd(checkpoint_id, completed=False) for checkpoint_id in joined)
        return self.completed()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until everything that was begun has ended; False when the time is over first."""
        return self._background.wait(timeout_s)

    def next_checkpoint_id(self) -> int:
        """Returns an id above those of all rows and of all sealed epochs of the job, abandoned ones included."""
        log = self._world.log
        highest = self._world.rows.highest_id()
        for generation in log.generations():
            newest = log.newest(generation)
            while newest is not None and newest.manifest.checkpoint_id is None:
                # An id that is older than the adopted base has a row; those behind it are found by walking back.
                base, before = newest.manifest.base, newest.manifest.epoch - 1
                here = newest.manifest.lineage[-1].first <= before and (base is None or before > base.epoch)
                newest = log.read(generation, before) if here else None
            highest = max(highest, newest.manifest.checkpoint_id or 0 if newest is not None else 0)
        return highest + 1

    def _owed(self, head: StoredManifest) -> list[StoredManifest]:
        """Checkpoints of the running generation, behind the newest base, of which no row tells the end."""
        after = self._visible.epoch if self._visible is not None else 0
        wanted = {
            stored.manifest.checkpoint_id: stored
            for stored in self._world.log.chain(head)
            if (stored.manifest.job, stored.manifest.generation) == (self._world.job, head.manifest.generation)
            and stored.manifest.checkpoint_id is not None
            and stored.manifest.epoch > after
        }
        lowest = min(wanted, default=0)
        for row in self._world.rows.newest_first() if wanted else ():
            if (row.checkpoint_id or 0) < lowest:
                break
            wanted.pop(row.checkpoint_id or 0, None)
        return list(wanted.values())

    def _run(self, sealed: StoredManifest, joined: Sequence[CheckpointRow] = ()) -> None:
        """Publishes one checkpoint and notes how it ended. Only a simulated crash gets out."""
        manifest = sealed.manifest
        assert manifest.checkpoint_id is not None
        try:
            base = publish(self._world, sealed, self._newest_base(manifest), joined)
        except Exception as error:
            failure = str(error) if isinstance(error, LakestateError) else f"{type(error).__name__}: {error}"
            self._record(sealed, failure)
            self._ended.append(PublishEvent(manifest.checkpoint_id, None, failure))
        else:
            self._visible = base
            self._ended.append(PublishEvent(manifest.checkpoint_id, base))

    def _newest_base(self, manifest: Manifest) -> BaseReference | None:
        """The base that the manifest names, or a newer one that became visible since, if it is on the same lineage."""
        named, seen = manifest.base, self._visible
        if seen is None or seen.epoch >= manifest.epoch or not contains(manifest.lineage, seen.generation, seen.epoch):
            return named
        return seen if named is None or seen.epoch > named.epoch else named

    def _record(self, sealed: StoredManifest, failure: str) -> None:
        row = failed_row(sealed, self._world.clock.now_ms(), failure)
        try:
            self._world.rows.append([row], app_id=f"{app_id(sealed.manifest)}/failed", version=sealed.manifest.epoch)
        except StorageError:
            # The storage is what failed; the driver counts the failure, and `finish` sees a checkpoint without a row.
            return


__all__ = ["CheckpointPublisher", "PublishEvent"]
