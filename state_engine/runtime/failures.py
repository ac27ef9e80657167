"""Failures of an operator instance as data: a failure travels in the ack, and the driver raises it by its name.

`state_engine.causes` makes the text of exceptions, keys and records, so that it never hides a failure's cause.
"""

from pathlib import Path
from types import TracebackType

from state_engine import iterating
from state_engine.backends.keys import NO_KEY
from state_engine.backends.schemas import TIMERS
from state_engine.backends.stored_type import StateValueError
from state_engine.causes import HIDDEN, WorkerEndsError, cause_line, sentence, shown, shows_records, trace_of
from state_engine.errors import LakestateError
from state_engine.log.records import Failure
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.outputs import MAIN, OutputValueError
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization import copies

_FRONT = (str(Path(__file__).parent), iterating.__file__, copies.__file__)
"""Files with the code that calls the author's code, and reads what it gives."""
_MEND = (
    "Fix the function, or let it send such records to a side output. The epoch was not sealed: a restarted job "
    "continues from the end of the epoch before."
)
_ITERABLE = "Yield rows, or return a list of them: [row] for one row. For no rows, return None."


class OperatorFailure(Exception):
    """The author's code failed; `failure` has the place, the key and the record."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def user_failure(
    uid: str,
    subtask: int,
    error: BaseException,
    what: str,
    key: object = NO_KEY,
    record: object = None,
    data: object = None,
) -> OperatorFailure:
    """Returns a failure of the author's code.

    Args:
        uid: The operator.
        subtask: Its subtask.
        error: What was raised. It need not be an `Exception`: `sys.exit()` in a function makes it fail, too.
        what: The call that raised it, as the beginning of a sentence.
        key: The current key; `NO_KEY` without one.
        record: The current record; None without one.
        data: All records and keys of the call, if there are more than `key` and `record`.
    """
    if isinstance(error, WorkerEndsError):
        raise error
    author_frames = _from_the_authors_code(error.__traceback__)
    not_iterable = author_frames is None and isinstance(error, TypeError) and "not iterable" in cause_line(error)
    values = (None if key is NO_KEY else key, record, data)
    return OperatorFailure(
        Failure(
            kind="user_function",
            uid=uid,
            subtask=subtask,
            message=sentence(f"{what} {cause_line(error, *values)}"),
            action=_ITERABLE if not_iterable else _action(error),
            key=shown(key) if key is not NO_KEY else "",
            record=shown(record) if record is not None else "",
            traceback=trace_of(error, author_frames, *values),
        )
    )


def _action(error: BaseException) -> str:
    return (error.action if isinstance(error, LakestateError) else "") or _MEND


def _from_the_authors_code(frames: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the leading frames of the engine's loops; None if there are no other frames."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_FRONT):
        frames = frames.tb_next
    return frames


def output_failure(spec: OperatorSpec, subtask: int, error: OutputValueError) -> OperatorFailure:
    """Returns the failure of a function that gave a row which does not fit its output."""
    declared = spec.output if error.output == MAIN else spec.side_outputs.get(error.output)
    return OperatorFailure(
        Failure(
            kind="output_type",
            uid=spec.uid,
            subtask=subtask,
            message=f"Operator {spec.uid!r} returned a row for its output {error.output!r} that is not "
            f"{declared.ddl() if declared else 'a pair of tag and row'}: {error}.",
            action="Return rows of the declared type, or change output_type."
            + ("" if isinstance(spec.function, Adapter) else " Yield rows, or return a list: [row] for one row."),
            record=error.row,
        )
    )


def engine_failure(uid: str, subtask: int, error: BaseException) -> Failure:
    """Returns an error of the engine as data; the driver raises it by its name, without one as an `EpochError`."""
    if isinstance(error, WorkerEndsError):
        raise error
    if isinstance(error, LakestateError):
        name, message, action, trace = type(error).__name__, error.message, error.action, ""
    else:
        # Its text may quote values of records, and which ones is not known here.
        text, trace = (
            (cause_line(error), trace_of(error)) if shows_records() else (f"{type(error).__name__}: {HIDDEN}", "")
        )
        name, action = "", "Look at the worker's log. The epoch was not sealed and is run again."
        message = sentence(f"The task raised {text}")
    return Failure(kind="engine", uid=uid, subtask=subtask, message=message, action=action, error=name, traceback=trace)


_TIMERS = [f"state {name!r}" for name in TIMERS.values()]


def state_failure(uid: str, subtask: int, error: StateValueError) -> Failure:
    """Returns, as data, that at the epoch's end a state had a value that does not fit the state's type."""
    state = ", ".join(getattr(error, "__notes__", ()))
    where = "" if state.startswith(("operator", "broadcast")) else f" under key {shown(error.entry)}"
    action = "Put values of the declared type, or declare another type under a new state name."
    problem = f"put a value into its {state}{where} that does not fit the state's type"
    if is_timer := state in _TIMERS:
        action = "Give whole milliseconds since 1970, from -2**63 to 2**63 - 1."
        problem = "registered a timer for a value that is no time"
    return Failure(
        kind="user_function" if is_timer else "state_type",
        uid=uid,
        subtask=subtask,
        message=f"Operator {uid!r} {problem}: {error}.",
        action=action,
        key=shown(error.entry) if where else "",
    )


__all__ = ["OperatorFailure", "engine_failure", "output_failure", "state_failure", "user_failure"]
