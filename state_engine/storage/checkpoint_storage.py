"""The port behind which checkpoints keep state: `delta`, `filesystem` or `memory`, as the job's author chose.

A publish folds each state range by range. A checkpoint storage makes a file of each range, or bytes that the base
carries, and says in a handle where every key group lies; then it makes the files of a state known together, where that
means something to it. What makes a checkpoint visible is none of its business. Reading needs no such storage:
`state_files.py` reads what any of them has written.

Names are those of Flink: `CheckpointStorageAccess` is what `CheckpointStorage`, the setting, stands for.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from state_engine.log.records import StateFile, StateSchema, StorageName


class StorageTraits(NamedTuple):
    """What a plan has to know of a checkpoint storage.

    Attributes:
        name: As the base says it.
        tables: Whether each state has a table, which somebody else may have written.
        layers: Whether a checkpoint may be put on top of an older one. If not, each is FULL.
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
        stem: Name of this part of this publish; the same for every attempt.
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
    """A part that is durable, or inlined in its handle; `statistics` are Delta's (JSON), where there is a table."""

    file: StateFile
    statistics: str = ""


class PublishedState(NamedTuple):
    """One state of a checkpoint whose parts are all written.

    Attributes:
        schema: The state.
        folder: Of the state.
        files: All files that make it up, oldest first.
        written: Those that this checkpoint wrote.
        full: Whether these are all.
        app_id: With `epoch` the name of the transaction: it takes effect once.
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
        """What a plan has to know."""
        ...

    def active(self, folder: str) -> Sequence[str] | None:
        """Returns the names of the files that the table of a state holds now; None where there is no table.

        Raises:
            StorageError: There is one, and it cannot be loaded.
        """
        ...

    def write(self, part: FoldedPart) -> WrittenPart:
        """Writes one part.

        Raises:
            StateTooLargeError: The storage does not take so much.
            StorageError: It was not written, or nobody knows; nothing names what may be left of it.
        """
        ...

    def commit(self, state: PublishedState) -> int | None:
        """Makes the files of a state known together, and returns the version of its table, if there is one.

        Raises:
            StateTooLargeError: The storage does not take so much.
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
