"""Restores a stopped job as a whole, or begins a new one, without its code and without Spark; or as a dry run.

It takes the same steps as a start: refuse, copy the state that has to be copied, close the old generation, rewind the
sinks, seal the first manifest of the new generation. Then it ends: the next start claims the job from there, and reads
the input after it. That start also checks whether the job's code fits, if the code was not checked here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from state_engine.checkpoint.plan import states_of
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import compatibility, look, table_fences
from state_engine.epoch.carry import origin_of
from state_engine.epoch.ports import Crash, Sinks
from state_engine.epoch.request import Head, OperatorShape, RestoreTarget, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.epoch.unread import Unread
from state_engine.errors import CorruptionError, NothingToRestoreError, RestoreCancelledError
from state_engine.log.records import Manifest, Rewrite, SinkTable
from state_engine.log.source_records import SourceFingerprint
from state_engine.savepoint.adoption import adopt_for
from state_engine.savepoint.catalogue import resolve_restore
from state_engine.savepoint.claim import ClaimMode, check_claim, claim_source
from state_engine.savepoint.copying import Progress
from state_engine.savepoint.fitness import OperatorsOf, code_checks, refusal, refusals_of, unread_of_target
from state_engine.savepoint.holding import RestoreHold, kept_for_start
from state_engine.savepoint.rekey import with_rewrite
from state_engine.savepoint.restore_report import (
    Fate,
    Refusal,
    RestoredOperator,
    RestoredState,
    WholeRestore,
)
from state_engine.savepoint.segments import live_pieces, log_size, reading_plan, segments_of_target
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage

SinksOf = Callable[[str, Sequence[SinkTable], CheckpointStorage, ManifestLog], Sinks]
"""Makes the sinks of a job from what its newest manifest records of them."""


class JobRestore:
    """One restore of a stopped job as a whole.

    Args:
        root: Of the storage.
        job: The job; it may be one that never ran.
        source: What `resolve_restore` takes.
        sinks_of: Opens the job's sinks.
        operators_of: The job's code, if it is available.
        fingerprints: The sources as the code declares them; by default as the restored epoch records them.
        parallelism: Subtasks of every operator from now on, until the job's definition says another number.
        max_parallelism: Re-key the state: sort all keys into this number of key groups.
        uid_mapping: From uids that operators had in the source to those that they have now.
        allow_non_restored_state: State of operators that the code no longer has need not be restored.
        resume_state: Operators that the code has again, and that go on with the state that they had.
        discard_state: Operators that begin without the state that the source has for them.
        keep_output: Sinks keep what they have.
        adopt_sinks: Sinks also keep output that their tables have and the job's log does not.
        reset_processing_time: Begin with the time of the clock, even if processing time was later before.
        allow_changed_sources: Numbers of sources that may differ from those of the restored epoch; with `fingerprints`.
        strict: Refuse if there is state, or a field of one, that the code does not read.
        claim_mode: Whether the savepoint belongs to the job from now on.
        validate: Read every file and compare its checksum before anything is written.
        cancelled: Called between files and ranges of key groups; when it returns True, the restore ends.
        progress: Called with the progress.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        crash: Called at every crash point that is passed.

    Raises:
        NothingToRestoreError: The source does not exist.
        CorruptionError: It is damaged.
        RestoreError: The arguments do not fit the source.
    """

    def __init__(
        self,
        root: str,
        job: str,
        source: str,
        sinks_of: SinksOf,
        *,
        operators_of: OperatorsOf | None = None,
        fingerprints: tuple[SourceFingerprint, ...] | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        uid_mapping: Mapping[str, str] | None = None,
        allow_non_restored_state: bool = False,
        resume_state: Sequence[str] = (),
        discard_state: Sequence[str] = (),
        keep_output: bool = False,
        adopt_sinks: bool = False,
        reset_processing_time: bool = False,
        allow_changed_sources: Sequence[int] = (),
        strict: bool = False,
        claim_mode: ClaimMode = "NO_CLAIM",
        validate: bool = True,
        cancelled: Callable[[], bool] | None = None,
        progress: Progress | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        crash: Crash | None = None,
    ) -> None:
        self._root, self._job = root, job
        self._cancelled, self._progress, self._validates = cancelled, progress, validate
        self._clock, self._ids, self._crash = clock or SystemClock(), ids or RandomIds(), crash
        self._claim_mode: ClaimMode = claim_mode
        self._storage = open_storage(root, job)
        self._log = ManifestLog(self._storage, job, open_job=lambda other: open_storage(root, other))
        self._head = look.newest(self._log)
        mapping = dict(uid_mapping or {})
        resolved = resolve_restore(root, job, source)
        manifest = resolved.stored.manifest
        operators = operators_of(manifest) if operators_of is not None else None
        self._code_checked = operators is not None
        uids = [o.uid for o in operators] if operators is not None else [mapping.get(u, u) for u in manifest.operators]
        target = with_rewrite(
            resolved,
            job,
            uid_mapping=mapping,
            max_parallelism=max_parallelism,
            uids=uids,
            allow_non_restored_state=allow_non_restored_state,
            discard_state=discard_state,
        )
        check_claim(job, target, claim_mode)
        newest = self._head.manifest if self._head is not None else manifest  # the job's whole log may be lost
        recorded = newest.sinks if newest.job == job else ()
        self._sinks = sinks_of(job, recorded, self._storage, self._log)
        seen = target.seen.manifest
        self._request = StartRequest(
            job=job,
            root=root,
            operators=tuple(operators) if operators is not None else _as_recorded(seen),
            fingerprints=seen.fingerprints if fingerprints is None else fingerprints,
            sinks=recorded,
            parallelism=parallelism,
            restore=target,
            allow_non_restored_state=allow_non_restored_state or operators is None,
            resume_state=tuple(resume_state),
            keep_output=keep_output,
            adopt_sinks=adopt_sinks,
            reset_processing_time=reset_processing_time,
            allow_changed_sources=tuple(allow_changed_sources),
            strict=strict,
            lasting=True,
        )

    @property
    def target(self) -> RestoreTarget:
        """What is restored."""
        assert self._request.restore is not None
        return self._request.restore

    def plan(self) -> WholeRestore:
        """Reports what would happen; reads all state that would be restored, and writes nothing.

        The report lists all reasons against the restore, not only the first.

        Raises:
            RestoreCancelledError: It was cancelled.
        """
        with closing(self._sinks):
            refusals = [*self._refusals()]
        states: list[RestoredState] = []
        unread: tuple[Unread, ...] = ()
        try:
            unread = self._unread()
            states.extend(self._states(unread))
        except CorruptionError as error:
            refusals.append(refusal(error))
        return self._report(tuple(states), tuple(refusals), unread)

    def run(self) -> WholeRestore:
        """Restores the job, and returns the report.

        Raises:
            RestoreError: It is refused; nothing was written.
            SinkAheadError: It is refused: a sink's table has output that the log does not have. Nothing was written.
            RestoreCancelledError: It was cancelled; nothing of the restore is left.
            CorruptionError: A file of the source is gone or damaged; nothing of the restore is left.
            SinkError: A sink does not take the output that it is owed. Starting the job, or restoring again, continues.
            FencedError: A driver that started at the same time or later owns the job.
            StorageError: It is not known how far the restore came. The same restore again, or any start, continues it.
        """
        with closing(self._sinks):
            table_fences.check(self._sinks, self._log, self._job, adopt_sinks=self._request.adopt_sinks)
            with kept_for_start(self._request, self._log, clock=self._clock, ids=self._ids) as hold:
                unread = self._unread()
                restored, head = self._start(hold)
        if self._claim_mode == "CLAIM":
            claim_source(self._root, restored)  # after the lease has ended: a disposal refuses leased savepoints
        sealed = head.stored.manifest
        return replace(self._report((), (), unread), sealed=(sealed.generation, sealed.epoch))

    def _start(self, hold: RestoreHold) -> tuple[RestoreTarget, Head]:
        request = adopt_for(
            self._request,
            self._log,
            clock=self._clock,
            ids=self._ids,
            cancelled=self._cancelled,
            progress=self._progress,
            hold=hold,
            validate=self._validates,
        )
        assert request.restore is not None
        publisher = CheckpointPublisher(
            self._storage, self._job, clock=self._clock, open_job=lambda other: open_storage(self._root, other)
        )
        start = StartUp(self._log, self._sinks, publisher, self._clock, self._ids, self._crash, hold=hold)
        return request.restore, start.run(request)

    def _refusals(self) -> Iterator[Refusal]:
        request, head, target = self._request, self._head, self.target
        seen = target.seen

        def sinks() -> None:
            if head is not None and not request.keep_output and not target.imported:
                self._sinks.check_rewind(seen, max(self._log.generations()) + 1)

        def tables() -> None:
            table_fences.check(self._sinks, self._log, self._job, adopt_sinks=request.adopt_sinks)

        def checks() -> Iterator[Callable[[], Any]]:
            yield tables
            yield from code_checks(request, seen.manifest)
            yield lambda: compatibility.check_imported(request, head)
            yield lambda: look.is_decided(self._log, self._job, target, head)
            yield sinks

        return refusals_of(checks())

    def _unread(self) -> tuple[Unread, ...]:
        return unread_of_target(self._root, self.target, self._request.operators) if self._code_checked else ()

    def _states(self, unread: Sequence[Unread]) -> Iterator[RestoredState]:
        not_read = {(one.uid, one.kind, one.state) for one in unread if not one.fields}
        target, head = self.target, self.target.stored
        rewrite = target.rewrite or Rewrite()
        segments = segments_of_target(self._root, target)
        states = states_of([head.manifest])
        for number, schema in enumerate(states):
            plan = reading_plan(segments, head.manifest, schema)
            _, size = log_size(segments, schema)
            rows = 0
            for live in live_pieces(segments, plan, self._stop_if_cancelled):
                rows += live.num_rows
                self._stop_if_cancelled()
            if self._progress is not None:
                self._progress(f"{schema.uid}/{schema.name}", (number + 1) / len(states))
            is_left = schema.uid in rewrite.left
            groups = plan.max_parallelism if is_left else rewrite.max_parallelism or plan.max_parallelism
            uid = schema.uid if is_left else rewrite.uids.get(schema.uid, schema.uid)
            fate = _fate(is_left, groups != plan.max_parallelism and bool(schema.key))
            yield RestoredState(
                uid=uid,
                state=schema.name,
                kind=schema.kind,
                fate="unread" if (uid, schema.kind, schema.name) in not_read else fate,
                rows=rows,
                bytes=size,
                groups=groups,
            )

    def _report(
        self, states: tuple[RestoredState, ...], refusals: tuple[Refusal, ...], unread: tuple[Unread, ...]
    ) -> WholeRestore:
        head = self._head
        return WholeRestore(
            job=self._job,
            source=origin_of(self.target),
            onto=(head.manifest.generation, head.manifest.epoch) if head is not None else None,
            operators=tuple(self._operators()),
            states=states,
            copied=self.target.location is not None or self.target.rewrite is not None,
            code_checked=self._code_checked,
            refusals=refusals,
            unread=unread,
        )

    def _operators(self) -> Iterator[RestoredOperator]:
        recorded, rewrite = self.target.stored.manifest.operators, self.target.rewrite or Rewrite()
        shapes = {shape.uid: shape for shape in self._request.operators}
        seen = set()
        for before, operator in sorted(recorded.items()):
            uid = rewrite.uids.get(before, before)
            shape = shapes.get(uid)
            seen.add(uid)
            is_left = before in rewrite.left or shape is None
            groups = operator.max_parallelism if shape is None else shape.max_parallelism
            subtasks = operator.parallelism if shape is None else self._request.parallelism or shape.parallelism
            yield RestoredOperator(
                uid=before if before in rewrite.left else uid,
                before=before,
                fate=_fate(is_left, groups != operator.max_parallelism),
                parallelism=(operator.parallelism, min(subtasks, groups)),
                max_parallelism=(operator.max_parallelism, groups),
            )
        for uid in sorted(shapes.keys() - seen):
            shape = shapes[uid]
            subtasks, groups = self._request.parallelism or shape.parallelism, shape.max_parallelism
            yield RestoredOperator(
                uid=uid, before=None, fate="new", parallelism=(subtasks, subtasks), max_parallelism=(groups, groups)
            )

    def _stop_if_cancelled(self) -> None:
        if self._cancelled is not None and self._cancelled():
            raise RestoreCancelledError("The dry run was cancelled.", action="Nothing; it wrote nothing.")


def _as_recorded(seen: Manifest) -> tuple[OperatorShape, ...]:
    """Returns the operators as the restored epoch records them: without the code nothing else is known."""
    if not seen.operators:
        raise NothingToRestoreError(
            f"Epoch {seen.epoch} of job {seen.job!r} has no operators.", action="Name an epoch that has operators."
        )
    return tuple(
        OperatorShape(
            uid=uid,
            parallelism=operator.rescaled_from or operator.parallelism,
            max_parallelism=operator.max_parallelism,
            keys=seen.keys.get(uid, ()),
            windows=operator.windows,
        )
        for uid, operator in seen.operators.items()
        if operator.left_at is None
    )


def _fate(left: bool, rekeyed: bool) -> Fate:
    return "left" if left else "re-keyed" if rekeyed else "restored"


__all__ = ["JobRestore", "OperatorsOf", "SinksOf"]
