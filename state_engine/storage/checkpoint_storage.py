"""The port behind which checkpoints keep state: `delta`, `filesystem` or `memory`, as the job's author chose.

A publish folds each state range by range. A checkpoint storage writes a file for each range, or makes bytes that the
base carries, and lists in a handle where every key group is. Then it makes the files of a state known together, if it
has tables. It does not make the checkpoint visible. Reading needs no such storage: `state_files.py` reads what any of
them has written.

Names are those of Flink: `CheckpointStorage` is the setting, `CheckpointStorageAccess` the implementation that it
selects.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from state_engine.log.records import StateFile, StateSchema, StorageName


class StorageTraits(NamedTuple):
    """The properties of a checkpoint storage that the plan of a checkpoint depends on.

    Attributes:
        name: As the base records it.
        tables: Whether each state has a table, to which another program may have written.
        layers: Whether a checkpoint may be a layer on top of an older one. If not, each is FULL.
    """

    name: StorageName
    tables: bool
    layers: bool


DELTA = StorageTraits("delta", tables=True, layers=True)
FILESYSTEM = StorageTraits("filesystem", tables=False, layers=True)
MEMORY = StorageTraits("memory", tables=False, layers=False)


class FoldedPart(NamedTuple):
    """The rows of one state in a range of key groups, as a publish folded them.

    Attributes:
        schema: The state.
        folder: Of the state, relative to the job's root.
        stem: Name of this part in this publish; the same for every attempt.
        generation: Of the published epoch.
        max_parallelism: Number of key groups.
        rows: In the columns of `log_schema(…, position=True)`, sorted by key group; at least one.
    """

    schema: StateSchema
    folder: str
    stem: str
    generation: int
    max_parallelism: int
    rows: pa.Table


class WrittenPart(NamedTuple):
    """A part that is durable, or inlined in its handle; `statistics` are Delta's (JSON), if the state has a table."""

    file: StateFile
    statistics: str = ""


class PublishedState(NamedTuple):
    """One state of a checkpoint, after all its parts are written.

    Attributes:
        schema: The state.
        folder: Of the state.
        files: All files that make it up, oldest first.
        written: Those that this checkpoint wrote.
        full: Whether the written files are all files of the state.
        app_id: Together with `epoch` the identity of the transaction, which takes effect once.
        epoch: The published epoch.
    """

    schema: StateSchema
    folder: str
    files: Sequence[StateFile]
    written: Sequence[WrittenPart]
    full: bool
    app_id: str
    epoch: int


class CheckpointStorageAccess(Protocol):
    """Keeps the state of checkpoints below the root of one job."""

    @property
    def traits(self) -> StorageTraits:
        """The properties that a plan depends on."""
        ...

    def active(self, folder: str) -> Sequence[str] | None:
        """Returns the names of the files that the table of a state holds now; None without a table.

        Raises:
            StorageError: The table exists, and it cannot be loaded.
        """
        ...

    def write(self, part: FoldedPart) -> WrittenPart:
        """Writes one part.

        Raises:
            StateTooLargeError: The storage does not accept that many bytes.
            StorageError: It was not written, or that is unknown; nothing names a file that may remain.
        """
        ...

    def commit(self, state: PublishedState) -> int | None:
        """Makes the files of a state known together, and returns the version of its table, if it has one.

        Raises:
            StateTooLargeError: The storage does not accept that many bytes.
            StorageError: The outcome is unknown; committing again is safe.
        """
        ...


__all__ = [
    "DELTA",
    "FILESYSTEM",
    "MEMORY",
    "CheckpointStorageAccess",
    "FoldedPart",
    "PublishedState",
    "StorageTraits",
    "WrittenPart",
]
