"""Makes manifests without data: a claim, a closing manifest, the first manifest of a generation. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from state_engine.epoch import source_changes
from state_engine.epoch.compatibility import merge_schemas
from state_engine.epoch.ports import OperatorPlan
from state_engine.epoch.request import RestoreTarget, StartRequest
from state_engine.epoch.rescale import rescaled, sharing
from state_engine.epoch.sink_names import merged
from state_engine.epoch.watermarks import still_told
from state_engine.log.lineage import contains, fork_lineage, imported_lineage
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import (
    Adopted,
    BaseReference,
    HighestTime,
    Manifest,
    ManifestKind,
    OperatorEpoch,
    Origin,
    Span,
    Successor,
)
from state_engine.log.source_records import SourcePosition


def still(manifest: Manifest) -> Manifest:
    """Strips a manifest of what belongs to its epoch alone, and would count twice if a later manifest repeated it.

    Positions, watermarks, schemas, keys and base stay; acks, inlined changes, new source files and marks of the epoch
    go. Operators that the job no longer has stay too: if they come back, their state still exists.
    """
    return replace(
        manifest,
        sources=tuple(SourcePosition(offset=position.offset) for position in manifest.sources),
        operators={uid: replace(operator, acks=()) for uid, operator in manifest.operators.items()},
        inlined={},
        checkpoint_id=None,
        origin=None,
        successor=None,
        restored=None,
    )


def carried(previous: StoredManifest, kind: ManifestKind, *, incarnation: str, number: int, now_ms: int) -> Manifest:
    """Returns the manifest after `previous`, without data. Processing time never goes back."""
    manifest = previous.manifest
    return replace(
        still(manifest),
        epoch=manifest.epoch + 1,
        kind=kind,
        incarnation=incarnation,
        incarnation_number=number,
        predecessor=previous.hash,
        processing_time=max(now_ms, manifest.processing_time),
    )


def first(request: StartRequest, *, generation: int = 1, incarnation: str, now_ms: int) -> Manifest:
    """Returns the very first manifest of a job: epoch 1, no predecessor, no positions.

    Its generation is 1, unless the job had earlier epochs and all of them were deleted.
    """
    manifest = Manifest(
        job=request.job,
        generation=generation,
        epoch=1,
        kind="claim",
        incarnation=incarnation,
        incarnation_number=1,
        predecessor="",
        processing_time=now_ms,
        lineage=(Span(generation=generation, first=1),),
    )
    return declared(manifest, request, planned(request))


def restored(
    target: StoredManifest,
    origin: Origin,
    generation: int,
    job: str,
    *,
    incarnation: str,
    number: int,
    now_ms: int,
    adopted: Adopted | None = None,
    reset_processing_time: bool = False,
) -> Manifest:
    """Returns the first manifest of a generation that starts from `target`.

    A fork from another job has a lineage of its own and no base yet. For earlier epochs, readers follow predecessor and
    `origin` into the other job's root. The fork does not take over the other job's sinks.

    After a canonical savepoint, the `adopted` base is all that comes before. The lineage goes back beyond it only if
    the job's own log has the epoch.

    Processing time goes on from that of the target, or with `reset_processing_time` from that of the clock.
    """
    manifest = carried(target, "restore", incarnation=incarnation, number=number, now_ms=now_ms)
    if origin.imported:
        lineage: tuple[Span, ...] = imported_lineage(target.manifest.epoch, generation)
        base: BaseReference | None = None
        manifest = manifest if origin.job == job else replace(manifest, sinks=())
    elif origin.job == job:
        lineage, base = fork_lineage(manifest.lineage, target.manifest.epoch, generation), manifest.base
    else:
        lineage, base = (Span(generation=generation, first=manifest.epoch),), None
        manifest = replace(manifest, sinks=())
    base = adopted.base if adopted is not None else base
    if reset_processing_time:
        manifest = replace(manifest, processing_time=now_ms)
    return replace(manifest, job=job, generation=generation, lineage=lineage, base=base, origin=origin)


def declared(manifest: Manifest, request: StartRequest, operators: tuple[OperatorPlan, ...]) -> Manifest:
    """Adds to a claim what the job declares today; the caller has checked that the job is compatible."""
    plans = {plan.uid: planned_epoch(plan, manifest.operators.get(plan.uid)) for plan in operators}
    times = {plan.uid: _still_told(plan, manifest) for plan in operators}
    return replace(
        manifest,
        fingerprints=source_changes.carried(manifest.fingerprints if manifest.sources else (), request.fingerprints),
        operators=plans | {uid: _left(op, manifest) for uid, op in manifest.operators.items() if uid not in plans},
        schemas=merge_schemas(
            manifest.schemas, (schema for op in request.operators for schema in op.schemas), manifest.epoch, claim=True
        ),
        sinks=merged(manifest.sinks, request.sinks),
        keys=manifest.keys | {shape.uid: shape.keys for shape in request.operators},
        event_times={uid: told for uid, told in {**manifest.event_times, **times}.items() if told},
    )


def _left(operator: OperatorEpoch, manifest: Manifest) -> OperatorEpoch:
    return operator if operator.left_at is not None else replace(operator, left_at=manifest.epoch)


def _still_told(plan: OperatorPlan, manifest: Manifest) -> tuple[HighestTime, ...]:
    known = manifest.operators.get(plan.uid)
    return still_told(plan, manifest.event_times.get(plan.uid, ()), known.partition_columns if known else ())


def planned_epoch(plan: OperatorPlan, before: OperatorEpoch | None) -> OperatorEpoch:
    """Returns an operator as a manifest without acks records it: with today's numbers, and what is known of it."""
    known = before or OperatorEpoch(parallelism=plan.parallelism, max_parallelism=plan.max_parallelism, unwritten=True)
    return replace(
        known,
        parallelism=plan.parallelism,
        max_parallelism=plan.max_parallelism,
        rescaled_from=plan.rescaled_from,
        partition_columns=plan.partition_columns,
        windows=plan.windows,
        left_at=None,
    )


def planned(
    request: StartRequest, successor: Successor | None = None, head: StoredManifest | None = None
) -> tuple[OperatorPlan, ...]:
    """Returns the operators with the parallelism of this start: the request's, else the restore's, else their own.

    A job that goes on after `head` keeps the parallelism that a rescale gave it there, as long as the number in the
    job's definition has not changed since. A job that died must not come back at another size; an author who writes
    another number means it.
    """
    wanted = request.parallelism or (successor.parallelism if successor else None)
    operators = tuple(
        OperatorPlan(
            uid=shape.uid,
            parallelism=min(wanted or shape.parallelism, shape.max_parallelism),
            max_parallelism=shape.max_parallelism,
            edges=shape.edges,
            windows=shape.windows,
            rescaled_from=shape.parallelism if request.lasting and wanted not in (None, shape.parallelism) else None,
        )
        for shape in request.operators
    )
    return operators if wanted or head is None else _still_rescaled(operators, head.manifest.operators)


def _still_rescaled(
    operators: tuple[OperatorPlan, ...], before: Mapping[str, OperatorEpoch]
) -> tuple[OperatorPlan, ...]:
    plans = {operator.uid: operator for operator in operators}
    declared = {operator.uid: operator.parallelism for operator in operators}
    kept: dict[str, int] = {}
    for together in sharing(operators):  # a new operator goes with those that it now shares a task with
        known = [(before[uid], declared[uid]) for uid in together if uid in before]
        numbers = {previous.parallelism for previous, _ in known}
        unchanged = all((previous.rescaled_from or previous.parallelism) == number for previous, number in known)
        if len(numbers) == 1 and unchanged:
            [number] = numbers
            if all(number <= plans[uid].max_parallelism for uid in together):
                kept |= dict.fromkeys(together, number)
    return rescaled(operators, kept, declared)


def newer_base(
    lineage: tuple[Span, ...], current: BaseReference | None, found: BaseReference | None
) -> BaseReference | None:
    """Returns `found` if it is on this lineage and newer than `current`; else `current`.

    A base of abandoned epochs is never adopted, no matter which process offers it.
    """
    if found is None or not contains(lineage, found.generation, found.epoch):
        return current
    return found if current is None or found.epoch > current.epoch else current


def origin_of(wanted: RestoreTarget) -> Origin:
    """Returns the reference with which a generation names what it started from."""
    manifest = wanted.stored.manifest
    return Origin(
        job=manifest.job,
        generation=manifest.generation,
        epoch=manifest.epoch,
        manifest=wanted.stored.hash,
        savepoint_id=wanted.savepoint_id,
        imported=wanted.imported,
        rewrite=wanted.rewrite,
    )


__all__ = ["carried", "declared", "first", "newer_base", "origin_of", "planned", "planned_epoch", "restored", "still"]
