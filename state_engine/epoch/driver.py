"""Runs the driver's part of one epoch: E1, E6 to E9. E2 to E5 happen behind the `Tasks` port.

```
 E1 plan ──> tasks run (E2–E5) ──> acknowledge ──> E6 put ──> E7 sinks ──> E9 publish begins ──> E8 return
               ^                       │ two attempts read, an ack missing, the engine gave up
               └───── retry + 1 ───────┘
```
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from msgspec.structs import replace

from state_engine.causes import cause_line, report_of, sentence
from state_engine.clock import Clock
from state_engine.epoch import carry, debts
from state_engine.epoch.acks import Answer, acknowledge
from state_engine.epoch.broadcast import check_broadcast
from state_engine.epoch.compatibility import check_migrated, merge_schemas, written_of
from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.failures import error_of, is_final
from state_engine.epoch.inlining import inline_budget, take_inlined
from state_engine.epoch.key_groups import RestoredRows, restored_groups
from state_engine.epoch.ports import (
    Barriers,
    CheckpointEnd,
    Crash,
    EpochPlan,
    Log,
    Mark,
    OperatorPlan,
    Publisher,
    Sinks,
    SourcePositions,
    Tasks,
)
from state_engine.epoch.request import Head
from state_engine.epoch.rescale import RescaleRequest, Rescales
from state_engine.epoch.seal import seal
from state_engine.epoch.watermarks import NO_TIMERS, advance, at_end, earliest_timers, finishing, has_ended, is_due
from state_engine.errors import EpochError, FencedError, LakestateError, StopRequestedError, StorageError
from state_engine.log.manifest import StoredManifest, inlined_bytes
from state_engine.log.records import Ack, Manifest, ManifestKind, OperatorEpoch

Acks = dict[str, tuple[Ack, ...]]


class EpochDriver:
    """Seals epoch after epoch for one incarnation.

    Args:
        head: What `StartUp.run` returned: the incarnation's own claim; its debts are paid.
        log: The job's chain of manifests.
        sinks: All sinks of the job.
        publisher: Publishes checkpoints in the background.
        barriers: Decides which epochs carry a checkpoint.
        clock: Processing time.
        crash: Called at every named place.
        lock: The epoch lock, held during an epoch: batches and idle epochs never overlap.
        max_attempts: How often one epoch is run before its error is raised.
        put_attempts: How often one manifest is put while the storage gives no answer.
        sink_attempts: How often a sink commit is tried.
        inline_threshold: Largest change file, in bytes, that may be inlined in the manifest; 0 for none.
        on_retry: Called before an epoch runs again, with the plan of that attempt, and the error of the last one.
    """

    def __init__(
        self,
        head: Head,
        log: Log,
        sinks: Sinks,
        publisher: Publisher,
        barriers: Barriers,
        clock: Clock,
        crash: Crash | None = None,
        *,
        lock: AbstractContextManager[Any] | None = None,
        max_attempts: int = 4,
        put_attempts: int = 5,
        sink_attempts: int = 3,
        inline_threshold: int = 0,
        on_retry: Callable[[EpochPlan, LakestateError], None] = lambda *_: None,
    ) -> None:
        self._root = head.root
        self._rescales = Rescales(head.operators, head.declared)
        self._base = head.base
        self._head = head.stored
        self._since = head.stored.manifest.processing_time  # of its own claim: this driver did not run before
        self._log = log
        self._sinks = sinks
        self._publisher = publisher
        self._barriers = barriers
        self._clock = clock
        self._crash: Crash = crash or NoCrash()
        self._lock = lock or nullcontext()
        self._max_attempts = max_attempts
        self._put_attempts = put_attempts
        self._sink_attempts = sink_attempts
        self._inline_threshold = inline_threshold
        self._on_retry = on_retry
        self._ended: LakestateError | None = None
        self._stopping = False
        self._notices: list[CheckpointEnd] = []

    @property
    def head(self) -> StoredManifest:
        """The newest manifest that this incarnation has sealed."""
        return self._head

    @property
    def operators(self) -> tuple[OperatorPlan, ...]:
        """The operators as they ran in the newest epoch, or will in the first."""
        return self._rescales.operators

    def rescale(self, request: RescaleRequest) -> None:
        """Gives operators another parallelism from the next epoch on; may be called from any thread.

        Raises:
            RescaleError: They cannot have it; nothing changes.
        """
        self._rescales.ask(request)

    @property
    def wants_rescale(self) -> bool:
        """Whether operators wait for an epoch to get another parallelism; may be read from any thread."""
        return self._ended is None and not self._stopping and self._rescales.waiting

    def end_rescales(self) -> None:
        """Tells callers that wait for another parallelism that no further epoch comes."""
        self._rescales.end("the job has ended")

    def request_stop(self) -> None:
        """Refuses every later epoch before it does any work; the running one is finished. Callable from any thread."""
        self._stopping = True

    def run_epoch(self, tasks: Tasks, sources: SourcePositions) -> StoredManifest:
        """Runs and seals one micro-batch; returns normally only after a verified seal and all sink commits (E8).

        Args:
            tasks: Runs the batch's records through the operators.
            sources: The source positions after this batch.

        Returns:
            The sealed manifest.

        Raises:
            StopRequestedError: The job is stopping; nothing was done.
            UserFunctionError, OutputTypeError, StateTypeChangedError: The author's function failed; nothing was sealed.
            EpochError: Every attempt failed; nothing was sealed.
            FencedError: Another driver owns the job; nothing was sealed. This driver is of no more use.
            StorageError: It is unknown whether the epoch was sealed. This driver is of no more use; start again.
            SinkError: The epoch is sealed, its output not committed; the next start commits it. This driver is of no
                more use: no epoch may be sealed after that debt, and the batch may not run again.
        """
        return self._run("epoch", tasks, sources)

    def run_idle(self, tasks: Tasks, *, barrier: bool = True) -> StoredManifest:
        """Runs and seals an epoch without input: same positions, same code (timers, TTL, notifications, drain).

        Raises as `run_epoch` does.

        Args:
            tasks: Runs the operators.
            barrier: Whether a checkpoint may fall on it. False for an epoch that only notifies of another checkpoint:
                otherwise each checkpoint would cause the next one.
        """
        held = carry.still(self._head.manifest)
        sources = SourcePositions(metadata=held.source_metadata, positions=held.sources)
        return self._run("idle", tasks, sources, barrier=barrier)

    def run_end_of_input(self, tasks: Tasks) -> Iterator[StoredManifest]:
        """Runs and seals the last epochs: the last watermark passes one operator in each, and all timers fire.

        Yields each manifest; raises as `run_epoch` does. A job can resume from the manifest before these epochs. From a
        later one it can only finish what the operators still hold.
        """
        held = carry.still(self._head.manifest)
        sources = SourcePositions(metadata=held.source_metadata, positions=held.sources)
        last = False
        while not last:
            last = has_ended(self.operators, at_end(self.operators, self._head.manifest.watermarks))
            yield self._run("idle", tasks, sources, end_of_input=True)

    def restore_groups(self, write: Callable[[StoredManifest], RestoredRows]) -> StoredManifest:
        """Seals, between two epochs, a manifest that brings state of other epochs and nothing else.

        Args:
            write: Writes the rows durably; they belong after the manifest that it is given.

        Returns:
            The sealed manifest.

        Raises:
            StopRequestedError: The job is stopping; nothing was done.
            LakestateError: What `write` raises; nothing was sealed, and the job goes on.
            FencedError, StorageError: As `run_epoch`.
        """
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._refuse_if_stopping()
            rows = write(self._head)
            head = self._head.manifest
            manifest = restored_groups(
                self._head,
                rows,
                incarnation=head.incarnation,
                number=head.incarnation_number,
                now_ms=self._clock.now_ms(),
            )
            self._base = carry.newer_base(manifest.lineage, self._base, self._publisher.completed())
            self._put(replace(manifest, base=self._base))  # not `_seal`: it notifies no function and rescales nothing
            self._note_seal(rows.acks, None)
            return self._head

    def check_owner(self, found: StoredManifest) -> None:
        """Stops this driver if a manifest shows that another driver owns the job; called between two epochs.

        Args:
            found: The manifest that a look at the log found at the number after `head`.

        Raises:
            FencedError: Another driver owns the job. This driver is of no more use.
        """
        with self._lock:
            head, other = self._head.manifest, found.manifest
            is_next = (other.generation, other.epoch) == (head.generation, head.epoch + 1)
            if self._ended is None and is_next and other.incarnation != head.incarnation:
                self._ended = self._fenced_by(other)
                raise self._ended

    def is_due(self, now_ms: int) -> bool:
        """Returns whether a timer is due for which an epoch without records has to run."""
        if self._ended is not None or self._stopping:
            return False
        return is_due(self.operators, self._head.manifest, now_ms, self._since)

    def has_notices(self) -> bool:
        """Returns whether checkpoints have ended that no sealed epoch has reported; may be called from any thread."""
        going_on = self._ended is None and not self._stopping
        return going_on and (bool(self._notices) or self._publisher.has_ended())

    def _run(
        self,
        kind: ManifestKind,
        tasks: Tasks,
        sources: SourcePositions,
        *,
        end_of_input: bool = False,
        barrier: bool = True,
    ) -> StoredManifest:
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._refuse_if_stopping()
            self._look_after_checkpoints()
            plan = self._plan(end_of_input=end_of_input)
            mark = self._barriers.checkpoint_at(plan.epoch, self._clock.steady_ms()) if barrier else None
            plan = replace(plan, snapshot_id=mark.checkpoint_id if mark else self._barriers.next_id())
            self._crash.at(CrashPoint.E1_PLANNED, plan.epoch)
            with self._declining(mark):
                acks = self._collect(plan, tasks)
                self._crash.at(CrashPoint.E6_ACKS_HELD, plan.epoch)
                manifest = self._manifest(kind, plan, sources, acks, mark)
                self._sinks.deliver(manifest)
                self._seal(manifest)
            self._note_seal(acks, mark, only_tells=not barrier)
            try:
                self._commit(mark)
            except Exception as error:
                self._end(error)
                raise
            self._crash.at(CrashPoint.E8_BEFORE_RETURN, plan.epoch)
            return self._head

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise StopRequestedError(
                f"Job {self._head.manifest.job!r} is stopping; its newest epoch is {self._head.manifest.epoch}.",
                action="Nothing; the next start goes on from there.",
            )

    def _plan(self, *, end_of_input: bool) -> EpochPlan:
        """Plans the next epoch (E1). One processing time for all subtasks and attempts; it never goes back."""
        head = self._head.manifest
        operators = self._rescales.plan()
        watermarks = at_end(operators, head.watermarks) if end_of_input else head.watermarks
        return EpochPlan(
            job=head.job,
            root=self._root,
            generation=head.generation,
            epoch=head.epoch + 1,
            incarnation=head.incarnation,
            predecessor=self._head.hash,
            predecessor_epoch=head.epoch,
            predecessor_generation=head.generation,
            processing_time=max(self._clock.now_ms(), head.processing_time),
            operators=operators,
            watermarks=watermarks,
            end_of_input=end_of_input,
            completed=tuple(end.checkpoint_id for end in self._notices if end.completed),
            aborted=tuple(end.checkpoint_id for end in self._notices if not end.completed),
            finishing=finishing(operators, head, watermarks) if end_of_input else (),
            inline_budget=inline_budget(self._inline_threshold, operators),
        )

    def _collect(self, plan: EpochPlan, tasks: Tasks) -> Acks:
        """E2 to E6: runs the epoch, as new attempts each time, until there is one consistent set of acks."""
        failure: LakestateError | None = None
        for retry in range(self._max_attempts):
            attempt = replace(plan, retry=retry)
            if failure is not None:
                self._refuse_if_stopping()
                self._on_retry(attempt, failure)
            try:
                decision = acknowledge(attempt, tasks.run(attempt))
                if decision.answer is Answer.SUCCESS:
                    check_broadcast(decision.acks, plan.epoch)
                    return decision.acks
                raise error_of(decision, attempt)
            except EpochError as error:
                if retry == self._max_attempts - 1 or is_final(error):
                    raise
                failure = error
        raise ValueError("max_attempts must be at least 1")

    def look_after_checkpoints(self) -> None:
        """Gives up checkpoints that take too long and learns how others ended; between two epochs and before each.

        Raises:
            CheckpointFailuresError: More checkpoints failed than the job tolerates. This driver is of no more use.
        """
        with self._lock:
            if self._ended is None and not self._stopping:
                self._look_after_checkpoints()

    def _look_after_checkpoints(self) -> None:
        for checkpoint_id in self._barriers.overdue(self._clock.steady_ms()):
            self._publisher.abandon(checkpoint_id)
        self._notices.extend(self._publisher.ended())
        self._ended = self._barriers.error
        if self._ended is not None:
            raise self._ended

    @contextmanager
    def _declining(self, mark: Mark | None) -> Iterator[None]:
        """Declines the checkpoint if its epoch is not sealed, unless the job is stopping: that is not a failure."""
        try:
            yield
        except StopRequestedError:
            raise
        except Exception as error:
            if mark is not None:
                self._barriers.declined(mark.checkpoint_id, self._clock.steady_ms(), report_of(error))
                self._notices.append(CheckpointEnd(mark.checkpoint_id, completed=False))
            raise

    def _note_seal(self, acks: Acks, mark: Mark | None, *, only_tells: bool = False) -> None:
        changes = [ack.changes for of_operator in acks.values() for ack in of_operator]
        grown = sum(handle.length for handle in changes if handle is not None)
        if grown or not only_tells:  # else each epoch that reports a checkpoint's end would be a reason for the next
            self._barriers.sealed(self._head.manifest.epoch, grown, inlined_bytes(self._head.manifest))
        if mark is not None:
            self._barriers.acknowledged(mark.checkpoint_id, self._clock.steady_ms())

    def _manifest(
        self, kind: ManifestKind, plan: EpochPlan, sources: SourcePositions, acks: Acks, mark: Mark | None
    ) -> Manifest:
        """Returns the manifest to seal (E6). Adopts the newest base that has become visible."""
        held = carry.still(self._head.manifest)
        acks, inlined = take_inlined(acks)
        self._base = carry.newer_base(held.lineage, self._base, self._publisher.completed())
        operators = {op.uid: _operated(op, held.operators.get(op.uid), plan, acks[op.uid]) for op in plan.operators}
        for of_operator in acks.values():
            check_migrated(held.schemas, [written_of(ack) for ack in of_operator])
        reported = (schema for of_operator in acks.values() for ack in of_operator for schema in ack.schemas)
        time = advance(
            plan.operators,
            plan.watermarks,
            held.event_times,
            acks,
            plan.processing_time,
            self._since,
            end_of_input=plan.end_of_input,
        )
        timers = {uid: earliest_timers(of_operator) for uid, of_operator in acks.items()}
        return replace(
            held,
            epoch=plan.epoch,
            kind=kind,
            predecessor=plan.predecessor,
            processing_time=plan.processing_time,
            watermarks=time.watermarks,
            event_times=time.event_times,
            timers={uid: earliest for uid, earliest in {**held.timers, **timers}.items() if earliest != NO_TIMERS},
            fingerprints=sources.fingerprints or held.fingerprints,
            source_metadata=sources.metadata,
            sources=sources.positions,
            operators=operators | {uid: left for uid, left in held.operators.items() if uid not in operators},
            schemas=merge_schemas(held.schemas, reported, plan.epoch - 1),
            inlined=inlined,
            base=self._base,
            checkpoint_id=mark.checkpoint_id if mark is not None else None,
            snapshot_id=plan.snapshot_id,
        )

    def _seal(self, manifest: Manifest) -> None:
        """Seals the epoch (E6), which is its commit. After it the epoch owes its output to the sinks."""
        self._put(manifest)
        self._notices = []  # the publisher still has the checkpoints that ended since
        self._rescales.sealed(self._head)

    def _put(self, manifest: Manifest) -> None:
        self._crash.at(CrashPoint.E6_BEFORE_PUT, manifest.epoch)
        try:
            verdict = seal(self._log, manifest, self._put_attempts)
        except (FencedError, StorageError) as error:
            self._ended = error
            raise
        if not verdict.mine:
            self._ended = self._fenced_by(verdict.stored.manifest)
            raise self._ended
        self._head = verdict.stored
        self._crash.at(CrashPoint.E6_SEALED, manifest.epoch)

    def _fenced_by(self, other: Manifest) -> FencedError:
        return FencedError(
            f"Epoch {other.epoch} of job {other.job!r} was sealed by incarnation {other.incarnation_number} "
            f"({other.incarnation}); this driver is incarnation {self._head.manifest.incarnation_number}.",
            action="Nothing, if the job was started elsewhere; otherwise start it again.",
        )

    def _commit(self, mark: Mark | None) -> None:
        """Commits the output to the sinks (E7), then begins to publish (E9)."""
        epoch = self._head.manifest.epoch
        self._crash.at(CrashPoint.E7_BEFORE_SINK_COMMIT, epoch)
        debts.commit(self._sinks, self._head, self._sink_attempts)
        self._crash.at(CrashPoint.E7_COMMITTED, epoch)
        if mark is not None:
            self._publisher.begin(self._head, mark)

    def _end(self, cause: Exception) -> None:
        """Refuses all later epochs: one is sealed, but its run failed, so the engine may offer its batch again."""
        head = self._head.manifest
        self._ended = LakestateError(
            f"Epoch {head.epoch} of job {head.job!r} is sealed, but this driver failed after it: "
            f"{sentence(cause_line(cause))}",
            action="Start the job again; the start commits what is owed and goes on after that epoch.",
        )


def _operated(own: OperatorPlan, before: OperatorEpoch | None, plan: EpochPlan, acks: tuple[Ack, ...]) -> OperatorEpoch:
    """Returns an operator as the manifest of an epoch records it."""
    known = carry.planned_epoch(own, before)
    finished = plan.end_of_input and (known.finished or own.uid in plan.finishing)
    unwritten = known.unwritten and all(ack.changes is None for ack in acks)
    return replace(known, acks=acks, since=known.since or plan.epoch, finished=finished, unwritten=unwritten)


__all__ = ["EpochDriver"]
