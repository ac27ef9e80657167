"""The report of a restore of a whole job, for its caller: before it is done (dry run), and after. Pure."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from state_engine.epoch.unread import Unread
from state_engine.log.records import Origin

Fate = Literal["restored", "re-keyed", "left", "new", "unread"]


class RestoredState(msgspec.Struct, frozen=True, kw_only=True):
    """One state of the source.

    Attributes:
        uid: The operator that has it from now on; if the state is left inputs, the operator that had it.
        state: Its name.
        kind: Its kind.
        fate: `restored`: taken as it is. `re-keyed`: sorted into other key groups. `left`: left behind. `unread`: it
            stays in the log, but no operator reads it.
        rows: Live rows.
        bytes: Size of the files and sections that were read for it.
        groups: Key groups among which its keys are spread from now on.
    """

    uid: str
    state: str
    kind: str
    fate: Fate
    rows: int
    bytes: int
    groups: int


class RestoredOperator(msgspec.Struct, frozen=True, kw_only=True):
    """One operator. `before` is the uid that it had in the source, None if it is new; numbers are (before, after)."""

    uid: str
    before: str | None
    fate: Fate
    parallelism: tuple[int, int]
    max_parallelism: tuple[int, int]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why the restore would be refused."""

    error: str
    message: str
    action: str


class WholeRestore(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore of a whole job does.

    Attributes:
        job: The job.
        source: The epoch that it goes on from.
        onto: Newest generation and epoch of the job before the restore; None if it never ran.
        operators: Those of the source, and those that are new.
        states: Those of the source.
        unread: What the job's code will not read of them.
        copied: Whether state is copied below the job's root; otherwise it goes on from the files that are there.
        code_checked: Whether it was checked against the job's code; otherwise the next start checks that.
        refusals: Why it would be refused; if there are any, nothing is done.
        sealed: Generation and epoch of the manifest that did it; None after a dry run.
    """

    job: str
    source: Origin
    onto: tuple[int, int] | None
    operators: tuple[RestoredOperator, ...]
    states: tuple[RestoredState, ...]
    copied: bool
    code_checked: bool
    refusals: tuple[Refusal, ...] = ()
    sealed: tuple[int, int] | None = None
    unread: tuple[Unread, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no reason against it."""
        return not self.refusals

    def lines(self) -> Iterator[str]:
        """Yields the report as lines of text."""
        named = f" (savepoint {self.source.savepoint_id})" if self.source.savepoint_id else ""
        verb = "Restored" if self.sealed else "Would restore"
        before = f", which was at epoch {self.onto[0]}/{self.onto[1]}" if self.onto else ", which never ran"
        yield (
            f"{verb} epoch {self.source.generation}/{self.source.epoch} of job {self.source.job!r}{named} into job "
            f"{self.job!r}{before}."
        )
        for operator in self.operators:
            yield self._operator(operator)
            for state in (state for state in self.states if state.uid == (operator.uid)):
                yield f"  {state.state} ({state.kind}): {state.rows} rows, {state.bytes} bytes, {state.fate}"
        for unread in self.unread:
            yield f"Not read: {unread}."
        if self.copied:
            yield "The state is copied to the job's root; the source is no longer needed."
        if self.sealed:
            yield f"The job is now at epoch {self.sealed[0]}/{self.sealed[1]}; its next start resumes from there."
        for refusal in self.refusals:
            yield f"Refused: {refusal.error}: {refusal.message} What to do: {refusal.action}"
        if not self.code_checked:
            yield "The job's code was not checked; its next start checks it."

    def _operator(self, operator: RestoredOperator) -> str:
        line = operator.uid
        if operator.before not in (None, operator.uid):
            line += f", which was {operator.before}"
        if operator.fate == "left":
            return f"{line}: its state is left behind"
        if operator.fate == "new":
            return f"{line}: new, begins without state"
        subtasks, groups = operator.parallelism, operator.max_parallelism
        line += f": {_change(subtasks)} subtasks, {_change(groups)} key groups"
        return line


def _change(numbers: tuple[int, int]) -> str:
    before, after = numbers
    return str(after) if before == after else f"{before} → {after}"


__all__ = ["Fate", "Refusal", "RestoredOperator", "RestoredState", "WholeRestore"]
