"""Texts of the causes of failures: the only place that converts exceptions, keys, records and other values to text.

Nothing here raises, whatever an exception or a value does when it is converted. All text is bounded and can be encoded
(`text`).
"""

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from types import TracebackType
from typing import Any, TypeVar

from state_engine.errors import LakestateError
from state_engine.text import plain, shorten

LONGEST_VALUE = 200
LONGEST_CAUSE = 1_000
LONGEST_TRACE = 4_000
LONGEST_REPORT = 8_000
HIDDEN = "<hidden by show_records=False>"

ResultT = TypeVar("ResultT")

_shows: ContextVar[bool] = ContextVar("lakestate_shows_records", default=True)


class WorkerEndsError(SystemExit):
    """A worker process was told to end. All code in it ends, and no code treats this as its own failure."""


@contextmanager
def records_shown(shows: bool) -> Iterator[None]:
    """Decides, for the block, whether text made here may contain keys, records and other values of the stream."""
    before = _shows.get()
    _shows.set(shows)
    try:
        yield
    finally:
        _shows.set(before)


def shows_records() -> bool:
    """Returns whether text made here may contain keys, records and other values of the stream."""
    return _shows.get()


def shown(value: object) -> str:
    """Returns a key, a record or another value of the stream as text of at most 200 characters."""
    if not _shows.get():
        return HIDDEN
    if isinstance(value, (str, bytes)) and len(value) > LONGEST_VALUE:
        return shorten(_repr(value[:LONGEST_VALUE]), LONGEST_VALUE - 1) + "…"
    return _repr(value)


def cause_line(error: BaseException, *data: object) -> str:
    """Returns the last line of an exception's traceback: its class and its message.

    Args:
        error: The exception.
        data: What the code was working on: a key, a record, a batch. If records must not be shown, the message contains
            none of these values.
    """
    message = without(message_of(error), *data)
    return shorten(f"{_class_name(error)}: {message}" if message else _class_name(error), LONGEST_CAUSE)


def trace_of(error: BaseException, frames: TracebackType | None = None, *data: object) -> str:
    """Returns a traceback with the causes of the exception, cut in its middle: the last line stays.

    Args:
        error: The exception.
        frames: Where its traceback begins; all of it by default.
        data: See `cause_line`.
    """

    def lines() -> list[str]:
        return traceback.format_exception(type(error), error, frames or error.__traceback__)

    def frames_alone() -> list[str]:
        return [*traceback.format_tb(frames or error.__traceback__), f"{_class_name(error)}: {message_of(error)}\n"]

    parts = _tried(lines, lambda _: _tried(frames_alone, lambda _: [_class_name(error)]))
    texts = (part if part.startswith("  File ") else shorten(without(part, *data), LONGEST_CAUSE) for part in parts)
    return shorten("".join(map(plain, texts)), LONGEST_TRACE)


def report_of(error: BaseException) -> str:
    """Returns the full report of a failure for a person: class and message; for our errors message and remedy."""
    if not isinstance(error, LakestateError):
        return cause_line(error)
    remedy = f" What to do: {error.action}" if error.action else ""
    return shorten(f"{message_of(error)}{remedy}", LONGEST_REPORT)


def sentence(text: str) -> str:
    """Returns text that ends with a full stop."""
    return text if text.endswith(".") else f"{text}."


def chained(error: BaseException) -> BaseException | None:
    """Returns the `__cause__` for a named error; None if records must not be shown: tracebacks print its message."""
    return error if _shows.get() else None


def _repr(value: object) -> str:
    failed = f"<{_name(type(value))} whose repr() raised %s>"
    return shorten(_tried(lambda: plain(str.__str__(repr(value))), lambda error: failed % error), LONGEST_VALUE)


def message_of(error: BaseException) -> str:
    """Returns the full message of an exception; for our errors without the action."""

    def said() -> str:
        return plain(str.__str__(error.message if isinstance(error, LakestateError) else str(error)))

    return _tried(said, lambda raised: f"<its str() raised {raised}>")


def _class_name(error: BaseException) -> str:
    return _name(type(error))


def _name(kind: type) -> str:
    return _tried(lambda: plain(str.__str__(kind.__name__)), lambda _: "object")


def _tried(make: Callable[[], ResultT], otherwise: Callable[[str], ResultT]) -> ResultT:
    """Returns the result of a call; if the call raises, the result of `otherwise` for the name of the exception."""
    try:
        return make()
    except WorkerEndsError:
        raise
    except BaseException as error:
        return otherwise(getattr(type(error), "__name__", "an exception"))


# Values inside messages -----------------------------------------------------------------------------------------------


def without(text: str, *data: object) -> str:
    """Returns a message, without the values in `data` if records must not be shown."""
    if _shows.get():
        return text
    texts: set[str] = set()
    _tried(lambda: _add_texts(texts, list(data), 0), lambda _: None)
    for value in sorted(texts, key=len, reverse=True):
        if value in text:
            # A short value, such as 7 or 'a', is hidden only where it is a word of its own.
            whole = re.escape(value) if len(value) > 3 else rf"(?<!\w){re.escape(value)}(?!\w)"
            text = re.sub(whole, HIDDEN, text)
    return text


def _values_of(column: Any) -> Any:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):  # a date that Python cannot represent
        return column.cast("string").to_pylist()


def _add_texts(found: set[str], value: Any, depth: int) -> None:
    """Adds the forms in which a message may contain a value, or the values inside it."""
    if value is None or isinstance(value, bool) or depth > 20:
        return
    if isinstance(value, str):
        found.update(text for text in (plain(value), plain(repr(value)[1:-1])) if text.strip())
    elif isinstance(value, (bytes, bytearray)):
        found.update(text for text in (repr(bytes(value))[2:-1], value.hex()) if text)
    elif isinstance(value, Mapping):
        _add_texts(found, [*value.keys(), *value.values()], depth + 1)
    elif isinstance(value, (int, float, Decimal)):
        found.update((repr(value), str(value)))
    elif hasattr(value, "columns"):  # a batch, a table, keys by columns
        for column in value.columns:
            _add_texts(found, _values_of(column.unique()), depth + 1)
    elif hasattr(value, "as_tuple"):  # a row
        _add_texts(found, value.as_tuple(), depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            _add_texts(found, one, depth + 1)
    elif hasattr(value, "__dict__"):
        found.add(_repr(value))
        _add_texts(found, vars(value), depth + 1)
    else:
        found.update(text for text in (plain(str(value)), plain(repr(value))) if text)


__all__ = [
    "HIDDEN",
    "LONGEST_CAUSE",
    "LONGEST_REPORT",
    "LONGEST_TRACE",
    "LONGEST_VALUE",
    "WorkerEndsError",
    "cause_line",
    "chained",
    "message_of",
    "records_shown",
    "report_of",
    "sentence",
    "shown",
    "shows_records",
    "trace_of",
    "without",
]
