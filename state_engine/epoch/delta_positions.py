"""Checks whether a Delta table still has what a position in it needs (S1, before anything is written).

Pure. A position names the table's id, a version, and an index among the files of that version's commit. With
`isStartingVersion` it is inside the first snapshot, and the version is that of the snapshot. The source reads the
commits from there on.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from state_engine.epoch.source_changes import WITHOUT_LOST_RECORDS, position_lost
from state_engine.log.source_records import SourcePosition


class DeltaPosition(NamedTuple):
    """A position in a Delta table.

    Attributes:
        table_id: Id of the table.
        version: Version that is read next, of which a part may have been read; it need not exist yet.
        last_file: Index of the last file of that version that was read; -1 before the first. Other negative numbers
            stand for a change of the table's schema in that version.
        in_snapshot: Whether the version is the first snapshot, which is read as a whole.
    """

    table_id: str
    version: int
    last_file: int
    in_snapshot: bool

    def commits(self, newest: int) -> range:
        """Returns the versions whose commits the source reads, up to the newest of the table."""
        return range(self.version + (1 if self.in_snapshot else 0), newest + 1)


class TableState(NamedTuple):
    """A Delta table as it is.

    Attributes:
        table_id: Its id.
        newest: Its newest version.
        has_next: Whether its log still has the version that is read next; also true if that does not exist yet. Delta
            removes the oldest commits first, so the later ones exist, too.
    """

    table_id: str
    newest: int
    has_next: bool


def position_of(source: SourcePosition) -> DeltaPosition:
    """Reads a position as Delta's source writes it."""
    offset = json.loads(source.offset)
    return DeltaPosition(
        table_id=offset["reservoirId"],
        version=int(offset["reservoirVersion"]),
        last_file=int(offset["index"]),
        in_snapshot=bool(offset["isStartingVersion"]),
    )


def check_table(
    source: int, path: str, position: DeltaPosition, found: TableState | None, *, loss_allowed: bool
) -> None:
    """Compares a position with the table.

    Args:
        source: Number of the source.
        path: Path of the table.
        position: Its position.
        found: The table as it is; None if there is none.
        loss_allowed: Whether the source has `failOnDataLoss=false`: commits that are gone are then left out. Within
            the first snapshot Delta does not.

    Raises:
        SourcePositionLostError: The table is gone or another one, ends before the position, or its log has lost
            commits that are still needed.
    """
    table = f"the Delta table at {path}"
    if found is None:
        raise position_lost(source, f"{table} does not exist", "Bring it back.")
    if found.table_id != position.table_id:
        what = f"has the id {found.table_id}, but the position belongs to table {position.table_id}"
        raise position_lost(source, f"{table} {what}", "Bring the old table back, as a whole, with its _delta_log.")
    is_inside = position.in_snapshot or position.last_file != -1
    if position.version > found.newest + (0 if is_inside else 1):
        what = f"ends with version {found.newest}, before the position in version {position.version}: an older copy"
        raise position_lost(source, f"{table} {what}", "Bring the newer table back.")
    if found.has_next:
        return
    if position.in_snapshot:
        what = f"cannot rebuild version {position.version}, its first one for the job (delta.logRetentionDuration)"
        raise position_lost(source, f"{table} {what}", "Bring its log back.")
    if not loss_allowed:
        what = f"no longer has version {position.version}, from which the job goes on (delta.logRetentionDuration)"
        raise position_lost(source, f"{table} {what}", WITHOUT_LOST_RECORDS)


def check_files(source: int, path: str, missing: Sequence[str]) -> None:
    """Refuses a start that would read data files that are gone.

    Args:
        source: Number of the source.
        path: Path of the table.
        missing: The files that are gone.

    Raises:
        SourcePositionLostError: There are any.
    """
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3:,} more" if len(missing) > 3 else "")
        raise position_lost(
            source,
            f"the Delta table at {path} no longer has {len(missing):,} data files that the job has not read: {shown}; "
            "a later commit removed them from the table, and VACUUM deleted them",
            "Put them back. To go on without them, set spark.sql.files.ignoreMissingFiles to true in the session.",
        )


__all__ = ["DeltaPosition", "TableState", "check_files", "check_table", "position_of"]
