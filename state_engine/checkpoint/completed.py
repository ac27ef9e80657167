"""The completed checkpoints of a job, newest first; reads only those that the caller uses."""

from collections.abc import Iterator

from state_engine.checkpoint.table import CheckpointRow, CheckpointTable


class CompletedCheckpoints:
    """The completed checkpoints in `_checkpoints` at one moment.

    File names contain the ids: counting checkpoints reads no file, and each file is read at most once. If another
    process compacted the table, so that names contain no ids, all rows are read at once.

    Args:
        table: Of the job.
    """

    def __init__(self, table: CheckpointTable) -> None:
        self._table = table
        self._rows: dict[int, CheckpointRow | None] = {}
        files = table.files()
        if files is None:
            self._rows = {row.checkpoint_id or 0: row for row in table.rows() if _is_completed(row)}
        self._names = {file.checkpoint_id: file.name for file in files or () if file.completed and file.checkpoint_id}
        self._ids = sorted({*self._rows, *self._names}, reverse=True)

    def __iter__(self) -> Iterator[CheckpointRow]:
        """Yields the rows, newest first; each is read when the iteration reaches it."""
        return (row for row in map(self.find, self._ids) if row is not None)

    def newest(self) -> CheckpointRow | None:
        """Returns the newest one, None if none has completed."""
        return next(iter(self), None)

    def find(self, checkpoint_id: int) -> CheckpointRow | None:
        """Returns the checkpoint of this id, None if none completed under it."""
        if checkpoint_id not in self._rows:
            name = self._names.get(checkpoint_id)
            rows = self._table.read(name) if name is not None else []
            self._rows[checkpoint_id] = next((row for row in reversed(rows) if _is_completed(row)), None)
        return self._rows[checkpoint_id]

    def count_after(self, checkpoint_id: int) -> int:
        """Returns how many completed under a higher id; files of earlier releases without one count too."""
        return sum(number > checkpoint_id for number in self._ids)


def _is_completed(row: CheckpointRow) -> bool:
    return row.kind == "checkpoint" and row.status == "completed"


__all__ = ["CompletedCheckpoints"]
