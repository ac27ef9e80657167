"""What a part of the job is, and the starts of the job."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from support import Folders, Input, by_n, newest, state_of

from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob


@dataclass(frozen=True)
class Start:
    """How the job is started, after new input came."""

    number: int
    files: int
    """Of records that are new to the parts that share them; each is an epoch."""
    parallelism: int
    backend: str
    chaining: bool = True
    restore: str | None = None
    ends: bool = False
    """The sources are bounded: after this start the job has ended."""


STARTS = (
    Start(0, files=2, parallelism=2, backend="heap"),
    Start(1, files=1, parallelism=3, backend="rocksdb", chaining=False, restore="epoch:1/2"),
    Start(2, files=1, parallelism=1, backend="heap", ends=True),
)
"""The second start goes back to the first epoch with input: what the first start read after that is read again.

The third one goes on from the head. Of jobs that do not end its sources are not bounded.
"""


@dataclass(frozen=True)
class Ran:
    """The job after a start."""

    root: Path
    name: str
    start: Start

    @property
    def manifest(self) -> Any:
        return newest(self.root, self.name)

    def state(self, uid: str, name: str, key: str = "k") -> dict[Any, Any]:
        """Returns the values of a state by key."""
        return state_of(self.root, self.name, uid, name, key)

    def rows(self, uid: str, name: str) -> list[dict[str, Any]]:
        """Returns the rows of a state, as the inspector shows them."""
        table: Any = read_state(str(self.root), self.name, uid, name)
        return list(table.to_pylist())


class Part(ABC):
    """A part of the job, with the input that it reads and the results that it must have.

    Args:
        spark: The session.
        folder: A folder for this part alone.
        shared: Records that several parts read.
    """

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        self.spark = spark
        self.folder = folder
        self.shared = shared

    def add(self, start: Start) -> None:
        """Adds the input that is new at a start."""

    @abstractmethod
    def build(self, job: StreamJob, start: Start) -> None:
        """Adds sources, operators and sinks to the job."""

    @abstractmethod
    def check(self, ran: Ran) -> None:
        """Compares outputs and state with those of a plain loop over the whole input."""

    def records(self, job: StreamJob, start: Start) -> Any:
        """Returns the shared records as a source of this part."""
        return job.from_stream(self.shared.stream(self.spark), bounded=start.ends)


class OfFolders(Part):
    """A part that reads folders of its own."""

    files: ClassVar[dict[int, tuple[int, ...]]]
    """For each start that has new input, how many files there are in addition in each folder."""
    rows = 20

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        super().__init__(spark, folder, shared)
        self.folders = Folders(folder, len(self.files[0]))

    def add(self, start: Start) -> None:
        if start.number in self.files:
            self.folders.add(*self.files[start.number], rows=self.rows)

    def streams(self, job: StreamJob, start: Start, per_epoch: int = 1) -> list[Any]:
        return [
            job.from_stream(source.stream(self.spark, per_epoch), bounded=start.ends) for source in self.folders.inputs
        ]


def output(sink: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a memory sink in order of their first column."""
    return by_n(MemorySink(sink).rows())
