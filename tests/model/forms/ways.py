"""Ways to run a program: in which form, on which backend, at which parallelism, cut into which epochs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from state_engine.api import EmbeddedRocksDBStateBackend

BACKENDS = ["heap", "rocksdb"]
BETWEEN = ["warm", "reopened", "restored"]


@dataclass(frozen=True)
class Turn:
    """The settings until the next restart.

    Attributes:
        form: The form of the program.
        backend: `heap` or `rocksdb`.
        parallelism: Number of subtasks.
    """

    form: str
    backend: str
    parallelism: int


@dataclass(frozen=True)
class Way:
    """A way to run a program.

    Attributes:
        turns: What runs first, what runs after a restore, and so on; the first one again after the last one.
        between: What happens between epochs: nothing (`warm`); new instances load what is on disk or in the log
            (`reopened`); the next turn starts from a snapshot (`restored`).
        cuts: The number of records of a stretch after which an epoch ends; 0 if a stretch is one epoch.
        every: The number of epochs after which this happens.
    """

    turns: tuple[Turn, ...]
    between: str
    cuts: int
    every: int = 1


def ways(forms: Sequence[str]) -> st.SearchStrategy[Way]:
    """Ways to run a program that has these forms."""
    backends = st.sampled_from(["heap", *BACKENDS])  # a database takes ten times as long to open as an epoch
    turn = st.builds(Turn, st.sampled_from(forms), backends, st.sampled_from([1, 1, 2, 3]))
    turns = st.lists(turn, min_size=1, max_size=2).map(tuple)
    return st.builds(Way, turns, st.sampled_from(BETWEEN), st.sampled_from([0, 0, 1, 3, 5]), st.sampled_from([1, 2, 3]))


def all_ways(forms: Sequence[str]) -> list[Way]:
    """Every form on every backend, alone, through everything that may happen between epochs."""
    return [
        Way((Turn(form, backend, parallelism),), between, cuts)
        for form in forms
        for backend in BACKENDS
        for between in BETWEEN
        for parallelism, cuts in ((1, 0), (3, 1), (2, 2))
    ]


def epochs_of(records: Sequence[Any], cuts: int) -> Iterator[Sequence[Any]]:
    """Yields the epochs of a stretch."""
    size = cuts or max(len(records), 1)
    for start in range(0, len(records), size):
        yield records[start : start + size]


class Restarts:
    """The harness of a way, which is another one after each restart.

    Args:
        make: Makes a harness of a turn.
        way: The way.
        disk: Where databases are.
    """

    def __init__(self, make: Callable[[Turn, Any], Any], way: Way, disk: str) -> None:
        self.make = make
        self._way = way
        self._disk = disk
        self._turn = 0
        self._epochs = 0
        self.harness = self._made()

    def _made(self) -> Any:
        turn = self._way.turns[self._turn % len(self._way.turns)]
        backend: Any = turn.backend
        if backend == "rocksdb":
            backend = EmbeddedRocksDBStateBackend()
            backend.set_db_storage_paths(self._disk)
        return self.make(turn, backend)

    def after_epoch(self) -> None:
        """Performs what happens between epochs."""
        self._epochs += 1
        if self._epochs % self._way.every:
            return
        if self._way.between == "reopened":
            self.harness.close()
        elif self._way.between == "restored":
            self.restore()

    def restore(self) -> None:
        """Continues with the next turn, from a snapshot."""
        snapshot = self.harness.snapshot()
        self.harness.close()
        self._turn += 1
        self.harness = self._made()
        self.harness.initialize_state(snapshot)


__all__ = ["BACKENDS", "BETWEEN", "Restarts", "Turn", "Way", "all_ways", "epochs_of", "ways"]
