"""S1 to S3: every start is a restore.

One loop: look at the newest sealed manifest, take one step, look again. The next start resumes one that died, because
it decides each step only from what is sealed. So after a closing manifest any start finishes the fork, no matter which
start began it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from state_engine.clock import Clock, Ids
from state_engine.epoch import carry, debts, look, table_fences
from state_engine.epoch.compatibility import check, check_imported, check_parallelism
from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.ports import Crash, Log, OperatorPlan, Publisher, Sinks, SourceHold, TableFence
from state_engine.epoch.request import Head, RestoreTarget, StartRequest
from state_engine.epoch.seal import seal
from state_engine.epoch.sink_moves import transaction_place
from state_engine.epoch.sink_names import check_names
from state_engine.errors import FencedError, RestoreError, SinkAheadError, SinkRewindError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, Successor


class StartUp:
    """Claims a job for one new driver.

    Args:
        log: The job's chain of manifests.
        sinks: All sinks of the job.
        publisher: Finishes what a dead driver left half published.
        clock: Processing time.
        ids: Makes nonces.
        crash: Called at every named place.
        hold: Protects what the request restores from retention.
        claim_attempts: How often a claim may lose its number to an older driver that goes on sealing.
        put_attempts: How often one manifest is put while the storage gives no answer.
        sink_attempts: How often a sink commit is tried.
    """

    def __init__(
        self,
        log: Log,
        sinks: Sinks,
        publisher: Publisher,
        clock: Clock,
        ids: Ids,
        crash: Crash | None = None,
        *,
        hold: SourceHold | None = None,
        claim_attempts: int = 100,
        put_attempts: int = 5,
        sink_attempts: int = 3,
    ) -> None:
        self._log = log
        self._sinks = sinks
        self._publisher = publisher
        self._clock = clock
        self._ids = ids
        self._crash: Crash = crash or NoCrash()
        self._hold = hold
        self._claim_attempts = claim_attempts
        self._put_attempts = put_attempts
        self._sink_attempts = sink_attempts

    def run(self, request: StartRequest) -> Head:
        """Takes a job over and pays its debts (S1 to S3); the engine does S4 and S5.

        Raises:
            JobDefinitionError: It asks for more subtasks than an operator has key groups; nothing was written.
            RestoreError: The job cannot go on from there; nothing was written.
            SinkAheadError: A sink's table was written by another log, or is ahead of this one; nothing was written.
            FencedError: A driver that started at the same time or later owns the job.
            StorageError: The storage gives no definite answer; starting again is safe.
            SinkError: A sink that is owed output is gone, or a table goes on under another uid, and nothing was
                written. Or the job is claimed, but a sink does not take what it is owed. Starting again is safe.
        """
        check_parallelism(request)
        nonce, me = self._ids.new_id(), None
        wanted = request.restore
        for _ in range(self._claim_attempts):
            # The sinks first: those of a live driver are never ahead of its log. Then the floors: retention may free
            # all that a slow look at the log has seen.
            fences, floors = self._sinks.fences(), self._log.floors()
            head = look.newest(self._log)
            me = me or look.Incarnation(nonce, head.manifest.incarnation_number + 1 if head else 1)
            look.fence(head, me)
            if wanted is not None and look.is_decided(self._log, request.job, wanted, head):
                wanted = None
            foreign = self._foreign(request, wanted, fences, head, floors)
            successor, goal = head.manifest.successor if head else None, wanted
            if goal is None and head is not None and foreign and (successor is None or _overtaken(successor, foreign)):
                goal = RestoreTarget(stored=head)  # in a generation that is higher than those of the tables
            if goal is not None:
                self._validate(request, goal, head, foreign)
            self._crash.at(CrashPoint.S1_HEAD_FOUND, head.manifest.epoch if head else 0)
            operators = carry.planned(request, successor, head if goal is None and successor is None else None)
            sealed: StoredManifest | None = None
            if head is None:
                sealed = self._begin(request, goal, me, operators, floors, foreign)
                goal = wanted = None
            elif successor is not None:
                sealed = self._finish_fork(request, head, successor, me, operators if goal is None else None, foreign)
            elif goal is not None:
                self._close(request, goal, head, me, foreign)
            else:
                sealed = self._claim(request, head, me, operators)
            if sealed is not None and goal is None:
                return self._settle(request, sealed, operators, foreign)
        raise FencedError(
            f"Another driver of job {request.job!r} sealed {self._claim_attempts} epochs while this one was starting.",
            action="Stop the other driver, then start again.",
        )

    def _foreign(
        self,
        request: StartRequest,
        wanted: RestoreTarget | None,
        fences: Sequence[TableFence],
        head: StoredManifest | None,
        floors: Mapping[int, int],
    ) -> list[TableFence]:
        """Returns the sinks with tables that have to be adopted; refuses the start if adoption was not requested."""
        foreign = table_fences.foreign_or_ahead(fences, self._log, head, floors, self._sinks.fences)
        table_fences.check_adoption(foreign, request.job, head, adopt_sinks=request.adopt_sinks)
        goes_back = head is not None and wanted is not None and not wanted.imported
        if foreign and goes_back and not request.keep_output:
            raise SinkAheadError(
                f"Sink {foreign[0].uid!r} of job {request.job!r} is adopted; no sink is rewound in the same start.",
                action="Restore with keep_output=True as well; or adopt the sinks first, and then restore.",
            )
        return foreign

    def _validate(
        self,
        request: StartRequest,
        wanted: RestoreTarget,
        head: StoredManifest | None,
        foreign: Sequence[TableFence],
    ) -> None:
        """Refuses a restore in S1, before anything is written."""
        target = wanted.seen
        check(request, target.manifest)
        if (wanted.location is not None or wanted.rewrite is not None) and wanted.adopted is None:
            raise RestoreError(
                f"The state of epoch {target.manifest.epoch} of job {target.manifest.job!r} was not copied: another "
                "start restored something else meanwhile.",
                action="Start again.",
            )
        if wanted.imported:
            check_imported(request, head)
        elif target.manifest.job == request.job:
            look.read_target(self._log, carry.origin_of(wanted), wanted.adopted)
            if head is not None and not (request.keep_output or foreign):
                self._check_sinks(request, head, target, _next_generation(self._log.generations()))

    def _check_sinks(
        self, request: StartRequest, head: StoredManifest, target: StoredManifest, generation: int
    ) -> None:
        """Refuses a restore if its sinks cannot be rewound, cannot be paid, or have other uids than before."""
        self._sinks.check_rewind(target, generation)
        if (debt := debts.owed_by_target(self._log, head, target)) is not None:
            self._sinks.check_owed(debt)
        check_names(request.sinks, head.manifest.sinks)

    # S2 -----------------------------------------------------------------------------------------------------------

    def _begin(
        self,
        request: StartRequest,
        wanted: RestoreTarget | None,
        me: look.Incarnation,
        operators: tuple[OperatorPlan, ...],
        floors: Mapping[int, int],
        foreign: Sequence[TableFence],
    ) -> StoredManifest | None:
        """Seals the first manifest of a job: from nothing, or where nothing is closed (a fork; all was deleted).

        Its generation has no floor: numbers of deleted epochs are never used again, and sinks ignore generations that
        they have left. If another start has begun the job in the same way meanwhile, that one holds the number.
        """
        now, generation = self._clock.now_ms(), _next_generation(floors, foreign)
        if wanted is None:
            first = carry.first(request, generation=generation, incarnation=me.nonce, now_ms=now)
            return self._put_claim(first)
        target = wanted.seen.manifest
        if generation > 1 and target.job == request.job and target.sinks and not (request.keep_output or foreign):
            raise SinkRewindError(
                f"All epochs of job {request.job!r} after epoch {target.epoch} were deleted, so it is unknown which "
                "output has to be removed from its sinks.",
                action="Rewind the sinks by hand if they need it, and restore with keep_output=True.",
            )
        fork = carry.restored(
            wanted.seen,
            carry.origin_of(wanted),
            generation,
            request.job,
            incarnation=me.nonce,
            number=me.number,
            now_ms=now,
            adopted=wanted.adopted,
            reset_processing_time=request.reset_processing_time,
        )
        self._hold_source(request, wanted, fork)
        return self._put_claim(carry.declared(fork, request, operators))

    def _claim(
        self, request: StartRequest, head: StoredManifest, me: look.Incarnation, operators: tuple[OperatorPlan, ...]
    ) -> StoredManifest | None:
        """Seals a manifest without data after the newest one; all earlier incarnations find their number taken."""
        check(request, head.manifest)
        if not request.keep_output:
            if (debt := debts.owed(self._log, head)) is not None:
                self._sinks.check_owed(debt)  # first: a changed name alone would not say that output could be lost
            check_names(request.sinks, head.manifest.sinks)

        def claim(on: StoredManifest) -> Manifest:
            check(request, on.manifest)
            return carry.declared(self._bare_claim(on, me), request, operators)

        return self._put_behind(head, me, claim)

    def _bare_claim(self, on: StoredManifest, me: look.Incarnation) -> Manifest:
        return carry.carried(on, "claim", incarnation=me.nonce, number=me.number, now_ms=self._clock.now_ms())

    def _put_behind(
        self, head: StoredManifest, me: look.Incarnation, claim: Callable[[StoredManifest], Manifest]
    ) -> StoredManifest | None:
        """Seals a claim, also if a driver seals epochs faster than a start looks at log and sinks.

        What such a driver seals meanwhile goes on from the manifest that this start has checked, and owes the same
        sinks. So the claim is put at once after it. None if another start took the number: then the caller has to look
        at the log again.
        """
        for _ in range(self._claim_attempts):
            wanted = claim(head)
            self._crash.at(CrashPoint.S2_BEFORE_CLAIM, wanted.epoch)
            verdict = seal(self._log, wanted, self._put_attempts)
            if verdict.mine:
                self._crash.at(CrashPoint.S2_CLAIMED, wanted.epoch)
                return verdict.stored
            if not _is_of_older_driver(verdict.stored, me):
                return None
            head = verdict.stored
        return None

    def _close(
        self,
        request: StartRequest,
        wanted: RestoreTarget,
        head: StoredManifest,
        me: look.Incarnation,
        foreign: Sequence[TableFence],
    ) -> None:
        """Seals the closing manifest: the fork is decided, and no driver can add to the old generation any more.

        If it loses the number to an older driver, it claims the job, so that it does not lose again.
        """
        successor = Successor(
            generation=_next_generation(self._log.generations(), foreign),
            origin=carry.origin_of(wanted),
            parallelism=request.parallelism,
            keep_output=request.keep_output or wanted.imported or bool(foreign),
            adopted=wanted.adopted,
            adopt_sinks=bool(foreign),
            reset_processing_time=request.reset_processing_time and wanted is request.restore,
            allow_changed_sources=request.allow_changed_sources,
        )
        closing = carry.carried(head, "closing", incarnation=me.nonce, number=me.number, now_ms=self._clock.now_ms())
        self._crash.at(CrashPoint.S2_BEFORE_CLOSING, closing.epoch)
        self._hold_source(request, wanted, closing)
        verdict = seal(self._log, replace(closing, successor=successor), self._put_attempts)
        if verdict.mine:
            self._crash.at(CrashPoint.S2_CLOSED, closing.epoch)
        elif _is_of_older_driver(verdict.stored, me):
            self._put_behind(verdict.stored, me, lambda on: self._bare_claim(on, me))

    def _finish_fork(
        self,
        request: StartRequest,
        closing: StoredManifest,
        successor: Successor,
        me: look.Incarnation,
        operators: tuple[OperatorPlan, ...] | None,
        foreign: Sequence[TableFence],
    ) -> StoredManifest | None:
        """Rewinds the sinks and seals the first manifest of the generation that a closing manifest announces.

        Without `operators` this start does another restore right after. The job need not fit the target then, and the
        manifest only carries on what existed.

        Sources may differ from the target's if the restore or this start allows it.
        Output is kept if the restore requested that, no matter which start finishes it. This start may request it too:
        a sink may have become unable to go back since the fork was decided. If tables have seen this generation or a
        later one already, another generation follows, and sinks are moved only to that one.
        """
        target = look.read_target(self._log, successor.origin, successor.adopted)
        if operators is not None:
            allowed = {*request.allow_changed_sources, *successor.allow_changed_sources}
            check(replace(request, allow_changed_sources=tuple(sorted(allowed))), target.manifest)
        keep_output = successor.keep_output or request.keep_output or bool(foreign)
        if not keep_output:
            self._check_sinks(request, closing, target, successor.generation)
        self._prepare_sinks()
        owed = None if successor.origin.imported else debts.owed_by_target(self._log, closing, target)
        uids = [one.uid for one in foreign]
        if owed is not None:
            leave_out = request.keep_output or (successor.keep_output and not successor.adopt_sinks)
            debts.pay(self._sinks, owed, self._sink_attempts, leave_out=leave_out, without=uids)
        if not _overtaken(successor, foreign):
            self._sinks.adopt(uids, successor.generation, owed)
            self._sinks.rewind(target, successor.generation, keep_output=keep_output)
        self._crash.at(CrashPoint.S3_REWOUND, target.manifest.epoch)
        now = self._clock.now_ms()
        if not successor.reset_processing_time:
            now = max(now, closing.manifest.processing_time)
        fork = carry.restored(
            target,
            successor.origin,
            successor.generation,
            request.job,
            incarnation=me.nonce,
            number=me.number,
            now_ms=now,
            adopted=successor.adopted,
            reset_processing_time=successor.reset_processing_time,
        )
        fork = replace(fork, sinks=closing.manifest.sinks)  # also those that were added after the target
        return self._put_claim(fork if operators is None else carry.declared(fork, request, operators))

    def _hold_source(self, request: StartRequest, wanted: RestoreTarget, sealing: Manifest) -> None:
        """Checks once more, directly before the seal, that retention has not freed what was copied or found.

        From here on no retention frees it, whatever its clock says, until the manifest's number is taken.
        """
        if self._hold is not None and wanted is request.restore:
            self._hold.until(wanted.adopted, sealing.generation, sealing.epoch)

    def _put_claim(self, claim: Manifest) -> StoredManifest | None:
        """Seals a claim; None if its number was taken: the next look at the log finds the manifest that took it."""
        self._crash.at(CrashPoint.S2_BEFORE_CLAIM, claim.epoch)
        verdict = seal(self._log, claim, self._put_attempts)
        if not verdict.mine:
            return None
        self._crash.at(CrashPoint.S2_CLAIMED, claim.epoch)
        return verdict.stored

    # S3 -----------------------------------------------------------------------------------------------------------

    def _prepare_sinks(self) -> None:
        """Creates sinks that are new. No sink gets anything before the log has a birth id."""
        if self._log.birth() is None:
            self._log.create_birth_id(self._ids.new_id(), self._clock.now_ms())
        self._sinks.prepare()

    def _settle(
        self,
        request: StartRequest,
        claim: StoredManifest,
        operators: tuple[OperatorPlan, ...],
        foreign: Sequence[TableFence],
    ) -> Head:
        """Creates sinks that are new and pays what the chain owes: the newest output, a half-finished publish."""
        epoch = claim.manifest.epoch
        self._prepare_sinks()
        self._sinks.adopt([one.uid for one in foreign], claim.manifest.generation, None)
        if (debt := debts.owed(self._log, claim)) is not None:
            debts.pay(self._sinks, debt, self._sink_attempts, leave_out=request.keep_output)
        self._crash.at(CrashPoint.S3_SINKS_COMMITTED, epoch)
        base = self._publisher.finish(claim)
        self._crash.at(CrashPoint.S3_PUBLISHED, epoch)
        return Head(
            root=request.root,
            stored=claim,
            operators=operators,
            declared={shape.uid: min(shape.parallelism, shape.max_parallelism) for shape in request.operators},
            base=carry.newer_base(claim.manifest.lineage, claim.manifest.base, base),
        )


def _next_generation(generations: Iterable[int], foreign: Sequence[TableFence] = ()) -> int:
    """Returns the next generation: its number is unused, in the log and in the tables that the job takes over."""
    return max([0, *generations, *(transaction_place(one.fence)[0] for one in foreign)]) + 1


def _is_of_older_driver(stored: StoredManifest, me: look.Incarnation) -> bool:
    return stored.manifest.kind in ("epoch", "idle") and stored.manifest.incarnation_number < me.number


def _overtaken(successor: Successor, foreign: Sequence[TableFence]) -> bool:
    """Returns whether a table has seen the generation that a closing manifest announces, or a later one."""
    return any(transaction_place(one.fence)[0] >= successor.generation for one in foreign)


__all__ = ["StartUp"]
