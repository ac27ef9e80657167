"""Turns a decision that is not SUCCESS into a named error (E6)."""

from state_engine import errors
from state_engine.epoch.acks import Acknowledged, Answer
from state_engine.epoch.ports import EpochPlan
from state_engine.errors import (
    BroadcastDivergenceError,
    EpochError,
    InconsistentAttemptsError,
    LakestateError,
    MissingAckError,
    OutputTypeError,
    RawStateError,
    ReadOnlyStateError,
    StateMigrationError,
    StateTypeChangedError,
    StopRequestedError,
    UserFunctionError,
)
from state_engine.log.records import Failure

_KINDS: dict[str, type[LakestateError]] = {
    "user_function": UserFunctionError,
    "output_type": OutputTypeError,
    "state_type": StateTypeChangedError,
}
_FINAL = (
    BroadcastDivergenceError,
    OutputTypeError,
    RawStateError,
    ReadOnlyStateError,
    StateMigrationError,
    StateTypeChangedError,
    StopRequestedError,
    UserFunctionError,
)


def error_of(decision: Acknowledged, plan: EpochPlan) -> LakestateError:
    """Returns the error for a decision that is not SUCCESS."""
    if decision.failure is not None:
        return _failed(decision.failure, plan)
    kind = InconsistentAttemptsError if decision.answer is Answer.INCONSISTENT else MissingAckError
    return kind(
        f"Epoch {plan.epoch} of job {plan.job!r} was not sealed after {plan.retry + 1} attempts: {decision.reason}",
        action="Look for executors that die, then start again; the job goes on from its newest sealed epoch.",
    )


def is_final(error: LakestateError) -> bool:
    """Whether running the epoch again would only repeat the error."""
    return isinstance(error, _FINAL) or not isinstance(error, EpochError)


def _engine_error(name: str) -> type[LakestateError]:
    """Returns the class of a named error of ours that a task reported as data."""
    error_type = getattr(errors, name, EpochError)
    return error_type if isinstance(error_type, type) and issubclass(error_type, LakestateError) else EpochError


def _failed(failure: Failure, plan: EpochPlan) -> LakestateError:
    """Names operator, subtask, key and record, and appends the author's traceback."""
    what = [f"Operator {failure.uid!r}, subtask {failure.subtask}, failed in epoch {plan.epoch}: {failure.message}"]
    if failure.key:
        what.append(f"Key: {failure.key}.")
    if failure.record:
        what.append(f"Record: {failure.record}.")
    if failure.traceback:
        what.append(f"\n{failure.traceback.rstrip()}\n")
    kind = _KINDS.get(failure.kind) or _engine_error(failure.error)
    return kind(
        " ".join(what),
        action=failure.action or "Correct it and start again; nothing of the epoch was kept.",
        operator=failure.uid,
        key=failure.key,
    )


__all__ = ["error_of", "is_final"]
