"""Checks whether a sink's table belongs to this log, and is not ahead of it (S1, before anything is written). Pure.

A table recognises a repeated commit by its numbers. A log that has lost epochs that the table has, or that began anew,
would use these numbers once more. The table would then take the new output for output that it already has.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from state_engine.epoch import look
from state_engine.epoch.ports import Log, Sinks, TableFence
from state_engine.epoch.sink_moves import transaction_place, transaction_version
from state_engine.epoch.sink_names import same
from state_engine.errors import NotFoundError, SinkAheadError
from state_engine.log.birth import birth_number
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import SinkTable


def foreign_or_ahead(
    fences: Sequence[TableFence], log: Log, head: StoredManifest | None, floors: Mapping[int, int]
) -> list[TableFence]:
    """Returns the sinks with tables that another log has written, that are ahead of this log, or lost their marker.

    Args:
        fences: As they were before the log was read: the tables of a live driver are never ahead of its log.
        log: The job's log.
        head: Its newest manifest.
        floors: Its floors, by generation: up to them, numbers of epochs may have been deleted.
    """
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
        one
        for one in fences
        if one.fence > newest
        or one.birth not in (None, log_birth)
        or _brought_no_output(log, head, one.fence)
        or (one.unmarked is not None and _was_marked(log, head, one.unmarked))
    ]


def _was_marked(log: Log, head: StoredManifest | None, sink: SinkTable) -> bool:
    """Returns whether the log shows that a system has had this sink's marker.

    A start prepares its sinks before the first epoch. So what the newest epoch of the chain names has had a marker; the
    claims and closings after it may be those of starts that died before they prepared anything.
    """
    while head is not None and head.manifest.kind in ("claim", "closing", "restore"):
        place = predecessor_of(head.manifest)
        if place is None or place.job != head.manifest.job:
            return False
        try:
            head = log.read(place.generation, place.epoch)
        except NotFoundError:
            return False  # retention removed it
    return head is not None and any(same(sink, known) for known in head.manifest.sinks)


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
    check_adoption(foreign_or_ahead(fences, log, head, floors), job, head, adopt_sinks=adopt_sinks)


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
    if sink.unmarked is not None:
        raise SinkAheadError(
            f"Sink {sink.uid!r} of job {job!r}: {sink.table} has no marker of this sink, although the job has written "
            "to it. So it is unknown which rows it has.",
            action="Bring the marker back from a backup of that system. Or start once with adopt_sinks=True "
            "(--adopt-sinks): the job then goes on, and writes what its newest epoch owes once more.",
        )
    generation, epoch = transaction_place(sink.fence)
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
