"""What went wrong in an instance, as data: a failure travels in the ack, and the driver raises it by its name.

Text of exceptions, keys and records comes from `state_engine.causes`, so that no failure loses its cause to them.
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
"""Where the code lies that calls an author's, and reads what it gives."""
_MEND = (
    "Mend the function, or let it send such records to a side output; the epoch was not sealed, and the job goes on "
    "from the record in front when it is started again."
)
_ITERABLE = "Yield rows, or return a list of them: of one row, [row]. Of none, return None."


class OperatorFailure(Exception):
    """The author's code failed; `failure` says where, on which key and record."""

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
    """Returns what the author's code raised.

    Args:
        uid: The operator.
        subtask: Its subtask.
        error: What was raised, which need not be an `Exception`: `sys.exit()` in a function fails it, too.
        what: By which call, as a sentence's beginning.
        key: The key at hand; `NO_KEY` without one.
        record: The record at hand; None without one.
        data: All records and keys of the call, where it has more than these.
    """
    if isinstance(error, WorkerEndsError):
        raise error
    own = _from_the_authors_code(error.__traceback__)
    ours = own is None and isinstance(error, TypeError) and "not iterable" in cause_line(error)
    values = (None if key is NO_KEY else key, record, data)
    return OperatorFailure(
        Failure(
            kind="user_function",
            uid=uid,
            subtask=subtask,
            message=sentence(f"{what} {cause_line(error, *values)}"),
            action=_ITERABLE if ours else _action(error),
            key=shown(key) if key is not NO_KEY else "",
            record=shown(record) if record is not None else "",
            traceback=trace_of(error, own, *values),
        )
    )


def _action(error: BaseException) -> str:
    return (error.action if isinstance(error, LakestateError) else "") or _MEND


def _from_the_authors_code(frames: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the frames of the loops in front; None if there are no others."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_FRONT):
        frames = frames.tb_next
    return frames


def output_failure(spec: OperatorSpec, subtask: int, error: OutputValueError) -> OperatorFailure:
    """Returns that a function gave a row which its output does not admit."""
    declared = spec.output if error.output == MAIN else spec.side_outputs.get(error.output)
    return OperatorFailure(
        Failure(
            kind="output_type",
            uid=spec.uid,
            subtask=subtask,
            message=f"Operator {spec.uid!r} returned a row for its output {error.output!r} that is not "
            f"{declared.ddl() if declared else 'a pair of tag and row'}: {error}.",
            action="Return rows of the declared type, or change output_type."
            + ("" if isinstance(spec.function, Adapter) else " Rows are yielded, or returned as a list: one as [row]."),
            record=error.row,
        )
    )


def engine_failure(uid: str, subtask: int, error: BaseException) -> Failure:
    """Returns an error of ours as data; the driver raises it again by its name, what has none as an `EpochError`."""
    if isinstance(error, WorkerEndsError):
        raise error
    if isinstance(error, LakestateError):
        name, message, action, trace = type(error).__name__, error.message, error.action, ""
    else:
        # Which values its text may quote is not known here.
        told, trace = (
            (cause_line(error), trace_of(error)) if shows_records() else (f"{type(error).__name__}: {HIDDEN}", "")
        )
        name, action = "", "Look at the worker's log; the epoch was not sealed and is run again."
        message = sentence(f"The task raised {told}")
    return Failure(kind="engine", uid=uid, subtask=subtask, message=message, action=action, error=name, traceback=trace)


_TIMERS = [f"state {name!r}" for name in TIMERS.values()]


def state_failure(uid: str, subtask: int, error: StateValueError) -> Failure:
    """Returns, as data, that the epoch's end found a value which its state's type does not admit."""
    state = ", ".join(getattr(error, "__notes__", ()))
    under = "" if state.startswith(("operator", "broadcast")) else f" under key {shown(error.entry)}"
    action = "Put values of the declared type, or declare another type under a new state name."
    said = f"put a value into its {state}{under} that the state's type does not admit"
    if is_timer := state in _TIMERS:
        action = "Give whole milliseconds since 1970, from -2**63 to 2**63 - 1."
        said = "registered a timer for what is no time"
    return Failure(
        kind="user_function" if is_timer else "state_type",
        uid=uid,
        subtask=subtask,
        message=f"Operator {uid!r} {said}: {error}.",
        action=action,
        key=shown(error.entry) if under else "",
    )


__all__ = ["OperatorFailure", "engine_failure", "output_failure", "state_failure", "user_failure"]
