"""Extracts the cause of a failure from Spark's text, as one line: the text is long, and the cause in the middle of it.

Failures of operators travel as data (`docs/adr/0004-failures-as-data.md`) and never come here. These do: a function
that a worker cannot load, a Python function in a Spark expression or a source, a process that died, and Spark itself.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from pyspark import TaskContext

from state_engine import errors
from state_engine.causes import (
    HIDDEN,
    LONGEST_CAUSE,
    LONGEST_REPORT,
    WorkerEndsError,
    cause_line,
    message_of,
    records_shown,
    sentence,
    shown,
    shows_records,
)
from state_engine.errors import LakestateError, UserFunctionError, rebuilt
from state_engine.spark.wire.exits import exit_in
from state_engine.text import UNDECODABLE, plain, shorten

RECORDS_PROPERTY = "lakestate.show-records"
"""Local property of a Spark job: `false` if messages must not hold keys, records and other values."""

_HEADER = "Traceback (most recent call last):"
_AFTER_CAUSE = re.compile(r"^(\s+at \S+\(.*\)|Driver stacktrace:|JVM stacktrace:|Caused by: .*)$")
_NOTE = "lakestate error: "
_NOTES = re.compile(rf"^[ |]*{_NOTE}(\{{.*\}})$", re.MULTILINE)
_LOADING = ("ImportError", "ModuleNotFoundError", "UnpicklingError", "PicklingError")
_DIED = "Python worker exited unexpectedly"
_UNKNOWN_END = "Set spark.python.worker.faulthandler.enabled to true to learn how."
_FATAL = re.compile(r"Fatal Python error: .*")
_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason: (.*))?")
_CODE = re.compile(r"exit(?:ed with)?(?: status| code)? ?:? ?(?:code )?(\d+)", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


class SparkFailure(NamedTuple):
    """What Spark reports about a failure.

    Attributes:
        cause: The cause, in one line if the exception has one; of a named error its message without the action.
        error: The named error that a task raised; None for anything else.
    """

    cause: str
    error: LakestateError | None = None

    def as_error(self, what: str, *, otherwise: type[LakestateError], action: str) -> LakestateError:
        """Returns the named error of the task, or another one that quotes the cause.

        Args:
            what: What failed, as a sentence's beginning.
            otherwise: Class of the error where the task raised no named one.
            action: What to do then.
        """
        if self.error is None:
            return otherwise(sentence(f"{what}: {self.cause}"), action=action)
        named = self.error
        return rebuilt(type(named), f"{what}: {named.message}", named.action, named.operator, named.key)


class _Fields(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named error on its way through Spark's text, as JSON in one line."""

    type: str
    message: str
    action: str = ""
    operator: str = ""
    key: str = ""


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Surrounds the code of a task, so that its failures reach the driver in the form that the job asks for.

    Messages show records or hide them, as the driver decided for this task. Named errors carry their fields.
    """
    context = TaskContext.get()
    with records_shown(context is None or context.getLocalProperty(RECORDS_PROPERTY) != "false"):
        try:
            yield
        except LakestateError as error:
            with_fields(error)
            raise


def with_fields(error: LakestateError) -> LakestateError:
    """Adds the fields of a named error to its traceback, as a note: Spark sends the driver nothing but that text."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        message = shorten(message_of(error), LONGEST_REPORT)
        fields = _Fields(type(error).__name__, message, error.action, error.operator, error.key)
        error.add_note(_NOTE + msgspec.json.encode(fields).decode())
    return error


def _error_in(text: str) -> LakestateError | None:
    """Returns the named error whose fields are in Spark's text; of several the last, which was raised by the others."""
    for line in reversed(_NOTES.findall(text)):
        try:
            fields = msgspec.json.decode(line, type=_Fields)
        except UNDECODABLE:  # a line that the author's code printed
            continue
        kind = getattr(errors, fields.type, None)
        if isinstance(kind, type) and issubclass(kind, LakestateError):
            return rebuilt(kind, fields.message, fields.action, fields.operator, fields.key)
    return None


def raised_before_operators(
    what: str, error: BaseException, record: object = None, data: object = None
) -> BaseException:
    """Returns what a task raises if the author's code fails where no ack can carry the failure: on a source's records.

    Args:
        what: What was called, as the beginning of a sentence.
        error: What it raised. A named error is returned as it is.
        record: The current record; None without one.
        data: All current records.
    """
    if isinstance(error, (LakestateError, WorkerEndsError)):
        return error
    message = sentence(f"{what} raised {cause_line(error, record, data)}")
    return UserFunctionError(
        f"{message} Record: {shown(record)}." if record is not None else message,
        action="Fix the function; the epoch was not sealed, and the job reads the record again when it is started.",
    )


def failure_of(error: BaseException) -> SparkFailure:
    """Returns the cause of an exception that Spark has raised."""
    text = message_of(error)
    named = _error_in(text)
    if named is not None:
        return SparkFailure(shorten(named.message, LONGEST_CAUSE), named)
    raised = _last_line(text.splitlines())
    if raised is not None:
        return SparkFailure(shorten(_without_values(raised), LONGEST_CAUSE))
    return SparkFailure(shorten(_death(text) or _of_spark(text), LONGEST_CAUSE))


def _last_line(lines: list[str]) -> str | None:
    """Returns the last line of the last Python traceback in Spark's text, with the further lines of its message."""
    header = max((n for n, line in enumerate(lines) if line.endswith(_HEADER)), default=None)
    if header is None:
        return None
    prefix = lines[header][: -len(_HEADER)]
    indent = len(prefix) if set(prefix) <= set(" |") else 0  # an exception in a group is indented
    rest = [line[indent:] for line in lines[header + 1 :]]
    begin = next((n for n, line in enumerate(rest) if line and not line[0].isspace()), None)
    if begin is None or _AFTER_CAUSE.match(rest[begin]):
        return None
    end = next((n for n in range(begin + 1, len(rest)) if _AFTER_CAUSE.match(rest[n])), len(rest))
    return plain("\n".join(rest[begin:end]).strip())


def _without_values(raised: str) -> str:
    """Returns an exception, without its message if records must not be shown: the message may quote them."""
    name, colon, _ = raised.partition(":")
    if shows_records() or name.rpartition(".")[2] in _LOADING:
        return raised
    return f"{name}: {HIDDEN}" if colon else name


def _death(text: str) -> str | None:
    """Returns what is known about the end of a process, if the failure is that a process died."""
    if _DIED in text:
        fatal = _FATAL.search(text)
        causes = [sentence(fatal[0])] if fatal else []
        end = exit_in(text)
        causes += [end] if end else []
        return f"A Python worker process died. {' '.join(causes) or _UNKNOWN_END}"
    lost = _LOST.search(text)
    if lost is None:
        return None
    reason = (lost[2] or "").strip()
    return f"Executor {lost[1]} died. {reason}{_signal_of(reason)}".rstrip()


def _signal_of(reason: str) -> str:
    code = _CODE.search(reason)
    if code is None:
        return ""
    try:
        return f" ({signal.Signals(int(code[1]) - 128).name})"
    except ValueError:
        return ""


def _of_spark(text: str) -> str:
    """Returns the first line of Spark's text and the last cause in it."""
    lines = text.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "Spark has said nothing.")
    last = next((line for line in reversed(lines) if line.startswith("Caused by: ")), "")
    summary = first if not last or last.removeprefix("Caused by: ") in first else f"{first} {last}"
    return summary if shows_records() else _QUOTED.sub(HIDDEN, summary)


__all__ = [
    "RECORDS_PROPERTY",
    "SparkFailure",
    "failure_of",
    "raised_before_operators",
    "reporting_failures",
    "with_fields",
]
