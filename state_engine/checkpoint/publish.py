"""Implements the `Publisher` port: one checkpoint at a time, in the background; the stream never waits for it."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from state_engine.api.checkpoint_storage import CheckpointStorage as CheckpointStorageSetting
from state_engine.api.checkpoint_storage import checkpoint_storage_of
from state_engine.causes import report_of
from state_engine.checkpoint.attempt import AbandonedError, World, app_id, publish
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.floors import read_floors
from state_engine.checkpoint.rows import TRIGGER, ended_row
from state_engine.checkpoint.table import CheckpointTable, newest_base
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch.crash_points import NoCrash
from state_engine.epoch.ports import CheckpointEnd, Crash, Mark
from state_engine.errors import LakestateError, NotFoundError
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline
from state_engine.log.records import Base, BaseReference, Manifest
from state_engine.storage.background import Background, Inline
from state_engine.storage.checkpoint_storage import CheckpointStorageAccess
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open_access import open_access, open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.tables import Tables


class PublishEvent(NamedTuple):
    """How a checkpoint ended: with a base, or with the reason why it did not complete."""

    checkpoint_id: int
    base: BaseReference | None
    reason: FailureReason | None = None
    message: str = ""


class Work(NamedTuple):
    """A checkpoint that is to be published."""

    sealed: StoredManifest
    mark: Mark


class CheckpointPublisher:
    """Publishes checkpoints and reports how they ended.

    All methods are for the driver's thread; folding runs where `background` runs it, one checkpoint after the other.
    If several wait, only the newest is published: it covers the others, which are subsumed. A publish that fails leaves
    a row; the next checkpoint covers its interval. The publisher reads the log through its own `ManifestLog`, because
    two threads must not share one.

    Args:
        storage: The job's storage.
        job: Its name.
        tables: The job's tables; by default those that suit the storage.
        checkpoint_storage: Keeps the folded state. By default the one that kept the base before, and tables without a
            base: a caller that publishes for a job that does not run need not know what its author chose.
        background: Where folding runs; on the caller's thread by default.
        clock: Time.
        ids: New names.
        crash: Places where a test ends the process.
        on_end: Called with the end of each checkpoint, during a later call of `completed` or `finish`.
        open_job: Opens the storage of another job: the first checkpoint of a fork also folds files of that job.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        job: str,
        *,
        tables: Tables | None = None,
        checkpoint_storage: CheckpointStorageSetting | None = None,
        background: Background | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        crash: Crash | None = None,
        on_end: Callable[[PublishEvent], None] | None = None,
        open_job: Callable[[str], CheckpointStorage] | None = None,
    ) -> None:
        tables, ids = tables or open_tables(storage), ids or RandomIds()

        def access_for(base: Base | None) -> CheckpointStorageAccess:
            setting = checkpoint_storage or (checkpoint_storage_of(base.storage) if base is not None else None)
            return open_access(setting, storage, tables=tables, ids=ids)

        self._world = World(
            job=job,
            storage=storage,
            access_for=access_for,
            rows=CheckpointTable(storage, tables),
            log=ManifestLog(storage, job, open_job=open_job),
            clock=clock or SystemClock(),
            ids=ids,
            crash=crash or NoCrash(),
            open_job=open_job,
        )
        self._background = background or Inline()
        self._on_end = on_end
        self._ended: deque[PublishEvent] = deque()  # filled in the background, emptied by the driver
        self._waiting: deque[Work] = deque()  # filled by the driver, emptied in the background
        self._open: set[int] = set()  # used by the driver: begun, and it has seen no end
        # The side that sets an id first decides: the driver that it is abandoned, or the background how it ends. The
        # other side removes the id once it has seen that.
        self._decided: dict[int, Literal["abandoned", "visible", "ended"]] = {}
        self._visible: BaseReference | None = None  # written where folding runs, and by `finish` while nothing runs
        self._completed: BaseReference | None = None
        self._untold: list[CheckpointEnd] = []
        self.failures = 0

    def begin(self, sealed: StoredManifest, mark: Mark | None = None) -> None:
        if sealed.manifest.checkpoint_id is not None:
            work = Work(sealed, mark or _owed_mark(sealed))
            self._open.add(work.mark.checkpoint_id)
            self._waiting.append(work)
            self._background.submit(self._publish_newest)

    def abandon(self, checkpoint_id: int) -> bool:
        if checkpoint_id not in self._open or self._decided.setdefault(checkpoint_id, "abandoned") != "abandoned":
            return False
        self._open.remove(checkpoint_id)
        self._ended.append(PublishEvent(checkpoint_id, None, FailureReason.CHECKPOINT_EXPIRED))
        return True

    def completed(self) -> BaseReference | None:
        while self._ended:
            event = self._ended.popleft()
            self._open.discard(event.checkpoint_id)
            if self._decided.get(event.checkpoint_id) != "abandoned":
                self._decided.pop(event.checkpoint_id, None)
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

    def finish(self, head: StoredManifest, mark: Mark | None = None) -> BaseReference | None:
        """Publishes the checkpoints that a chain owes; `mark` is that of one on `head` itself, if it is known."""
        self._background.wait()
        self._visible = self._completed = newest_base(self._world.rows.newest_first(), head.manifest)
        owed = self._owed(head)
        if owed:
            work = [Work(stored, mark if mark and stored is owed[-1] else _owed_mark(stored)) for stored in owed]
            self._run(work[-1], work[:-1], FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        return self.completed()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until everything that was begun has ended; False when the time is over first."""
        return self._background.wait(timeout_s)

    def next_checkpoint_id(self) -> int:
        """Returns an id above those of all rows and of all sealed epochs of the job, abandoned ones included."""
        log = self._world.log
        freed = (floor.checkpoint_id for floor in read_floors(self._world.storage))
        highest = max(self._world.rows.highest_id(), *freed, 0)
        for generation in log.generations():
            newest: StoredManifest | Outline | None = log.newest(generation)
            while newest is not None and newest.manifest.checkpoint_id is None:
                # An id that is older than the adopted base has a row; later ones are found by walking back.
                base, before = newest.manifest.base, newest.manifest.epoch - 1
                continues = newest.manifest.lineage[-1].first <= before and (base is None or before > base.epoch)
                try:
                    newest = log.read_outline(generation, before) if continues else None
                except NotFoundError:  # below the floor, which records the ids of what is gone
                    break
            highest = max(highest, (newest.manifest.checkpoint_id or 0) if newest is not None else 0)
        log.forget_outlines()  # of `finish`, too: the start is over
        return highest + 1

    def _owed(self, head: StoredManifest) -> list[StoredManifest]:
        """Returns the checkpoints of the running generation after the newest base that have no row about their end."""
        after = self._visible.epoch if self._visible is not None else 0
        owed = {
            manifest.checkpoint_id: manifest.epoch
            for manifest, *_ in self._world.log.outlines(head)
            if (manifest.job, manifest.generation) == (self._world.job, head.manifest.generation)
            and manifest.checkpoint_id is not None
            and manifest.epoch > after
        }
        lowest = min(owed, default=0)
        for row in self._world.rows.newest_first() if owed else ():
            if (row.checkpoint_id or 0) < lowest:
                break
            owed.pop(row.checkpoint_id or 0, None)
        return [self._world.log.read(head.manifest.generation, epoch) for epoch in owed.values()]

    def _publish_newest(self) -> None:
        work = [self._waiting.popleft() for _ in range(len(self._waiting))]
        end = max((n for n, one in enumerate(work, 1) if not self._is_abandoned(one)), default=0)
        if end:
            self._run(work[end - 1], work[: end - 1], FailureReason.CHECKPOINT_SUBSUMED)
        self._fail(work[end:], FailureReason.CHECKPOINT_EXPIRED, "It waited for others.")

    def _run(self, work: Work, joined: Sequence[Work], why: FailureReason) -> None:
        """Publishes one checkpoint; reports its end and the ends of those it covers. Raises only a simulated crash."""
        head, checkpoint_id = work.sealed.manifest, work.mark.checkpoint_id
        now = self._world.clock.now_ms()
        covered = f"Its interval joined checkpoint {checkpoint_id}."
        rows = [ended_row(one.sealed, one.mark, self._reason(one, why), now, covered) for one in joined]
        mark = Mark(
            checkpoint_id=checkpoint_id,
            full=work.mark.full or any(one.mark.full and not self._is_abandoned(one) for one in joined),
            trigger=work.mark.trigger,
        )
        try:
            base = publish(self._world, work.sealed, self._newest_base(head), mark, rows, self._may_become_visible)
        except AbandonedError:
            return self._fail([*joined, work], FailureReason.CHECKPOINT_EXPIRED, "")
        except Exception as error:
            visible = self._visible_after_all(checkpoint_id)
            if visible is None:
                return self._fail([*joined, work], FailureReason.FINALIZE_CHECKPOINT_FAILURE, report_of(error))
            base = visible
        self._visible = base
        for one in joined:
            self._tell(PublishEvent(one.mark.checkpoint_id, None, why, covered))
        self._tell(PublishEvent(checkpoint_id, base))

    def _visible_after_all(self, checkpoint_id: int) -> BaseReference | None:
        """Returns the base of the checkpoint's row, if that exists although appending it gave no answer."""
        if self._decided.get(checkpoint_id) != "visible":
            return None
        try:
            rows = self._world.rows.newest_first()
            for row in takewhile(lambda row: (row.checkpoint_id or 0) >= checkpoint_id, rows):
                if (row.checkpoint_id, row.status) == (checkpoint_id, "completed"):
                    return row.base
        except LakestateError:
            pass
        return None

    def _may_become_visible(self, checkpoint_id: int) -> bool:
        return self._decided.setdefault(checkpoint_id, "visible") == "visible"

    def _is_abandoned(self, work: Work) -> bool:
        return self._decided.get(work.mark.checkpoint_id) == "abandoned"

    def _reason(self, work: Work, otherwise: FailureReason) -> FailureReason:
        return FailureReason.CHECKPOINT_EXPIRED if self._is_abandoned(work) else otherwise

    def _fail(self, work: Sequence[Work], reason: FailureReason, message: str) -> None:
        """Records checkpoints that do not complete, in the order of epochs.

        A row that is written after the row of a later epoch would be left out.
        """
        for one in work:
            own_reason = self._reason(one, reason)
            self._record(one, own_reason, message)
            self._tell(PublishEvent(one.mark.checkpoint_id, None, own_reason, message))

    def _tell(self, event: PublishEvent) -> None:
        """Reports an end to the driver, unless the driver abandoned the checkpoint itself: once for each end."""
        if self._decided.setdefault(event.checkpoint_id, "ended") == "abandoned":
            del self._decided[event.checkpoint_id]
        else:
            self._ended.append(event)

    def _newest_base(self, manifest: Manifest) -> BaseReference | None:
        """Returns the manifest's base, or a newer one that became visible since, if it is on the same lineage."""
        named, seen = manifest.base, self._visible
        if seen is None or seen.epoch >= manifest.epoch or not contains(manifest.lineage, seen.generation, seen.epoch):
            return named
        return seen if named is None or seen.epoch > named.epoch else named

    def _record(self, work: Work, reason: FailureReason, message: str) -> None:
        manifest = work.sealed.manifest
        row = ended_row(work.sealed, work.mark, reason, self._world.clock.now_ms(), message)
        try:
            self._world.rows.append([row], app_id=f"{app_id(manifest)}/failed", version=manifest.epoch)
        except LakestateError:
            # The storage failed; the driver counts the failure, and `finish` sees a checkpoint without a row.
            return


def _owed_mark(stored: StoredManifest) -> Mark:
    """Returns the mark of a checkpoint that is known from its manifest alone."""
    return Mark(checkpoint_id=stored.manifest.checkpoint_id or 0, trigger=TRIGGER)


__all__ = ["CheckpointPublisher", "PublishEvent", "Work"]
