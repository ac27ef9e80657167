"""Reads the facts for retention: one look at a job's storage, and at the jobs that were forked from it."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from state_engine.checkpoint.leases import read_leases
from state_engine.checkpoint.retention.decision import Facts, folder_below
from state_engine.checkpoint.retention.needs import (
    History,
    files_of_base,
    files_of_epoch,
    files_owed,
    way_back,
)
from state_engine.checkpoint.retention.policy import HOUR_MS, Retained, RetentionPolicy, retained_checkpoints
from state_engine.checkpoint.retention.savepoints import Removals, find_removals, read_pin
from state_engine.checkpoint.retention.strays import read_names
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.epoch import look
from state_engine.errors import NotFoundError, StorageError
from state_engine.log.lineage import first_own
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import (
    RESTORED,
    SAVEPOINTS,
    manifest_path,
    parse_manifest_path,
    parse_state_file,
    pin_path,
)
from state_engine.log.records import Span
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import job_names, open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.tables import Tables


class Snapshot(NamedTuple):
    """The result of one look.

    Attributes:
        facts: For the decision.
        retained: The checkpoints that stay.
        head: Hash of the newest sealed manifest.
        leaving: The savepoints to remove.
    """

    facts: Facts
    retained: Retained
    head: str | None
    leaving: Removals


def take_snapshot(root: str, job: str, policy: RetentionPolicy | None, now_ms: int) -> Snapshot:
    """Reads the facts for the decision, in an order in which no change is missed that is made meanwhile.

    Objects are listed first: a file that is written later is not among them, and stays. Protection moves from leases to
    the head and from savepoints to forks, and is read in this order.

    Args:
        root: Of the storage.
        job: Name of the job.
        policy: What to keep; None to delete the state of a job that has ended.
        now_ms: The present.

    Raises:
        CorruptionError: A manifest, base, pin or lease is damaged, so it is not known what it needs.
        StorageError: The storage does not answer.
    """
    storage = open_storage(root, job)
    objects = {info.path: info.size for info in storage.list("")}
    log, tables = ManifestLog(storage, job), open_tables(storage)
    # Leases before the head: a restore gives its lease back when the log shows what it needs, never earlier.
    leases = read_leases(root, job, now_ms)
    head = look.newest(log)
    rows = CheckpointTable(storage, tables).rows()
    history = History(storage, log, _newest_first(rows))
    completed = [row for row in rows if row.kind == "checkpoint" and row.status == "completed"]
    with_manifest = [row for row in completed if manifest_path(row.generation, row.epoch) in objects]
    leaving = find_removals(storage, objects, policy, rows, leases, now_ms)
    if policy is None or head is None:
        retained = Retained(None, (), ())
    else:
        retained = retained_checkpoints(policy, with_manifest, head.manifest, now_ms)
    needed, targets = _pinned(history, leaving.files)
    needed |= {path for path in objects for lease in leases if lease.folder and path.startswith(f"{lease.folder}/")}
    needed |= {path for lease in leases for path in lease.files}
    kept = (retained.start, *retained.others) if retained.start is not None else ()
    places = [(row.generation, row.epoch) for row in kept]
    places += [(lease.generation, lease.epoch) for lease in leases if not lease.folder]
    places += _forked(root, job)
    if head is not None and head.manifest.successor is not None:
        origin, adopted = head.manifest.successor.origin, head.manifest.successor.adopted
        places.append((origin.generation, origin.epoch))
        needed |= {adopted.manifest_path, adopted.base.path} if adopted is not None else set()
    targets += [stored for place in places if (stored := _read(log, *place)) is not None]
    for target in targets:
        needed |= files_of_epoch(history, target)
    walked: list[Span] = []
    entered: list[Span] = []
    if head is not None and policy is not None:
        needed |= files_of_epoch(history, head) | files_owed(log, head) | _of_window(history, retained)
        needed |= _active(tables, objects)
        root_span = first_own(head.manifest.lineage)
        needed.add(manifest_path(root_span.generation, root_span.first))  # records from which job this one was forked
        for target in targets:
            way = way_back(head.manifest, target.manifest)
            walked += (*way.left, *way.entered)
            entered += way.entered
    facts = Facts(
        objects=objects,
        head=head.manifest if head is not None and policy is not None else None,
        start=(retained.start.generation, retained.start.epoch) if retained.start else None,
        needed=frozenset(needed),
        way_back=tuple(dict.fromkeys(walked)),
        entered=tuple(dict.fromkeys(entered)),
        leaving=leaving.files,
        copies=_copies(log, objects),
        unfinished=_unfinished(storage, now_ms),
        names=read_names(history, objects, completed) if policy is not None and policy.strays else None,
    )
    return Snapshot(facts, retained, head.hash if head is not None else None, leaving)


def _unfinished(storage: CheckpointStorage, now_ms: int) -> dict[str, int]:
    """Returns the files that dead writers left: without a lock, and old enough for storages where locks do not tell."""
    return {info.path: info.size for info in storage.abandoned() if info.modified_ms <= now_ms - HOUR_MS}


def _newest_first(rows: Iterable[CheckpointRow]) -> tuple[CheckpointRow, ...]:
    return tuple(sorted((r for r in rows if r.checkpoint_id is not None), key=lambda r: -(r.checkpoint_id or 0)))


def _copies(log: ManifestLog, objects: Mapping[str, int]) -> dict[str, set[tuple[int, int]]]:
    """Returns folders with copies of canonical savepoints, and the manifests that name them. Reads none without any."""
    folders: dict[str, set[tuple[int, int]]] = {}
    for path in objects:
        if (folder := folder_below(RESTORED, path)) is not None:
            folders.setdefault(folder, set())
    for path in objects if folders else ():
        place = parse_manifest_path(path)
        stored = _read(log, *place) if place is not None else None
        if place is None or stored is None:
            continue
        successor = stored.manifest.successor
        adopted = successor.adopted.base if successor is not None and successor.adopted is not None else None
        for base in (stored.manifest.base, adopted):
            if base is not None and (folder := folder_below(RESTORED, base.path)) in folders:
                folders[folder].add(place)
    return folders


def _pinned(history: History, leaving: Collection[str]) -> tuple[set[str], list[StoredManifest]]:
    """Returns the files that pins list, and the epochs of the pins. A pin counts before its savepoint has a row."""
    needed: set[str] = set()
    targets = []
    for name in history.storage.folders(SAVEPOINTS):
        pin = read_pin(history.storage, name) if pin_path(name) not in leaving else None
        if pin is None:
            continue
        needed |= {path for path, _ in (*pin.manifests, *pin.handles)}
        if pin.base is not None:
            needed |= files_of_base(history, pin.base)
        if (stored := _read(history.log, pin.generation, pin.epoch)) is not None:
            targets.append(stored)
    return needed, targets


def _forked(root: str, job: str) -> list[tuple[int, int]]:
    """Returns the epochs of this job that other jobs of the root began with: these jobs may still read its files."""
    places = []
    for other in job_names(root):
        if other == job:
            continue
        log = ManifestLog(open_storage(root, other), other)
        head = look.newest(log)
        if head is None:
            continue
        first = first_own(head.manifest.lineage)
        begun = _read(log, first.generation, first.first)
        origin = begun.manifest.origin if begun is not None else None
        if origin is not None and origin.job == job:
            places.append((origin.generation, origin.epoch))
    return places


def _of_window(history: History, retained: Retained) -> set[str]:
    """Returns the bases, with their files, that the epochs from `start` on may name: every one of these epochs stays.

    An epoch names a base some time after the base became visible. So the oldest named base is that of the oldest epoch.
    """
    start = retained.start
    oldest = _read(history.log, start.generation, start.epoch) if start is not None else None
    if start is None or oldest is None:
        return set()
    named = oldest.manifest.base
    first = named.epoch if named is not None else 0
    needed: set[str] = set()
    for row in history.checkpoints:
        if row.base is not None and row.status == "completed" and row.epoch >= first:
            needed |= files_of_base(history, row.base)
    return needed


def _active(tables: Tables, objects: Iterable[str]) -> set[str]:
    """Returns the files of the newest version of each state table; all files of a table that cannot be loaded."""
    by_table: dict[str, set[str]] = {}
    for path in objects:
        if parse_state_file(path) is not None:
            by_table.setdefault(path.rpartition("/")[0], set()).add(path)
    needed: set[str] = set()
    for table, files in by_table.items():
        try:
            active = tables.active(table)
        except StorageError:
            needed |= files
        else:
            needed |= {f"{table}/{name}" for name in active.names} if active is not None else set()
    return needed


def _read(log: ManifestLog, generation: int, epoch: int) -> StoredManifest | None:
    try:
        return log.read(generation, epoch)
    except NotFoundError:
        return None


__all__ = ["Snapshot", "take_snapshot"]
