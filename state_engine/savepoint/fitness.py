"""Whether a job's present code can go on from what would be restored. Writes nothing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from state_engine.epoch import compatibility
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import LakestateError
from state_engine.log.records import Manifest
from state_engine.savepoint.catalogue import resolve_restore
from state_engine.savepoint.restore_report import Refusal

OperatorsOf = Callable[[Manifest], Sequence[OperatorShape] | None]
"""Says what the job's code declares today, asked with the epoch that is restored; None where the code is not known."""


def misfits(root: str, job: str, source: str, operators_of: OperatorsOf) -> tuple[Refusal, ...] | None:
    """Says why a job's present code cannot go on from a source: all reasons, by operator and state.

    Args:
        root: Of the storage.
        job: The job.
        source: What `resolve_restore` takes.
        operators_of: The job's code.

    Returns:
        The reasons, none if it fits; None where the code is not known.

    Raises:
        NothingToRestoreError: The source does not exist.
        CorruptionError: It is damaged.
    """
    target = resolve_restore(root, job, source)
    operators = operators_of(target.stored.manifest)
    if operators is None:
        return None
    seen = target.seen.manifest
    request = StartRequest(
        job=job,
        root=root,
        operators=tuple(operators),
        fingerprints=seen.fingerprints,
        sinks=(),
        restore=target,
    )
    return tuple(refusals_of(code_checks(request, seen)))


def code_checks(request: StartRequest, seen: Manifest) -> Iterator[Callable[[], Any]]:
    """Yields what a start asks of its operators, each as a call that raises the reason against it."""
    yield lambda: compatibility.check_operators(request, seen)
    yield lambda: compatibility.check_generated_uids(request, seen)
    yield lambda: compatibility.check_max_parallelism(request, seen)
    yield lambda: compatibility.check_keys(request, seen)
    for shape in request.operators:
        yield _states_of(shape, seen)
    yield lambda: compatibility.check_sources(request, seen)


def refusals_of(checks: Iterator[Callable[[], Any]]) -> Iterator[Refusal]:
    """Yields what speaks against it: not only the first reason."""
    for check in checks:
        try:
            check()
        except LakestateError as error:
            yield refusal(error)


def refusal(error: LakestateError) -> Refusal:
    """Returns an error as a reason."""
    return Refusal(error=type(error).__name__, message=error.message, action=error.action)


def _states_of(shape: OperatorShape, seen: Manifest) -> Callable[[], Any]:
    return lambda: compatibility.merge_schemas(seen.schemas, shape.schemas, seen.epoch)


__all__ = ["OperatorsOf", "code_checks", "misfits", "refusal", "refusals_of"]
