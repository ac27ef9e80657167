"""Gives operators of a running job another parallelism at its next epoch. Pure.

Operators that share a task, or read one operator's outputs, share one parallelism: all operators that get the barriers
of one task must have the same number of subtasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from state_engine.epoch.inbox import Inbox
from state_engine.epoch.ports import OperatorPlan
from state_engine.errors import RescaleError
from state_engine.log.manifest import StoredManifest


@dataclass(frozen=True, eq=False)
class RescaleRequest:
    """A request for another parallelism.

    Args:
        parallelism: Of all operators, or of some by uid; operators that share their parallelism change with them.
        tell: Called with the first manifest that has it, on the driver's thread; or with None and the reason why no
            manifest has it, maybe on the caller's thread.
    """

    parallelism: int | Mapping[str, int]
    tell: Callable[[StoredManifest | None, str], None] = lambda _, __: None


class Rescales:
    """The operators of a running job, and the parallelism that they get at its next epoch.

    Args:
        operators: As the job was started, upstream first.
        declared: Their parallelism in the job's definition, by uid; by default the one that they were started with.
    """

    def __init__(self, operators: Sequence[OperatorPlan], declared: Mapping[str, int] | None = None) -> None:
        self._operators = self._planned = tuple(operators)
        self._declared = {operator.uid: operator.parallelism for operator in operators} | dict(declared or {})
        self._why = ""  # why no further epoch comes
        self._inbox = Inbox[RescaleRequest](lambda request: request.tell(None, self._why))
        self._taken: list[RescaleRequest] = []

    @property
    def operators(self) -> tuple[OperatorPlan, ...]:
        """The operators as of the newest sealed epoch."""
        return self._operators

    @property
    def waiting(self) -> bool:
        """Whether a rescale waits for an epoch; may be read from any thread."""
        return bool(self._inbox or self._taken)

    def ask(self, request: RescaleRequest) -> None:
        """Takes a request for the next epoch that is planned; from any thread.

        Raises:
            RescaleError: The operators cannot have this parallelism; nothing changes.
        """
        rescaled(self._operators, request.parallelism, self._declared)
        self._inbox.put(request)

    def plan(self) -> tuple[OperatorPlan, ...]:
        """Returns the operators of the next epoch (E1): all its attempts have them; if unsealed, the next one too."""
        self._taken.extend(self._inbox.take())
        planned = self._operators
        for request in self._taken:
            planned = rescaled(planned, request.parallelism, self._declared)
        self._planned = planned
        return planned

    def sealed(self, manifest: StoredManifest) -> None:
        """Answers the requests of the planned epoch, which was sealed."""
        self._operators = self._planned
        taken, self._taken = self._taken, []
        for request in taken:
            if rescaled(self._operators, request.parallelism, self._declared) == self._operators:
                request.tell(manifest, "")
            else:
                request.tell(None, "another rescale came before the next epoch")

    def end(self, why: str) -> None:
        """Refuses the requests that wait, and all later ones: no further epoch comes."""
        self._why = why
        taken, self._taken = self._taken, []
        for request in taken:
            request.tell(None, why)
        self._inbox.close()


def rescaled(
    operators: Sequence[OperatorPlan], parallelism: int | Mapping[str, int], declared: Mapping[str, int]
) -> tuple[OperatorPlan, ...]:
    """Returns the operators at another parallelism.

    Args:
        operators: Upstream first.
        parallelism: Of all, or of some by uid.
        declared: The parallelism in the job's definition, by uid: `rescaled_from` of an operator that has another.

    Raises:
        RescaleError: A number is out of bounds, an operator unknown, or two that share one would differ.
    """
    by_uid = {operator.uid: operator for operator in operators}
    requested = parallelism if isinstance(parallelism, Mapping) else dict.fromkeys(by_uid, parallelism)
    for uid, number in requested.items():
        _check(by_uid, uid, number)
    wanted: dict[str, int] = {}
    for together in sharing(operators):
        numbers = {uid: requested[uid] for uid in together if uid in requested}
        if len(set(numbers.values())) > 1:
            raise RescaleError(
                f"The operators {', '.join(map(repr, together))} share one parallelism, and are to have "
                f"{', '.join(f'{number} ({uid})' for uid, number in numbers.items())}.",
                action="Give one number for all of them: operators that share a task, or read one operator, must have "
                "the same parallelism.",
            )
        for uid in together if numbers else ():
            wanted[uid] = next(iter(numbers.values()))
            _check(by_uid, uid, wanted[uid])
    return tuple(
        replace(one, parallelism=wanted[one.uid], rescaled_from=_from(wanted[one.uid], declared[one.uid]))
        if one.uid in wanted
        else one
        for one in operators
    )


def sharing(operators: Sequence[OperatorPlan]) -> list[tuple[str, ...]]:
    """Returns the uids of all operators, grouped by those that must have the same parallelism."""
    group = {operator.uid: {operator.uid} for operator in operators}

    def join(one: str, other: str) -> None:
        if group[one] is not group[other]:
            group[one] |= group[other]
            for uid in group[other]:
                group[uid] = group[one]

    reader: dict[str, str] = {}
    for operator in operators:
        for upstream in operator.upstream:
            join(operator.uid, upstream if operator.chained else reader.setdefault(upstream, operator.uid))
    order = [operator.uid for operator in operators]
    return list(dict.fromkeys(tuple(uid for uid in order if uid in group[one]) for one in order))


def _check(known: Mapping[str, OperatorPlan], uid: str, number: object) -> None:
    if uid not in known:
        raise RescaleError(
            f"The job has no operator {uid!r} to rescale.", action=f"Its operators are {', '.join(map(repr, known))}."
        )
    highest = known[uid].max_parallelism
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= highest:
        raise RescaleError(
            f"Operator {uid!r} cannot have the parallelism {number!r}: its state has {highest} key groups.",
            action=f"Give a whole number from 1 to {highest}. The job goes on as it was.",
        )


def _from(parallelism: int, declared: int) -> int | None:
    return declared if declared != parallelism else None


__all__ = ["RescaleRequest", "Rescales", "rescaled", "sharing"]
