"""What happened in a run, and so which of its processes may have been refused, and why.

A refusal is no loss if something that another process did calls for it, and nothing else is let through: a driver is
fenced by a start of the same or a higher number, whoever stands on an epoch that a policy lets go is told of retention.
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
    """Something that somebody needs is gone, or is not what it was."""


class Seal(NamedTuple):
    """A manifest that was put: at which place of the trace, and by whom."""

    at: int
    process: str
    manifest: Manifest


@dataclass(frozen=True)
class Course:
    """One run of processes on one job.

    Attributes:
        trace: The storage calls.
        seals: The manifests that were put.
        job: The job that all is about; forks of it are others.
        number: The highest number of an incarnation in front of all.
        held_since: Since when a restore of key groups has its lease, if it ever had.
        pin: Path of the savepoint that it reads.
        needed: What that savepoint lists.
    """

    trace: Sequence[Call]
    seals: Sequence[Seal]
    job: str
    number: int
    held_since: Callable[[], int | None]
    pin: str
    needed: frozenset[str]

    def may_end_with(self, process: str, error: BaseException) -> bool:
        """Says whether what others did calls for this refusal."""
        return any(isinstance(error, errors) and cause(process) for errors, cause in self._refusals(kind_of(process)))

    def check_leased(self) -> None:
        """What a restore of key groups has a lease for stays until it ends, whoever owns the job meanwhile."""
        if (since := self.held_since()) is None:
            return
        for call in self.trace[since : self._last("groups")]:
            if call.name == "delete" and call.process != "groups" and call.path in self.needed:
                raise Lost(f"{call.process} removed {call.path}, which key groups were restored from")

    def _refusals(self, kind: str) -> list[Refusal]:
        owner: list[Refusal] = [
            ((FencedError,), self._replaced),
            # It looks for what the job stood on before another one took it away, and retention has freed that.
            ((NotFoundError, CorruptionError), lambda name: self._replaced(name) and self._freed(name)),
        ]
        # What a restore of the job abandoned is reached by savepoints that are there.
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
            # Another run took a file away while this one looked: it changes nothing then.
            "retention": [((CorruptionError, NotFoundError), self._disturbed)],
            "cleaner": [((CorruptionError, NotFoundError), self._disturbed)],
            # An epoch of the past may be condemned already, and the newest one is not the newest for ever.
            "savepoint": [(GONE, lambda name: self._freed(name) and self._sealed_meanwhile(name))],
            "past": past,
            "canonical": past,
            "late-fork": [((*GONE, SavepointError), self._freed)],
        }.get(kind, [])

    def _replaced(self, process: str) -> bool:
        """Another process sealed something under a number that this one has to give way to."""
        first, last = self._first(process), self._last(process)
        seals = [(s.at, s.process, s.manifest.incarnation_number) for s in self.seals if s.manifest.job == self.job]
        known = max((number for at, _, number in seals if at < first), default=self.number)
        mine = min((number for _, by, number in seals if by == process), default=known + 1)
        return any(by != process and first < at < last and number >= mine for at, by, number in seals)

    def _freed(self, process: str) -> bool:
        """Retention condemned or removed something in front of the end of this process."""
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
        """The place behind the last call."""
        return max((place for place, call in enumerate(self.trace, 1) if call.process == process), default=0)


def kind_of(process: str) -> str:
    """What a process is, whichever thread of it, and whether it was started anew."""
    return process.split("/")[0].removesuffix("+")


def steps_of(seals: Sequence[Seal], process: str) -> str:
    """What a process has sealed, as the script of a `Run` says it: `e` an epoch, `c` a checkpoint, `g` key groups."""
    manifests = [seal.manifest for seal in seals if seal.process == process]
    done = [one for one in manifests if one.kind == "epoch" or one.restored is not None]
    return "".join("g" if m.restored is not None else "e" if m.checkpoint_id is None else "c" for m in done)


__all__ = ["Course", "Lost", "Seal", "kind_of", "steps_of"]
