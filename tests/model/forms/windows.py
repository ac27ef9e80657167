"""Programs of windows, as data; their plain model; and their forms."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from state_engine.api import (
    Aggregate,
    AggregateFunction,
    Duration,
    OutputTag,
    ProcessWindowFunction,
    WatermarkStrategy,
    WindowFunction,
)
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType
from state_engine.api.windows import (
    CountEvictor,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from state_engine.api.windows.counting import count_windows

END = (1 << 63) - 1
NEVER = -(1 << 63)
TIE = 2
"""How far the watermark that follows records stays below the newest of them, beyond the bound."""
EVERY = 1_000_000


@dataclass(frozen=True)
class Definition:
    """Which windows there are.

    Attributes:
        kind: `tumbling`, `sliding`, `sessions` or `count`.
        size: Length in ms, gap in ms, or number of records.
        slide: Of sliding windows in ms, of windows by count in records.
        offset: Of tumbling and sliding windows, in ms.
        lateness: How long a window by event time takes records after its end, in ms.
    """

    kind: str
    size: int
    slide: int = 0
    offset: int = 0
    lateness: int = 0


@dataclass(frozen=True)
class Windowed:
    """A program of windows over records of a key, a number and a value.

    Attributes:
        key: Types of the key columns.
        type: Of the value.
        by_clock: Whether its windows are by processing time.
        bound: How late records may be, if the watermark follows them; None if it is moved between epochs.
        releases: The windows of the first release, and of the next one if there is one.
    """

    key: tuple[str, ...]
    type: str
    by_clock: bool
    bound: int | None
    releases: tuple[Definition, ...]

    @property
    def key_columns(self) -> list[str]:
        return [f"k{n}" for n in range(len(self.key))]

    @property
    def input(self) -> StructType:
        return parse_columns_ddl(f"{self._keys}, n bigint, v {self.type}")

    @property
    def output(self) -> StructType:
        return parse_columns_ddl(
            f"{self._keys}, start_ms bigint, end_ms bigint, total bigint, numbers array<bigint>, of array<{self.type}>"
        )

    @property
    def _keys(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in zip(self.key_columns, self.key, strict=True))


class Event(NamedTuple):
    """A record: its key, its value and its event time."""

    key: tuple[Any, ...]
    value: Any
    at: int


# The plain model ------------------------------------------------------------------------------------------------------


@dataclass
class Window:
    """An open window; `waits` until its timer fires."""

    start: int
    end: int
    contents: list[tuple[int, Any]] = field(default_factory=list)
    waits: bool = True


class PlainWindows:
    """Windows as documented, over lists.

    Args:
        program: The program.
        definition: Its windows.
    """

    def __init__(self, program: Windowed, definition: Definition) -> None:
        self.program = program
        self.definition = definition
        self._now = NEVER
        self._windows: dict[Any, list[Window]] = {}
        self._counts: dict[Any, int] = {}
        self.fired: list[tuple[tuple[Any, ...], Window]] = []
        self.late: list[tuple[int, Event]] = []

    def advance(self, now: int) -> None:
        """Moves the clock of the windows; a window fires when its end is passed, and is dropped when it is over."""
        self._now = max(now, self._now)
        if self.definition.kind == "count":
            return
        lateness = self.definition.lateness
        for key, windows in self._windows.items():
            for window in sorted(windows, key=lambda one: one.end):
                if window.waits and window.end - 1 <= self._now:
                    window.waits = False
                    self._fire(key, window)
            self._windows[key] = [one for one in windows if one.end - 1 + lateness > self._now]

    def epoch(self, events: Sequence[tuple[int, Event]]) -> None:
        """Takes the records of an epoch, with their numbers."""
        bound, counts = self.program.bound, self.definition.kind == "count"
        ordered = sorted(events, key=lambda one: one[1].at)
        for n, event in ordered:
            if counts:
                self._count(n, event)
                continue
            if bound is not None:
                self.advance(event.at - bound - TIE)
            self._add(n, event if not self.program.by_clock else event._replace(at=self._now))

    def _add(self, n: int, event: Event) -> None:
        is_late = True
        for start, end in self._assigned(event.at):
            windows = self._windows.setdefault(event.key, [])
            joined = [one for one in windows if self._joins(one, start, end)]
            over = end - 1 + self.definition.lateness <= self._now and not self.program.by_clock
            if over and not (joined and self.definition.kind == "sessions"):
                continue
            is_late = False
            joined.sort(key=lambda one: one.start)
            contents = [one for window in joined for one in window.contents]
            made = Window(
                min([start, *(one.start for one in joined)]),
                max([end, *(one.end for one in joined)]),
                [*contents, (n, event.value)],
            )
            self._windows[event.key] = [*(one for one in windows if one not in joined), made]
            if made.end - 1 <= self._now and not self.program.by_clock:
                made.waits = False
                self._fire(event.key, made)
        if is_late:
            self.late.append((n, event))

    def _joins(self, window: Window, start: int, end: int) -> bool:
        if self.definition.kind == "sessions":
            return window.start <= end and start <= window.end
        return (window.start, window.end) == (start, end)

    def _assigned(self, at: int) -> Iterator[tuple[int, int]]:
        of = self.definition
        if of.kind == "sessions":
            yield at, at + of.size
            return
        slide = of.slide if of.kind == "sliding" else of.size
        start = at - (at - of.offset) % slide
        while start > at - of.size:
            yield start, start + of.size
            start -= slide

    def _count(self, n: int, event: Event) -> None:
        size, slide = self.definition.size, self.definition.slide
        windows = self._windows.setdefault(event.key, [])
        number = self._counts.get(event.key, 0)  # of the next record; without a slide, of the next window
        if not slide and not windows:
            windows.append(Window(number, number))
            self._counts[event.key] = number + 1
        elif slide:
            self._counts[event.key] = number + 1
            if number % slide == 0:
                windows.append(Window(number // slide, number // slide))
        for window in windows:
            if not slide or number < window.start * slide + size:
                window.contents.append((n, event.value))
        for window in [one for one in windows if len(one.contents) >= size]:
            self._fire(event.key, window)
            windows.remove(window)

    def _fire(self, key: tuple[Any, ...], window: Window) -> None:
        self.fired.append((key, Window(window.start, window.end, list(window.contents))))


# Forms ----------------------------------------------------------------------------------------------------------------


def assigner_of(program: Windowed, of: Definition) -> Any:
    """Returns the window assigner of a program."""
    match of.kind:
        case "tumbling":
            return (TumblingProcessingTimeWindows if program.by_clock else TumblingEventTimeWindows)(of.size, of.offset)
        case "sliding":
            kind = SlidingProcessingTimeWindows if program.by_clock else SlidingEventTimeWindows
            return kind(of.size, of.slide, of.offset)
        case "sessions":
            return (ProcessingTimeSessionWindows if program.by_clock else EventTimeSessionWindows)(of.size)
    return count_windows(of.size, of.slide)


def late(program: Windowed) -> OutputTag:
    """Returns the side output of late records."""
    return OutputTag("late", program.input)


def strategy_of(program: Windowed) -> WatermarkStrategy | None:
    """Returns the watermark strategy of the source; None if the watermark is moved."""
    if program.bound is None:
        return None
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(program.bound))


def forms_of(program: Windowed) -> list[str]:
    """Returns the forms that a program has."""
    forms = ["process", "apply", "aggregate", "reduce", "evicted", "evicted aggregate"]
    if program.by_clock or any(of.kind == "count" or of.lateness for of in program.releases):
        return forms
    return [*forms, "declared", "declared"]


def same_state(form: str) -> str:
    """Returns what a form keeps: forms with different state may not replace each other."""
    return {"process": "list", "apply": "list", "evicted": "evicted", "evicted aggregate": "evicted"}.get(form, form)


def operator_of(program: Windowed, of: Definition, form: str, stream: Any, uid: str = "operator") -> Any:
    """Ends a windowed stream, of a harness or of a job, with the program in a form."""
    if not program.by_clock and of.kind != "count":
        stream = stream.side_output_late_data(late(program))
        stream = stream.allowed_lateness(of.lateness) if of.lateness else stream
    if form == "declared":
        aggregates = {"total": Aggregate.sum("n"), "numbers": Aggregate.collect("n"), "of": Aggregate.collect("v")}
        return stream.aggregate(aggregates, uid=uid)
    if form.startswith("evicted"):
        stream = stream.evictor(CountEvictor(EVERY))
    match form.split()[-1]:
        case "process" | "evicted":
            return stream.process(Contents(), program.output, uid=uid)
        case "apply":
            return stream.apply(Applied(), program.output, uid=uid)
        case "reduce":
            return stream.reduce(latest, Reduced(), program.output, uid=uid)
    accumulator = f"struct<numbers:array<bigint>,of:array<{program.type}>>"
    return stream.aggregate(Gathered(), Result(), accumulator, program.output, uid=uid)


def bounds(window: Any) -> tuple[int, int]:
    return (window.start, window.end) if isinstance(window, TimeWindow) else (window.id, window.id)


def as_key(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def row(key: Any, window: Any, elements: Iterable[Any]) -> tuple[Any, ...]:
    numbers, values = zip(*((one.n, one.v) for one in elements), strict=True)
    return *as_key(key), *bounds(window), sum(numbers), list(numbers), list(values)


class Contents(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield row(key, context.window(), elements)


class Applied(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [row(key, window, inputs)]


def latest(one: Any, other: Any) -> Any:
    return (*list(one)[:-2], one.n + other.n, other.v)


class Reduced(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        ((*_, n, v),) = inputs
        yield *as_key(key), *bounds(window), n, None, [v]


class Gathered(AggregateFunction):
    """Keeps all numbers and values, in lists that it changes in place."""

    def create_accumulator(self) -> Any:
        return [], []

    def add(self, value: Any, accumulator: Any) -> Any:
        numbers, values = accumulator
        numbers.append(value.n)
        values.append(value.v)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [[*one, *other] for one, other in zip(acc_a, acc_b, strict=True)]


class Result(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        ((numbers, values),) = inputs
        yield *as_key(key), *bounds(window), sum(numbers), list(numbers), list(values)


def in_ms(moment: datetime) -> int:
    """Returns a timestamp in ms since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


__all__ = ["END", "Definition", "Event", "PlainWindows", "Windowed", "assigner_of", "forms_of", "late", "operator_of"]
