"""What went wrong in an instance, as data: a failure travels in the ack, and the driver raises it by its name."""

from state_engine.backends.tables import StateValueError
from state_engine.errors import LakestateError
from state_engine.log.records import Failure

_SHOWN = 500


def engine_failure(uid: str, subtask: int, error: LakestateError) -> Failure:
    """Returns a named error of ours as data; the driver raises it again by its name."""
    return Failure(
        kind="engine", uid=uid, subtask=subtask, message=error.message, action=error.action, error=type(error).__name__
    )


def state_failure(uid: str, subtask: int, error: StateValueError) -> Failure:
    """Returns, as data, that the epoch's end found a value which its state's type does not admit."""
    state = ", ".join(getattr(error, "__notes__", ()))
    return Failure(
        kind="state_type",
        uid=uid,
        subtask=subtask,
        message=f"Operator {uid!r} put a value into its {state} under key {error.entry!r} that the state's "
        f"type does not admit: {error}.",
        action="Put values of the declared type, or declare another type under a new state name.",
        key=repr(error.entry)[:_SHOWN],
    )


__all__ = ["engine_failure", "state_failure"]
