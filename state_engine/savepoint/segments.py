"""Finds, checks and reads the files that fold to the state of a restore's source, in the log or in a folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pyarrow as pa

from state_engine.checkpoint.fold_inputs import newest_fold_inputs
from state_engine.checkpoint.plan import StatePlan, plan_state
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.request import RestoreTarget
from state_engine.errors import MissingFileError, NotFoundError, RestoreCancelledError
from state_engine.log.fold import fold
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, Pin, StateFile, StateHandle, StateSchema
from state_engine.log.source_records import SourceFile, files_read
from state_engine.log.state_ttl import drop_expired, forget_unknown, without_expired
from state_engine.savepoint.catalogue import load_canonical, load_savepoint
from state_engine.savepoint.copying import Progress
from state_engine.savepoint.handles import changes_of, read_pinned
from state_engine.savepoint.source import REMEDY
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import ObjectReader
from state_engine.storage.state_reader import Segment, empty_rows, history_of, read_log_rows
from state_engine.storage.whole_file import check_whole

_READERS = 4
"""Number of files that are checked, and so are in memory, at the same time."""

_LOOK_S = 0.2
"""While files are read, cancellation is checked at least this often, in seconds."""


def segments_of_target(root: str, target: RestoreTarget) -> Sequence[Segment]:
    """Returns the segments that fold to the state of a source: of a savepoint the files that it keeps, and no others.

    Raises:
        CorruptionError: Something is gone or damaged.
    """
    if target.location is not None:
        return [load_canonical(target.location).segment]
    owner = target.stored.manifest.job
    if target.savepoint_id is None:
        return segments_at(root, owner, target.stored)
    savepoint = load_savepoint(root, owner, target.savepoint_id)
    assert isinstance(savepoint, Pin), "a canonical one has a location"
    return [read_pinned(open_storage(root, owner), savepoint).segment]


def segments_at(root: str, job: str, head: StoredManifest) -> Sequence[Segment]:
    """Returns the segments that fold to the state of a job at a sealed epoch.

    Raises:
        CorruptionError: Something is gone or damaged.
    """
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    inputs = newest_fold_inputs(storage, log, CheckpointTable(storage, open_tables(storage)), head)
    return history_of(inputs.base, job, inputs.manifests, lambda owner: open_storage(root, owner))


def source_files_of(segments: Iterable[Segment]) -> tuple[tuple[SourceFile, ...], ...]:
    """Returns for each source the files that were read from it up to the end of a history."""
    files: tuple[tuple[SourceFile, ...], ...] = ()
    for _, base, manifests in segments:
        files = files_read(base.source_files if base is not None else files, (one.sources for one in manifests))
    return files


def reading_plan(segments: Sequence[Segment], head: Manifest, schema: StateSchema) -> StatePlan:
    """Plans how a state is read as a whole: in ranges of key groups that fit into memory."""
    manifests = tuple(manifest for segment in segments for manifest in segment.manifests)
    return plan_state(schema, segments[0].base, manifests or (head,), None, asked_full=True)


def log_size(segments: Iterable[Segment], schema: StateSchema) -> tuple[int, int]:
    """Returns the number of rows of a state's log, live or not, and the bytes that are read for them."""
    rows = size = 0
    for _, base, manifests in segments:
        old = base.schemas if base is not None else ()
        ids = {schema.schema_id, *(one.schema_id for one in old if (one.uid, one.name) == (schema.uid, schema.name))}
        for file in base.files if base is not None else ():
            if file.schema_id in ids:
                rows, size = rows + file.rows, size + file.length
        for manifest in manifests:
            operator = manifest.operators.get(schema.uid)
            for ack in operator.acks if operator is not None else ():
                for section in ack.changes.sections if ack.changes is not None else ():
                    if section.name == schema.name:
                        rows, size = rows + section.rows, size + section.length
    return rows, size


def check_files(
    segments: Iterable[Segment], *, cancelled: Callable[[], bool] | None = None, progress: Progress | None = None
) -> None:
    """Reads every file of a history once, by length and checksum.

    Args:
        segments: The history.
        cancelled: Called again and again; when it returns True, the check ends without waiting for open reads.
        progress: Called with the share of the bytes that is read.

    Raises:
        MissingFileError: A file is gone; the error names it.
        DamagedFileError: A file is not what was written; the error names it.
        RestoreCancelledError: It was cancelled.
    """
    files = [(segment.storage, file) for segment in segments for file in files_of(segment)]
    total, done = sum(file.length for _, file in files), 0
    readers = ThreadPoolExecutor(_READERS)
    try:
        reading = {readers.submit(_check_file, storage, file): file for storage, file in files}
        while reading:
            for future in wait(reading, _LOOK_S, FIRST_COMPLETED).done:
                future.result()
                done += reading.pop(future).length
                if progress is not None:
                    progress("checking files", done / total if total else 1.0)
            if cancelled is not None and cancelled():
                raise RestoreCancelledError(
                    "The restore was cancelled while it checked files.", action="Nothing; the job is as it was."
                )
    finally:
        readers.shutdown(wait=False, cancel_futures=True)


def files_of(segment: Segment) -> Iterator[StateFile | StateHandle]:
    """Yields the files of a segment that remain to be read, once its base and manifests have been read."""
    if segment.base is not None:
        yield from (file for file in segment.base.files if file.inlined is None)
    for manifest in segment.manifests:
        yield from changes_of(manifest)


def _check_file(storage: ObjectReader, file: StateFile | StateHandle) -> None:
    try:
        data = storage.get(file.path)
    except NotFoundError as error:
        raise MissingFileError(f"{storage.url}/{file.path} is gone.", action=REMEDY) from error
    check_whole(data, file, named=f"{storage.url}/{file.path}", remedy=REMEDY)


def live_pieces(
    segments: Sequence[Segment], plan: StatePlan, raise_if_cancelled: Callable[[], None] = lambda: None
) -> Iterator[pa.Table]:
    """Yields the live rows of a state range by range, without expired ones, in the state's own type.

    Memory holds one range. A last access is null if it was stamped in another kind of time.

    Args:
        segments: What folds to the state.
        plan: How it is read.
        raise_if_cancelled: Called between two files; may raise.

    Raises:
        CorruptionError: A file is gone or damaged; the error names it.
    """
    schema = without_expired(plan.schema)
    for first, last in plan.ranges:
        tables = [empty_rows(schema)]
        for rows in read_log_rows(segments, schema, first, last):
            tables.append(rows)
            raise_if_cancelled()
        live = fold(schema, tables)
        del tables
        live = drop_expired(schema, live, plan.processing_time, plan.watermark)
        yield forget_unknown(live, schema.unknown_until)


__all__ = [
    "check_files",
    "files_of",
    "live_pieces",
    "log_size",
    "reading_plan",
    "segments_at",
    "segments_of_target",
    "source_files_of",
]
