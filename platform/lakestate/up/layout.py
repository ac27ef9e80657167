"""The folders that `lakestate up` writes to, all below one folder, which can be removed as a whole."""

from pathlib import Path
from typing import NamedTuple


class Layout(NamedTuple):
    """The folders below `folder`, which is absolute."""

    folder: Path

    @property
    def state(self) -> Path:
        """The state root of the jobs."""
        return self.folder / "state"

    @property
    def dagster_home(self) -> Path:
        """Dagster's settings and history."""
        return self.folder / "dagster"

    @property
    def processes(self) -> Path:
        """Locks and logs of all processes except the streams, which have theirs beside their state."""
        return self.folder / "processes"

    @property
    def kafka(self) -> Path:
        """The broker's settings and topics."""
        return self.folder / "kafka"

    def input(self, job: str) -> Path:
        """The files that a job reads."""
        return self.folder / "input" / job

    def tables(self, job: str) -> Path:
        """The tables that a job writes."""
        return self.folder / "tables" / job


__all__ = ["Layout"]
