"""What a program must output, in plain Python: over `plain_states`, without logs, caches, columns and subtasks."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from commands import Ttl
from forms.program import TTL, Program, StateOf, Step, column_of, gives_row, goes_aside, reads
from forms.values import canonical, converted
from plain_states import PlainFolded, PlainList, PlainMap, PlainState, PlainValue

from state_engine.api import TimeDomain
from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import TypeInformation


class Record(NamedTuple):
    """A record of a program.

    Attributes:
        key: Values of the key columns.
        operation: What to do.
        values: For each state what is put, and a user key.
        timer: The time of a timer, in ms from the present of its clock.
        at: Event time, or None.
    """

    key: tuple[Any, ...]
    operation: int
    values: tuple[tuple[Any, Any], ...]
    timer: int = 0
    at: int | None = None


class Stretch(NamedTuple):
    """What happens between two moves of the clocks.

    Attributes:
        clock: How much processing time passes before it, in ms.
        watermark: How much the watermark moves before it, in ms; the first move begins at `START`.
        records: Its records, those without event time first, then in order of event time.
    """

    clock: int
    watermark: int
    records: tuple[Record, ...]


START = 100
"""Where event time begins."""


@dataclass
class Output:
    """Rows of both outputs."""

    main: list[tuple[Any, ...]] = field(default_factory=list)
    aside: list[tuple[Any, ...]] = field(default_factory=list)


class _UserKey:
    """A user key: equal to another spelling of the same value."""

    def __init__(self, value: Any, same: Any) -> None:
        self.value = value
        self._same = same

    def __hash__(self) -> int:
        return hash(self._same)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UserKey) and self._same == other._same


class _Map(PlainMap):
    """A map with user keys of any type: NaN equals NaN, -0.0 equals 0.0, and the first spelling is kept."""

    def keep(self, kind: str) -> "_Map":
        self._kind = parse_ddl(kind)
        return self

    def user_key(self, value: Any) -> _UserKey:
        return _UserKey(value, _of_both_zeros(canonical(self._kind, value)))

    def _put(self, user_key: Any, value: Any) -> None:
        first = next((known for known in self._entries if known == user_key), None)
        if first is not None and not self.alive(self._entries[first][1]):
            del self._entries[first]
            first = None
        super()._put(user_key if first is None else first, value)


def _of_both_zeros(same: Any) -> Any:
    if isinstance(same, tuple):
        return tuple(map(_of_both_zeros, same))
    return "double 0.0" if same == "double -0.0" else same


class _Reduced(PlainFolded):
    """A reducing state."""

    fold: Callable[[Any, Any], Any]

    def get(self) -> Any:
        return next(iter(self._read(None)), None)

    def add(self, value: Any) -> None:
        held = self._held()
        reduced = value if held is None else self.fold(held, value)
        if reduced is None:
            self.clear()
        else:
            self._put(None, reduced)


class _Aggregated(_Reduced):
    """An aggregating state that collects."""

    def add(self, value: Any) -> None:
        self._put(None, [*(self._held() or []), value])


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "sum": lambda one, other: one + other,
}


class PlainJob:
    """A job of one program.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self.cells: dict[Any, Any] = {}
        self.timers: dict[TimeDomain, set[tuple[int, Any]]] = {domain: set() for domain in TimeDomain}
        self.keys: dict[Any, tuple[Any, ...]] = {}
        self.processing_time = 0
        self.watermark: int | None = None
        self.firing: TimeDomain | None = None
        self.timestamp: int | None = None
        self.entry: Any = None
        self._records = 0
        self.program = program
        self.begin(program)

    def begin(self, program: Program) -> None:
        """Continues with another release of the program."""
        for number, (old, new) in enumerate(zip(self.program.states, program.states, strict=True)):
            self._convert(f"{old.shape}_{number}", parse_ddl(old.stored_type), parse_ddl(new.stored_type))
        self.program = program
        self._kinds = [parse_ddl(kind) for kind in program.key]
        self._states = [self._state(n, state) for n, state in enumerate(program.states)]

    def _convert(self, name: str, old: TypeInformation, new: TypeInformation) -> None:
        for (state, _), entries in self.cells.items():
            if state == name:
                for stamped in entries.values():
                    stamped[0] = converted(old, new, stamped[0])

    def _state(self, number: int, state: StateOf) -> Any:
        ttl = Ttl(state.ttl.startswith("event"), state.ttl.endswith("reads"), False, "default") if state.ttl else None
        name, job = f"{state.shape}_{number}", self
        shapes: dict[str, type[PlainState]] = {
            "value": PlainValue, "list": PlainList, "map": _Map, "reduced": _Reduced, "aggregated": _Aggregated,
        }  # fmt: skip
        made: Any = shapes[state.shape](job, name, ttl)  # type: ignore[arg-type]
        if state.shape == "map":
            made.keep(state.user_key)
        elif state.shape == "reduced":
            made.fold = FOLDS[state.fold]
        return made

    def advance(self, clock: int, watermark: int) -> None:
        """Moves the clocks; the timers that are due fire in the epochs to come."""
        self.processing_time += clock
        if watermark:
            self.watermark = watermark + (START if self.watermark is None else self.watermark)

    def epoch(self, records: Iterable[Record]) -> Output:
        """Runs an epoch: due timers, then the records."""
        output = Output()
        self._fire(TimeDomain.EVENT_TIME, self.watermark, output)
        self._fire(TimeDomain.PROCESSING_TIME, self.processing_time, output)
        ordered = sorted(enumerate(records, self._records), key=lambda one: _in_time(one[1]))
        self._records += len(ordered)
        for number, record in ordered:
            self.timestamp = record.at
            self.entry = tuple(map(canonical, self._kinds, record.key))
            self.keys.setdefault(self.entry, record.key)
            self._do(number, "record", self.program.operations[record.operation], record, output)
        return output

    def _fire(self, domain: TimeDomain, limit: int | None, output: Output) -> None:
        due = sorted((timer for timer in self.timers[domain] if limit is not None and timer[0] <= limit), key=repr)
        self.firing = domain
        for time, entry in sorted(due, key=lambda timer: timer[0]):
            self.timers[domain].discard((time, entry))
            self.timestamp, self.entry = time, entry
            self._do(time, domain.name, self.program.on_timer, None, output)
        self.firing = None

    def _do(self, number: int, what: str, steps: tuple[Step, ...], record: Record | None, output: Output) -> None:
        columns = {letter: [None] * len(self.program.states) for letter in "rgc"}
        for step in steps:
            if step.of_timer:
                assert record is not None
                self._timer(step.call, record.timer)
                continue
            value, user_key = (None, None) if record is None else record.values[step.state]
            given = self._call(step, value, user_key)
            if reads(step):
                columns[column_of(step, self.program.states[step.state])][step.state] = given
        if gives_row(steps):
            states = [one for n in range(len(self.program.states)) for one in (columns[letter][n] for letter in "rgc")]
            row = copy.deepcopy((*self.keys[self.entry], number, what, *states))
            (output.aside if goes_aside(steps) else output.main).append(row)

    def _call(self, step: Step, value: Any, user_key: Any) -> Any:
        state = self._states[step.state]
        shape = self.program.states[step.state].shape
        match shape, step.call:
            case "map", "put":
                return state.put(state.user_key(user_key), value)
            case "map", "remove" | "get" | "contains" as call:
                return getattr(state, call)(state.user_key(user_key))
            case "map", "items":
                return [(key.value, one) for key, one in state.items()]
            case "list", "get":
                return list(state.get())
            case "list", "add_all":
                return state.add_all([value, value])
            case "list", "update":
                return state.update([value])
            case _, "update" | "add" as call:
                return getattr(state, call)(value)
        return getattr(state, step.call)()

    def _timer(self, call: str, after: int) -> None:
        verb, clock, _ = call.split()
        domain = TimeDomain.EVENT_TIME if clock == "event" else TimeDomain.PROCESSING_TIME
        now = self.watermark if clock == "event" else self.processing_time
        timer = (START if now is None else now) + 1 + after, self.entry
        (self.timers[domain].add if verb == "set" else self.timers[domain].discard)(timer)


def _in_time(record: Record) -> tuple[bool, int]:
    return record.at is not None, record.at or 0


__all__ = ["START", "TTL", "Output", "PlainJob", "Record", "Stretch"]
