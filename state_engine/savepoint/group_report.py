"""The report of a restore of key groups, for its caller: before it is done (dry run), and after. Pure."""

from collections.abc import Iterator

import msgspec

from state_engine.log.records import Origin
from state_engine.savepoint.selection import Part


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """One state: how many live rows are removed, and how many are written. Rows that stay equal count as both."""

    uid: str
    state: str
    kind: str
    removed: int
    written: int


class OperatorChange(msgspec.Struct, frozen=True, kw_only=True):
    """One operator: its key groups as (first, last), both inclusive; of these only `keys` keys, if that is not 0.

    `untouched` are its operator and broadcast states, which have no key groups.
    """

    uid: str
    groups: tuple[tuple[int, int], ...]
    keys: int = 0
    untouched: tuple[str, ...] = ()


class KeyGroupRestore(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore of key groups or keys does.

    Attributes:
        job: The job.
        source: The epoch from which the state is taken.
        onto: The epoch at which the state is replaced; removed rows are counted as of this epoch.
        operators: What is replaced of each operator.
        states: Rows of each state.
        sealed: Generation and epoch of the manifest that did it; None after a dry run.
    """

    job: str
    source: Origin
    onto: int
    operators: tuple[OperatorChange, ...]
    states: tuple[StateChange, ...]
    sealed: tuple[int, int] | None = None

    def lines(self) -> Iterator[str]:
        """Yields the report as lines of text."""
        named = f" (savepoint {self.source.savepoint_id})" if self.source.savepoint_id else ""
        verb = "Took" if self.sealed else "Would take"
        yield (
            f"{verb} state of epoch {self.source.epoch} of generation {self.source.generation} of job "
            f"{self.source.job!r}{named} into job {self.job!r}, which was at epoch {self.onto}."
        )
        for operator in self.operators:
            groups = ", ".join(f"{first}" if first == last else f"{first}–{last}" for first, last in operator.groups)
            keys = f"{operator.keys} keys in " if operator.keys else ""
            yield f"{operator.uid}: {keys}key groups {groups}"
            for state in (state for state in self.states if state.uid == operator.uid):
                yield f"  {state.state} ({state.kind}): removes {state.removed} rows, writes {state.written} rows"
            if operator.untouched:
                yield f"  untouched, since they have no key groups: {', '.join(operator.untouched)}"
        yield (
            "Input that was read for them since then is not read again; timers that were due since then fire with the "
            "next epoch; what went to sinks stays there."
        )


def operator_change(part: Part) -> OperatorChange:
    """Returns what is replaced of an operator."""
    groups = tuple((first, last) for first, last in part.ranges)
    return OperatorChange(uid=part.uid, groups=groups, keys=len(part.keys), untouched=part.untouched)


__all__ = ["KeyGroupRestore", "OperatorChange", "StateChange", "operator_change"]
