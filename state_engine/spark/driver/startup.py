"""Runs steps S1 to S4 of a job's start on Spark: opens its log, claims it, and makes Spark's directory."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec

from state_engine.api.checkpoint_config import CheckpointingMode
from state_engine.api.checkpoint_storage import DeltaCheckpointStorage
from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.checkpoint.publish import CheckpointPublisher, PublishEvent
from state_engine.clock import RandomIds, SystemClock
from state_engine.epoch import table_fences
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest, read_target
from state_engine.epoch.ports import Crash, StreamEdge
from state_engine.epoch.request import Head, OperatorShape, RestoreTarget, StartRequest
from state_engine.epoch.rewrite import is_back
from state_engine.epoch.sink_names import described, moved
from state_engine.epoch.source_changes import accepted
from state_engine.epoch.source_options import DELTA, KAFKA, format_of
from state_engine.epoch.start import StartUp
from state_engine.epoch.unread import unread
from state_engine.errors import NotFoundError
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline
from state_engine.log.records import Base, Manifest
from state_engine.log.source_records import SourceFile, SourceFingerprint, files_read
from state_engine.runtime.windows.shape import windows_shape
from state_engine.savepoint import adopt_for, kept_for_start, resolve_restore
from state_engine.savepoint.claim import ClaimMode, check_claim, claim_source
from state_engine.savepoint.copying import Progress
from state_engine.savepoint.fitness import with_sizes
from state_engine.savepoint.rekey import with_rewrite
from state_engine.savepoint.segments import segments_at, segments_of_target, source_files_of
from state_engine.spark.driver.clock_notices import log_difference
from state_engine.spark.driver.hadoop_files import has_own_access, missing_files
from state_engine.spark.driver.moved_sources import check_moved, follow_files
from state_engine.spark.driver.seeding import check_files_exist, remove_others, seed
from state_engine.spark.driver.source_positions import ask_sources
from state_engine.spark.driver.trigger import TRIGGER_INTERVAL_MS
from state_engine.spark.graph.definition import JobDefinition, spec_of
from state_engine.spark.graph.nodes import Edge, OperatorNode
from state_engine.spark.graph.settings import JobSettings
from state_engine.spark.graph.upstream import client_options
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.spark.worker.kill_at import KillAt, crash_from_environment
from state_engine.storage.background import OneThread
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import inherited_base, read_base

_log = logging.getLogger(__name__)


class StartOptions(NamedTuple):
    """The options of a start; `StreamJob.start` explains each."""

    available_now: bool = False
    trigger_interval_ms: int = TRIGGER_INTERVAL_MS
    restore: str | None = None
    parallelism: int | None = None
    allow_non_restored_state: bool = False
    resume_state: Sequence[str] = ()
    discard_state: Sequence[str] = ()
    keep_output: bool = False
    adopt_sinks: bool = False
    reset_processing_time: bool = False
    allow_changed_sources: Sequence[int] = ()
    max_parallelism: int | None = None
    uid_mapping: Mapping[str, str] = {}
    claim_mode: ClaimMode = "NO_CLAIM"
    strict: bool = False
    validate: bool = True
    cancelled: Callable[[], bool] | None = None
    progress: Progress | None = None


class Started(NamedTuple):
    """A claimed job, ready for its query.

    `job` has the same number of key groups as its log.
    """

    job: JobDefinition
    head: Head
    log: ManifestLog
    sinks: SinkCommits
    publisher: CheckpointPublisher
    coordinator: CheckpointCoordinator
    crash: Crash
    crash_property: str | None
    fingerprints: tuple[SourceFingerprint, ...]
    directory: str


def start_up(job: JobDefinition, options: StartOptions) -> Started:
    """Runs S1 to S4 of a start; returns the claimed job."""
    with ExitStack() as undo:
        started = _start_up(job, options, undo)
        undo.pop_all()
    return started


def _start_up(job: JobDefinition, options: StartOptions, undo: ExitStack) -> Started:
    storage = open_storage(job.root, job.name)
    storage.check_writable()

    def open_job(name: str) -> CheckpointStorage:
        return open_storage(job.root, name)

    log = ManifestLog(storage, job.name, open_job=open_job)
    crash = crash_from_environment()
    config, shown = job.settings.checkpoint_config, job.settings.show_records
    early = config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    sinks = SinkCommits(job.name, job.operators, storage, log, crash.at, early=early, show_records=shown)
    undo.callback(sinks.close)
    coordinator = CheckpointCoordinator(config)
    publisher = CheckpointPublisher(
        storage,
        job.name,
        checkpoint_storage=config.get_checkpoint_storage() or DeltaCheckpointStorage(),
        background=OneThread(f"publish-{job.name}"),
        crash=crash,
        on_end=lambda event: _report(coordinator, event),
        open_job=open_job,
    )
    job, request = _request(job, log, options, sinks)
    before = newest(log)
    if before is not None:
        log_difference(job.name, before.manifest.processing_time, SystemClock().now_ms())
    request = _with_asked_sources(job, log, request, before)
    _check_sources(job, request, before, open_job)
    sinks.check()
    table_fences.check(sinks, log, job.name, adopt_sinks=options.adopt_sinks)
    with kept_for_start(request, log) as hold:
        request = adopt_for(
            request, log, cancelled=options.cancelled, progress=options.progress, hold=hold, validate=options.validate
        )
        head = StartUp(log, sinks, publisher, SystemClock(), RandomIds(), crash, hold=hold).run(request)
    for was, sink in moved(request.sinks, before.manifest) if before is not None else ():
        _log.warning(
            "Sink %r of job %r writes %s from now on; %s keeps what it has, and no restore rewinds it.",
            sink.uid, job.name, described(sink), described(was),
        )  # fmt: skip
    origin = request.restore.seen if request.restore is not None else before
    for change in accepted(origin.manifest, request.fingerprints) if origin is not None else ():
        _log.warning("Job %r goes on with a changed source, as the start allows: %s.", job.name, change)
    if origin is not None:
        _log_unread(job, request, origin.manifest, head)
    if request.restore is not None and options.claim_mode == "CLAIM":
        claim_source(job.root, request.restore)
    _resume(coordinator, publisher.next_checkpoint_id(), log, head)
    directory = _seed(job, open_job, log, head)
    crash.at(CrashPoint.S4_SEEDED, head.stored.manifest.epoch)
    return Started(
        job=job,
        head=head,
        log=log,
        sinks=sinks,
        publisher=publisher,
        coordinator=coordinator,
        crash=crash,
        crash_property=crash.as_property() if isinstance(crash, KillAt) else None,
        fingerprints=head.stored.manifest.fingerprints,
        directory=directory,
    )


def _report(coordinator: CheckpointCoordinator, event: PublishEvent) -> None:
    now = SystemClock().steady_ms()
    if event.reason is None:
        coordinator.completed(event.checkpoint_id, now)
    else:
        coordinator.failed(event.checkpoint_id, now, event.reason, event.message)


def _resume(coordinator: CheckpointCoordinator, next_id: int, log: ManifestLog, head: Head) -> None:
    """Tells the coordinator how much the log holds after the newest base."""
    base = head.base.epoch if head.base else 0
    log_bytes, inlined, newest_epoch = 0, 0, base
    for manifest, _, change_bytes, in_manifest in log.outlines(head.stored):
        if manifest.epoch > base:
            log_bytes += change_bytes
            inlined += in_manifest
            brought = change_bytes or manifest.kind == "epoch"
            newest_epoch = max(newest_epoch, manifest.epoch) if brought else newest_epoch
    coordinator.resume(
        next_id=next_id,
        last_epoch=base,
        log_bytes=log_bytes,
        inlined_bytes=inlined,
        newest_epoch=newest_epoch,
        now_ms=SystemClock().steady_ms(),
    )


def _request(
    job: JobDefinition, log: ManifestLog, options: StartOptions, sinks: SinkCommits
) -> tuple[JobDefinition, StartRequest]:
    """Returns the job with the number of key groups that it gets, and the request for `StartUp`."""
    target: RestoreTarget | None = None
    before = _epoch_to_continue(log) if options.restore is None else None
    restore = options.restore
    if before is not None and any(is_back(before.manifest, uid) for uid in options.discard_state):
        restore = "latest"
    if restore is not None:
        target = resolve_restore(job.root, job.name, restore)
        if options.max_parallelism is not None:
            job = replace(job, settings=job.settings.rekeyed(options.max_parallelism))
        target = _rewriting(target, job, options)
        before = target.seen
    if before is not None:
        job = replace(job, settings=as_logged(job.settings, before.manifest))
    return job, StartRequest(
        job=job.name,
        root=job.root,
        operators=shapes_of(job.settings, job.operators),
        fingerprints=job.sources.fingerprints,
        sinks=sinks.declared,
        parallelism=options.parallelism,
        restore=target,
        allow_non_restored_state=options.allow_non_restored_state,
        resume_state=tuple(options.resume_state),
        keep_output=options.keep_output,
        adopt_sinks=options.adopt_sinks,
        reset_processing_time=options.reset_processing_time,
        allow_changed_sources=tuple(sorted(set(options.allow_changed_sources))),
        strict=options.strict,
    )


def as_logged(settings: JobSettings, origin: Manifest) -> JobSettings:
    """Returns settings with the number of key groups that the job has in its log, unless its author gave one.

    Raises:
        JobDefinitionError: The parallelism is above that number.
    """
    for operator in origin.operators.values():
        settings = settings.as_logged(operator.max_parallelism)
    return settings


def _rewriting(target: RestoreTarget, job: JobDefinition, options: StartOptions) -> RestoreTarget:
    """Returns a restore's target together with the changes that the options make to its state.

    Raises:
        RestoreError: The state cannot be changed that way.
    """
    rewritten = with_rewrite(
        target,
        job.name,
        uid_mapping=options.uid_mapping,
        max_parallelism=options.max_parallelism,
        uids=[node.uid for node in job.operators],
        allow_non_restored_state=options.allow_non_restored_state,
        discard_state=options.discard_state,
    )
    check_claim(job.name, rewritten, options.claim_mode)
    return rewritten


def _log_unread(job: JobDefinition, request: StartRequest, origin: Manifest, head: Head) -> None:
    """Logs which state the code does not read, so that no values are lost silently."""
    unread_states = unread(request.operators, origin)
    segments = segments_at(job.root, job.name, head.stored) if unread_states else ()
    for state in with_sizes(unread_states, origin.schemas, segments):
        level = logging.INFO if state.before else logging.WARNING
        _log.log(level, "The code of job %r does not read %s.", job.name, state)


def shapes_of(settings: JobSettings, operators: Sequence[OperatorNode]) -> tuple[OperatorShape, ...]:
    """Returns operators as a job declares them."""
    specs = [spec_of(node, settings) for node in operators]
    return tuple(
        OperatorShape(
            uid=spec.uid,
            parallelism=settings.parallelism,
            max_parallelism=spec.max_parallelism,
            keys=spec.key,
            edges=tuple(_stream_edge(edge, chained=node.chained) for edge in node.edges),
            schemas=node.states,
            generated_uid=node.generated_uid,
            all_known=node.all_states_known,
            windows=windows_shape(spec.function),
        )
        for spec, node in zip(specs, operators, strict=True)
    )


def _epoch_to_continue(log: ManifestLog) -> StoredManifest | None:
    """Returns the epoch that the job goes on from.

    It is the newest one. If a restore with a rewrite was decided and not finished, it is the epoch of that restore.
    """
    head = newest(log)
    if head is None or head.manifest.successor is None:
        return head
    successor = head.manifest.successor
    return head if successor.origin.rewrite is None else read_target(log, successor.origin, successor.adopted)


def _stream_edge(edge: Edge, *, chained: bool) -> StreamEdge:
    strategy = edge.strategy
    return StreamEdge(
        upstream=edge.origin.uid if isinstance(edge.origin, OperatorNode) else None,
        input=edge.input,
        out_of_orderness=strategy.out_of_orderness if strategy is not None else None,
        partition=strategy.partition if strategy is not None else None,
        idle_after=strategy.idle_after if strategy is not None else None,
        chained=chained,
    )


def _with_asked_sources(
    job: JobDefinition, log: ManifestLog, request: StartRequest, head: StoredManifest | None
) -> StartRequest:
    """Checks that Kafka and Delta tables still have what is going to be read; adds the ids of topics to the request.

    Raises:
        SourcePositionLostError: They have not.
        SourceUnavailableError: They do not answer.
    """
    if all(format_of(source.kind) not in (DELTA, KAFKA) for source in request.fingerprints):
        return request
    if not job.sources.replays:
        return request
    target = head.manifest if head is not None else None
    if request.restore is not None:
        target = request.restore.seen.manifest
    elif head is not None and (successor := head.manifest.successor) is not None:  # this start finishes that restore
        target = read_target(log, successor.origin, successor.adopted).manifest
    asked = ask_sources(
        job.session, client_options(job.sources.df), request.fingerprints, target, request.allow_changed_sources
    )
    return msgspec.structs.replace(request, fingerprints=asked)


def _check_sources(
    job: JobDefinition,
    request: StartRequest,
    head: StoredManifest | None,
    open_job: Callable[[str], CheckpointStorage],
) -> None:
    """Checks that what will be read exists: files read after a restored epoch, and sources that are allowed to move.

    The job itself may have read these files, or, for a fork, the job that the epoch belongs to.
    """
    restore = request.restore
    if request.allow_changed_sources and (target := restore.seen if restore is not None else head) is not None:
        segments = segments_of_target(job.root, restore) if restore else segments_at(job.root, job.name, target)
        files = source_files_of(segments)
        check_moved(target.manifest, request.fingerprints, files, request.allow_changed_sources)
    if restore is None:
        return
    reread: list[SourceFile] = []
    origin = restore.stored.manifest
    now = request.fingerprints if origin.sources else ()  # without positions any sources will do
    for name in dict.fromkeys((request.job, origin.job)):
        later = _sealed_since(origin, name, ManifestLog(open_job(name), name))
        reread.extend(file for manifest in later for file in _new_files(manifest, now))
    if not any(map(has_own_access, client_options(job.sources.df))):
        check_files_exist([file.path for file in reread], partial(missing_files, job.session))


def _new_files(manifest: Manifest, now: Sequence[SourceFingerprint]) -> Iterator[SourceFile]:
    """Yields the files that an epoch read, with their paths at the place where the sources read now."""
    for number, (position, recorded) in enumerate(zip(manifest.sources, manifest.fingerprints, strict=True)):
        yield from follow_files(position.new_files, recorded, now[number] if number < len(now) else recorded)


def _sealed_since(target: Manifest, job: str, log: ManifestLog) -> Iterator[Manifest]:
    """Yields what a job has sealed since it left the lineage of `target`, or since its first epoch; newest first."""
    current: StoredManifest | Outline | None = newest(log)
    while current is not None:
        manifest = current.manifest
        leads_there = manifest.job == target.job and manifest.epoch <= target.epoch
        if leads_there and contains(target.lineage, manifest.generation, manifest.epoch):
            return
        yield manifest
        place = predecessor_of(manifest)
        try:
            current = log.read_outline(place.generation, place.epoch) if place and place.job == job else None
        except NotFoundError:
            if job == target.job:  # retention keeps the chain to every epoch that can be restored
                raise
            return  # a fork that is started again: its older epochs are gone


def _seed(job: JobDefinition, open_job: Callable[[str], CheckpointStorage], log: ManifestLog, head: Head) -> str:
    """Runs S4: makes a fresh directory for this incarnation, and returns its path.

    The offsets are those of the claim; the files that sources have read are those of the base and of the manifests
    since, because a claim brings no new files.
    """
    manifest = head.stored.manifest
    directory = os.path.join(job.settings.spark_directory, manifest.incarnation)
    positions = manifest.sources if job.sources.replays else ()
    recorded = _files_up_to(open_job, log, head.stored)
    files = [
        list(follow_files(seen, source, source)) for seen, source in zip(recorded, manifest.fingerprints, strict=False)
    ]
    seed(directory, manifest.source_metadata, positions, files)
    remove_others(directory)
    return directory


def _files_up_to(
    storage_of: Callable[[str], CheckpointStorage], log: ManifestLog, head: StoredManifest
) -> tuple[tuple[SourceFile, ...], ...]:
    """Returns for each source the files read from it up to a manifest: those of the base and of every epoch since."""
    manifest = head.manifest
    epochs = [outline.manifest for outline in log.outlines(head)]
    if manifest.base is not None:
        base: Base | None = read_base(storage_of(manifest.job), manifest.base)
    else:
        base = inherited_base(manifest.job, epochs, storage_of)
    files = files_read(base.source_files if base is not None else (), (epoch.sources for epoch in epochs))
    return files + ((),) * (len(manifest.sources) - len(files))


__all__ = ["StartOptions", "Started", "as_logged", "shapes_of", "start_up"]
