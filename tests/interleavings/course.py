"""What happened in a run, and therefore which of its processes may have been refused, and why.

A refusal is no loss if an action of another process requires it; no other refusal is accepted. A driver is fenced by a
start with the same or a higher number. A process that uses an epoch which a policy releases gets an error of retention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from state_engine.errors import (
    CheckpointFailedError,
    CondemnedError,
    CorruptionError,
    FencedError,
    MissingFileError,
    NotFoundError,
    NothingToRestoreError,
    RestoreError,
    SavepointError,
)
from state_engine.log.paths import CONDEMNED
from state_engine.log.records import Manifest
from state_engine.testing.interleaving import WRITES, Call

Errors = tuple[type[Exception], ...]
Refusal = tuple[Errors, Callable[[str], bool]]
GONE: Errors = (CondemnedError, CorruptionError, NotFoundError, NothingToRestoreError)


class Lost(AssertionError):
    """Something that a process needs is gone, or has changed."""


class Seal(NamedTuple):
    """A manifest that was put: its place in the trace, and the process that put it."""

    at: int
    process: str
    manifest: Manifest


@dataclass(frozen=True)
class Course:
    """One run of processes on one job.

    Attributes:
        trace: The storage calls.
        seals: The manifests that were put.
        job: The job that is checked; its forks are other jobs.
        number: The highest number of an incarnation before all processes.
        held_since: From which place of the trace on a restore of key groups had its lease, if it ever had one.
        pin: Path of the pin of the savepoint that this restore reads.
        needed: Paths of the files that this savepoint lists.
    """

    trace: Sequence[Call]
    seals: Sequence[Seal]
    job: str
    number: int
    held_since: Callable[[], int | None]
    pin: str
    needed: frozenset[str]

    def may_end_with(self, process: str, error: BaseException) -> bool:
        """Returns whether an action of others requires this refusal."""
        return any(isinstance(error, errors) and cause(process) for errors, cause in self._refusals(kind_of(process)))

    def check_leased(self) -> None:
        """Files that a restore of key groups has leased stay until it ends, whichever process owns the job then."""
        if (since := self.held_since()) is None:
            return
        for call in self.trace[since : self._last("groups")]:
            if call.name == "delete" and call.process != "groups" and call.path in self.needed:
                raise Lost(f"{call.process} removed {call.path}, which key groups were restored from")

    def _refusals(self, kind: str) -> list[Refusal]:
        owner: list[Refusal] = [
            ((FencedError,), self._replaced),
            # It looks for files that the job had before another process took it over, and retention has freed them.
            ((NotFoundError, CorruptionError), lambda name: self._replaced(name) and self._freed(name)),
        ]
        # Epochs that a restore of the job abandoned can be reached only by savepoints that exist.
        past: list[Refusal] = [(GONE, self._freed), ((NothingToRestoreError,), self._found_closing)]
        return {
            "driver": [*owner, (GONE, lambda name: self._replaced(name) and self._freed(name))],  # it may be stopped
            "rewind": owner,
            "compact": [*owner, ((RestoreError,), self._found_closing), ((CheckpointFailedError,), self._replaced)],
            "groups": [
                *owner,
                ((RestoreError,), self._found_closing),
                ((NothingToRestoreError, CondemnedError, MissingFileError), self._freed_before_lease),
                # Its epoch is leased, but a policy removes the savepoint itself.
                ((NothingToRestoreError,), self._unpinned),
            ],
            # Another run deleted a file while this one was looking; this one then changes nothing.
            "retention": [((CorruptionError, NotFoundError), self._disturbed)],
            "cleaner": [((CorruptionError, NotFoundError), self._disturbed)],
            # An old epoch may be condemned already, and the newest one becomes an old one when others are sealed.
            "savepoint": [(GONE, lambda name: self._freed(name) and self._sealed_meanwhile(name))],
            "past": past,
            "canonical": past,
            "late-fork": [((*GONE, SavepointError), self._freed)],
        }.get(kind, [])

    def _replaced(self, process: str) -> bool:
        """Another process sealed a manifest with a number that fences this one."""
        first, last = self._first(process), self._last(process)
        seals = [(s.at, s.process, s.manifest.incarnation_number) for s in self.seals if s.manifest.job == self.job]
        highest = max((number for at, _, number in seals if at < first), default=self.number)
        mine = min((number for _, by, number in seals if by == process), default=highest + 1)
        return any(by != process and first < at < last and number >= mine for at, by, number in seals)

    def _freed(self, process: str) -> bool:
        """Retention condemned or removed something before the end of this process."""
        calls = (call for call in self.trace[: self._last(process)] if call.name in WRITES)
        of_retention = (call for call in calls if kind_of(call.process) in ("retention", "cleaner"))
        return any(call.name == "delete" or call.path.startswith(CONDEMNED) for call in of_retention)

    def _freed_before_lease(self, process: str) -> bool:
        return self.held_since() is None and self._freed(process)

    def _unpinned(self, process: str) -> bool:
        return any(call.name == "delete" and call.path == self.pin for call in self.trace[: self._last(process)])

    def _disturbed(self, process: str) -> bool:
        during = self.trace[self._first(process) : self._last(process)]
        return any(call.name == "delete" and call.process != process for call in during)

    def _sealed_meanwhile(self, process: str) -> bool:
        first, last = self._first(process), self._last(process)
        return any(first < seal.at < last and seal.manifest.job == self.job for seal in self.seals)

    def _found_closing(self, process: str) -> bool:
        last = self._last(process)
        return any(seal.manifest.kind == "closing" and seal.at < last for seal in self.seals)

    def _first(self, process: str) -> int:
        return next((place for place, call in enumerate(self.trace) if call.process == process), len(self.trace))

    def _last(self, process: str) -> int:
        """Returns the place after the last call."""
        return max((place for place, call in enumerate(self.trace, 1) if call.process == process), default=0)


def kind_of(process: str) -> str:
    """Returns what kind of process this is: without the name of its thread, and without the mark of a restart."""
    return process.split("/")[0].removesuffix("+")


def steps_of(seals: Sequence[Seal], process: str) -> str:
    """Returns what a process has sealed, in the letters of `Run.script`: `e` epoch, `c` checkpoint, `g` key groups."""
    manifests = [seal.manifest for seal in seals if seal.process == process]
    steps = [one for one in manifests if one.kind == "epoch" or one.restored is not None]
    return "".join("g" if m.restored is not None else "e" if m.checkpoint_id is None else "c" for m in steps)


__all__ = ["Course", "Lost", "Seal", "kind_of", "steps_of"]
