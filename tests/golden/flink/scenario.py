"""Defines a scenario: an operation, its columns, and a script of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Element(NamedTuple):
    """A record arrives; `at` is its timestamp in ms, None for a record without one."""

    row: tuple[Any, ...]
    at: int | None = None
    input: int = 1


class Watermark(NamedTuple):
    """The watermark of an input rises to `ms`."""

    ms: int
    input: int = 1


class ProcessingTime(NamedTuple):
    """The clock shows `ms`; it is 0 at first."""

    ms: int


class EndOfInput(NamedTuple):
    """All inputs end: Flink sends the largest watermark, 2^63 - 1, and closes the operator."""


Step = Element | Watermark | ProcessingTime | EndOfInput


def element(*row: Any, at: int | None = None, input: int = 1) -> Element:
    return Element(row, at, input)


@dataclass(frozen=True)
class Operation:
    """One operator, as a verb of the stream API with its arguments.

    Attributes:
        verb: `process`, `map`, …, as the method of the stream is called.
        make: Makes the function, or another argument that the verb takes.
        options: Further arguments of the verb; a callable is called for each run.
    """

    verb: str
    make: Callable[[], Any] = lambda: None
    options: dict[str, Any] = field(default_factory=dict)

    def option(self, name: str, default: Any = None) -> Any:
        """Returns an argument, made anew if it is made by a callable."""
        value = self.options.get(name, default)
        return value() if callable(value) else value


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        name: Its name within its group.
        about: The behaviour that it records.
        operation: The operator that runs.
        steps: The script.
        input: Columns of the records of input 1, and of input 2 unless `input2` says otherwise.
        output: Columns of the emitted rows. With a key, this is the first column: the order of rows is
            defined per key.
        key: Name of the key column, None for a stream without key.
        side_outputs: Tags of the side outputs that are recorded.
        mode: Of PyFlink, `process` unless that cannot run it; differences of the other mode are recorded beside.
        needs: Features that it needs here beyond keyed processing (see `NOT_YET` in `../not_as_recorded.py`).
    """

    name: str
    about: str
    operation: Operation
    steps: Sequence[Step]
    input: str = "k string, v bigint"
    output: str = "k string, saw string"
    input2: str | None = None
    key: str | None = "k"
    side_outputs: tuple[Any, ...] = ()
    mode: str = "process"
    needs: tuple[str, ...] = ()
