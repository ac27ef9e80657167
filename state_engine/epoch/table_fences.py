"""Checks whether a sink's table belongs to this log, and is not ahead of it (S1, before anything is written). Pure.

A table recognises a repeated commit by its numbers. A log that has lost epochs that the table has, or that began anew,
would use these numbers once more. The table would then take the new output for output that it already has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from msgspec.structs import replace

from state_engine.epoch import look
from state_engine.epoch.ports import Log, Sinks, TableFence
from state_engine.epoch.sink_moves import outputs_of, transaction_place, transaction_version
from state_engine.epoch.sink_names import same, table_of
from state_engine.errors import NotFoundError, SinkAheadError
from state_engine.log.birth import birth_number
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline
from state_engine.log.records import SinkTable

_LOOKS = 1_000
"""At how many epochs a start looks for output of a sink."""


def foreign_or_ahead(
    fences: Sequence[TableFence],
    log: Log,
    head: StoredManifest | None,
    floors: Mapping[int, int],
    again: Callable[[], Sequence[TableFence]] | None = None,
) -> list[TableFence]:
    """Returns the sinks with tables that another log has written, that are ahead of this log, or lost their marker.

    Args:
        fences: As they were before the log was read: the tables of a live driver are never ahead of its log.
        log: The job's log.
        head: Its newest manifest.
        floors: Its floors, by generation: up to them, numbers of epochs may have been deleted.
        again: Reads the sinks once more, after the log was read: a live driver may have committed since the first look.
    """
    lost = {one.uid for one in fences if _has_lost(log, head, one)}
    if lost and again is not None:
        lost = {one.uid for one in again() if one.uid in lost and _has_lost(log, head, one)}
    log_versions = [transaction_version(generation, epoch) for generation, epoch in floors.items()]
    if head is None:  # a restore that was running when all was deleted may have moved fences to the next generation
        log_versions.append(transaction_version(max(floors, default=0) + 1, 0))
    else:
        log_versions.append(transaction_version(head.manifest.generation, head.manifest.epoch))
        if head.manifest.successor is not None:
            log_versions.append(transaction_version(head.manifest.successor.generation, 0))
    birth, newest = log.birth(), max(log_versions, default=0)
    log_birth = birth_number(birth) if birth is not None else None
    return [
        replace(one, lost=one.uid in lost)
        for one in fences
        if one.fence > newest
        or one.birth not in (None, log_birth)
        or _brought_no_output(log, head, one.fence)
        or one.uid in lost
    ]


def _has_lost(log: Log, head: StoredManifest | None, one: TableFence) -> bool:
    """Returns whether a system has lost its marker, or has an older one than the log shows.

    A start makes a marker before the first epoch, and no epoch is sealed before the one before it was committed. So the
    system has at least the output before the newest one; that may still be owed.
    """
    if one.sink is None:
        return False
    places = _output_of(log, head, one.sink)
    if not one.fence and one.birth is None:
        return next(places, None) is not None
    next(places, None)
    before = next(places, None)
    return before is not None and one.fence < transaction_version(*before)


def _output_of(log: Log, head: StoredManifest | None, sink: SinkTable) -> Iterator[tuple[int, int]]:
    """Yields the newest epochs that had output for a sink, newest first; it looks at a limited number of epochs."""
    at: StoredManifest | Outline | None = head
    for _ in range(_LOOKS):
        if at is None:
            return
        manifest = at.manifest
        known = table_of(manifest, sink.uid)
        if known is not None and same(known, sink) and outputs_of(manifest, sink.uid):
            yield manifest.generation, manifest.epoch
        place = predecessor_of(manifest)
        if place is None or place.job != manifest.job:
            return
        try:
            at = log.read_outline(place.generation, place.epoch)
        except NotFoundError:
            return  # retention removed it


def _brought_no_output(log: Log, head: StoredManifest | None, fence: int) -> bool:
    """Returns whether the log has, at the number of the table's fence, a manifest that never brings output.

    In that case the log was set back. Since then a compaction or a restore of key groups, which see no sink, claimed
    it. So the log may have the table's number again, but not the epoch that moved the table's fence there.
    """
    generation, epoch = transaction_place(fence)
    if head is None or not epoch:
        return False
    manifest = head.manifest
    try:
        if (manifest.generation, manifest.epoch) != (generation, epoch):
            manifest = log.read(generation, epoch).manifest
    except NotFoundError:
        return False
    return manifest.kind in ("claim", "closing", "restore") or manifest.restored is not None


def check(sinks: Sinks, log: Log, job: str, *, adopt_sinks: bool) -> None:
    """Refuses, before anything is copied, the sinks that a start would refuse; the start checks again.

    Raises:
        SinkAheadError: A table was written by another log, or is ahead of this one.
    """
    fences, floors = sinks.fences(), log.floors()
    head = look.newest(log)
    foreign = foreign_or_ahead(fences, log, head, floors, sinks.fences)
    check_adoption(foreign, job, head, adopt_sinks=adopt_sinks)


def check_adoption(
    foreign: list[TableFence], job: str, head: StoredManifest | None, *, adopt_sinks: bool
) -> list[TableFence]:
    """Returns the sinks that `foreign_or_ahead` found, if this start or a closing manifest allows them to be adopted.

    Raises:
        SinkAheadError: There are such sinks, and neither allows it.
    """
    successor = head.manifest.successor if head is not None else None
    if foreign and not (adopt_sinks or (successor is not None and successor.adopt_sinks)):
        _refuse(job, foreign[0], head)
    return foreign


def _refuse(job: str, sink: TableFence, head: StoredManifest | None) -> NoReturn:
    """Raises the SinkAheadError that names the table, how far it is, and how far the log is."""
    if sink.lost and sink.birth is None:
        raise SinkAheadError(
            f"Sink {sink.uid!r} of job {job!r}: {sink.table} has no marker of this sink, although the job has written "
            "to it. So it is unknown which rows it has.",
            action="Bring the marker back together with the rows. Or start once with adopt_sinks=True "
            "(--adopt-sinks): the job then goes on, and writes what its newest epoch owes once more.",
        )
    generation, epoch = transaction_place(sink.fence)
    if sink.lost:
        raise SinkAheadError(
            f"Sink {sink.uid!r} of job {job!r}: {sink.table} has its output up to epoch {epoch} of generation "
            f"{generation}, and the job has written more: it has lost rows that it had confirmed.",
            action="If it comes from a backup, restore the job to that epoch with keep_output=True. Or start once with "
            "adopt_sinks=True (--adopt-sinks): the job goes on without these rows.",
        )
    place = f"epoch {epoch} of generation {generation}" if epoch else f"the beginning of generation {generation}"
    log = "has no epoch"
    if head is not None:
        log = f"ends at epoch {head.manifest.epoch} of generation {head.manifest.generation}"
    raise SinkAheadError(
        f"Sink {sink.uid!r} of job {job!r}: {sink.table} has its output up to {place}, and the log of the job, which "
        f"{log}, is not the one that wrote it or has lost epochs. New output of the job would be taken for output that "
        "is already there.",
        action="Bring the job's root back, or give the sink an empty table. Or start once with adopt_sinks=True "
        "(--adopt-sinks): the rows stay, and the job goes on after them from where its log ends.",
    )


__all__ = ["check", "check_adoption", "foreign_or_ahead"]
