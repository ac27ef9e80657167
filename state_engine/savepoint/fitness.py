"""Checks whether a job's present code can go on from the state that a restore would give it. Writes nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from state_engine.epoch import compatibility
from state_engine.epoch.request import OperatorShape, RestoreTarget, StartRequest
from state_engine.epoch.unread import Unread, check_unread, unread
from state_engine.errors import LakestateError
from state_engine.log.records import Manifest, StateSchema
from state_engine.savepoint.catalogue import resolve_restore
from state_engine.savepoint.restore_report import Refusal
from state_engine.savepoint.segments import log_size, segments_of_target
from state_engine.storage.state_reader import Segment

OperatorsOf = Callable[[Manifest], Sequence[OperatorShape] | None]
"""Returns the operators that the job's code declares today, for the epoch that is restored; None if it is not known."""


class Fitness(NamedTuple):
    """How a job's present code fits a source.

    Attributes:
        refusals: All reasons why the code cannot go on from the source, by operator and state. Empty if it can.
        unread: State that the code would not read, with rows and bytes.
    """

    refusals: tuple[Refusal, ...]
    unread: tuple[Unread, ...]


def fitness(root: str, job: str, source: str, operators_of: OperatorsOf, *, strict: bool = False) -> Fitness | None:
    """Returns whether a job's present code can go on from a source, and what state it would not read.

    Args:
        root: Of the storage.
        job: The job.
        source: What `resolve_restore` takes.
        operators_of: The job's code.
        strict: As of a strict start: state that the code does not read is a reason against it, too.

    Returns:
        None if the code is not known.

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
        strict=strict,
    )
    return Fitness(tuple(refusals_of(code_checks(request, seen))), unread_of_target(root, target, operators))


def unread_of_target(root: str, target: RestoreTarget, operators: Sequence[OperatorShape]) -> tuple[Unread, ...]:
    """Returns the state of a source that the operators will not read, under the uids that they have.

    Raises:
        CorruptionError: A file of the source is gone or damaged.
    """
    if not (found := unread(operators, target.seen.manifest)):
        return ()
    uids = target.rewrite.uids if target.rewrite is not None else {}
    return with_sizes(found, target.stored.manifest.schemas, segments_of_target(root, target), uids)


def with_sizes(
    found: Sequence[Unread],
    schemas: Sequence[StateSchema],
    segments: Sequence[Segment],
    uids: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Unread, ...]:
    """Returns the state that is not read, with the rows and bytes of its log.

    Args:
        found: The state that is not read.
        schemas: All states, as the log has them.
        segments: The files that fold to them.
        uids: From uids in the log to those in `found`, where they differ.
    """
    schema_of = {(uids.get(schema.uid, schema.uid), schema.kind, schema.name): schema for schema in schemas}
    sizes = [log_size(segments, schema_of[one.uid, one.kind, one.state]) for one in found]
    return tuple(replace(one, rows=rows, bytes=size) for one, (rows, size) in zip(found, sizes, strict=True))


def code_checks(request: StartRequest, seen: Manifest) -> Iterator[Callable[[], Any]]:
    """Yields the checks that a start makes of its operators, each as a call that raises the reason against it."""
    yield lambda: compatibility.check_parallelism(request)
    yield lambda: compatibility.check_operators(request, seen)
    yield lambda: compatibility.check_generated_uids(request, seen)
    yield lambda: compatibility.check_max_parallelism(request, seen)
    yield lambda: compatibility.check_keys(request, seen)
    yield lambda: compatibility.check_windows(request, seen)
    for shape in request.operators:
        yield _states_of(shape, seen)
    yield lambda: check_unread(request, seen)
    yield lambda: compatibility.check_sources(request, seen)


def refusals_of(checks: Iterator[Callable[[], Any]]) -> Iterator[Refusal]:
    """Yields all reasons against a restore, not only the first: one for each check that raises."""
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


__all__ = [
    "Fitness",
    "OperatorsOf",
    "code_checks",
    "fitness",
    "refusal",
    "refusals_of",
    "unread_of_target",
    "with_sizes",
]
