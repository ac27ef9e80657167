"""Random programs of windows, run in a way beside their plain model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from forms.running import MAX_PARALLELISM
from forms.values import KEYS, canonical, types, values
from forms.ways import Restarts, Turn, Way, epochs_of, ways
from forms.windows import (
    END,
    TIE,
    Definition,
    Event,
    PlainWindows,
    Window,
    Windowed,
    assigner_of,
    forms_of,
    in_ms,
    late,
    operator_of,
    same_state,
    strategy_of,
)
from hypothesis import strategies as st

from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType
from state_engine.testing import windowed_harness


class Stretch(NamedTuple):
    """Records between two moves of the clock that windows use.

    Attributes:
        moves: How much the clock or the watermark moves before them, in ms. A watermark that follows its records
            moves by itself.
        records: The records.
    """

    moves: int
    records: tuple[Event, ...]


@dataclass(frozen=True)
class Case:
    """A program and its input.

    Attributes:
        program: The program.
        stretches: Its input.
        released: The stretch before which the next release begins, if there is one.
    """

    program: Windowed
    stretches: tuple[Stretch, ...]
    released: int = 0


START = 100


@st.composite
def definitions(draw: Any, *, by_clock: bool) -> Definition:
    """Windows of every kind."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "sessions", "count"]))
    size = draw(st.integers(1, 12))
    if kind == "count":
        return Definition(kind, draw(st.integers(1, 4)), draw(st.sampled_from([0, 0, 1, 2])))
    lateness = 0 if by_clock else draw(st.sampled_from([0, 0, 3, 10]))
    slide = draw(st.integers(1, 6)) if kind == "sliding" else 0
    length = max(size, slide)
    offset = draw(st.integers(0, (slide or length) - 1)) if kind != "sessions" else 0
    return Definition(kind, length, slide, offset, lateness)


@st.composite
def programs(draw: Any, *, for_spark: bool = False) -> Windowed:
    """Programs of windows, some with a next release; for Spark the watermark always follows the records."""
    by_clock = not for_spark and draw(st.sampled_from([False, False, False, True]))
    one = draw(definitions(by_clock=by_clock))
    bound = (
        None if by_clock or one.kind == "count" else draw(st.sampled_from([0, 4] if for_spark else [None, None, 0, 4]))
    )
    releases: tuple[Definition, ...] = (one,)
    if for_spark:
        pass
    elif one.kind == "count":
        if not one.slide:
            releases = (one, Definition("count", draw(st.integers(1, 4))))
    elif draw(st.booleans()):
        size = draw(st.integers(1, 12))
        size = max(size, one.slide)
        lateness = 0 if by_clock else draw(st.sampled_from([0, 3, 10]))
        other = Definition(one.kind, size, one.slide, one.offset % (one.slide or size), lateness)
        releases = (one, other)
    key = tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)))
    return Windowed(key, draw(types(listed=for_spark)), by_clock, bound, releases)


@st.composite
def cases(draw: Any, of: st.SearchStrategy[Windowed] | None = None) -> Case:
    """Programs of windows with inputs."""
    program = draw(programs() if of is None else of)
    keys = draw(st.lists(st.tuples(*map(values, program.key)), min_size=1, max_size=3))
    times = st.integers(-3, 30).map(lambda n: START + n)
    events = st.builds(Event, st.sampled_from(keys), values(program.type), times)
    records = st.lists(events, max_size=7).map(lambda some: tuple(sorted(some, key=lambda one: one.at)))
    stretches = tuple(draw(st.lists(st.builds(Stretch, st.integers(0, 15), records), min_size=1, max_size=5)))
    return Case(program, stretches, draw(st.integers(0, len(stretches))))


def ways_of(program: Windowed) -> st.SearchStrategy[Way]:
    """Ways to run a program: forms that keep the same state replace each other."""

    def alike(way: Way) -> Way:
        first = way.turns[0].form
        alike = [turn if same_state(turn.form) == same_state(first) else _in_form(turn, first) for turn in way.turns]
        return replace(way, turns=tuple(alike))

    return ways(forms_of(program)).map(alike)


def _in_form(turn: Turn, form: str) -> Turn:
    return Turn(form, turn.backend, turn.parallelism)


def check(case: Case, way: Way) -> None:
    """Runs a case in a way; at the end both outputs must equal those of the plain model."""
    program, first = case.program, 0
    releases = iter(program.releases[1:])
    definition = program.releases[0]
    model = PlainWindows(program, definition)
    seen: list[Any] = []
    beside: list[Any] = []

    def harness(turn: Turn, backend: Any) -> Any:
        stream = windowed_harness(
            assigner_of(program, model.definition), program.key_columns, program.input, parallelism=turn.parallelism,
            max_parallelism=MAX_PARALLELISM, side_outputs=[late(program)], state_backend=backend,
            watermark_strategy=strategy_of(program),
        )  # fmt: skip
        return operator_of(program, model.definition, turn.form, stream)

    def collect(run: Restarts) -> None:
        seen.extend(run.harness.extract_output_values())
        beside.extend(run.harness.get_side_output(late(program)))
        run.harness.clear_output()

    with TemporaryDirectory() as disk:
        run, now = Restarts(harness, way, disk), START
        for number, stretch in enumerate(case.stretches):
            if number == case.released and (following := next(releases, None)):
                model.definition = following
                run.restore()
            now += stretch.moves
            if program.by_clock:
                model.advance(now)
                run.harness.set_processing_time(now)
            elif program.bound is None:
                model.advance(now)
                run.harness.process_watermark(now)
            collect(run)
            for events in epochs_of(stretch.records, way.cuts):
                numbered = list(enumerate(events, first))
                first += len(events)
                if program.by_clock:
                    model.advance(now)
                model.epoch(numbered)
                rows = [(*one.key, n, one.value) for n, one in numbered]
                run.harness.process_elements(rows, [one.at for one in events])
                collect(run)
                if program.bound is not None:
                    model.advance(max(one.at for one in events) - program.bound - TIE)
                run.after_epoch()
        model.advance(END)
        if program.by_clock:
            run.harness.set_processing_time(END)
        else:
            run.harness.process_watermark(END)
        collect(run)
        left = run.harness.snapshot()
        run.harness.close()
    compare(program, way.turns[0].form, model, seen, beside)
    if program.releases[0].kind != "count":
        assert not any(left.states().values())


def compare(program: Windowed, form: str, model: PlainWindows, rows: Sequence[Any], beside: Sequence[Any]) -> None:
    """Compares both outputs with those of the plain model; windows of one key may come in any order."""
    fired = Counter(wanted(program, form, key, window) for key, window in model.fired)
    late_ones = Counter(same(program.input.types, (*one.key, n, one.value)) for n, one in model.late)
    actual = Counter(shown(program, tuple(row)) for row in rows)
    aside = Counter(same(program.input.types, tuple(row)) for row in beside)
    for given, right in ((actual, fired), (aside, late_ones)):
        assert given == right, f"{given - right} in place of {right - given}"


def declared_output(program: Windowed) -> StructType:
    """Returns the columns of the declared form."""
    keys = ", ".join(f"{name} {kind}" for name, kind in zip(program.key_columns, program.key, strict=True))
    more = f"total bigint, numbers array<bigint>, of array<{program.type}>"
    return parse_columns_ddl(f"{keys}, window_start timestamp, window_end timestamp, {more}")


def shown(program: Windowed, row: tuple[Any, ...]) -> Any:
    """Returns a row of any form in its canonical spelling, with its bounds in ms."""
    keys = len(program.key)
    ends = [in_ms(end) if hasattr(end, "year") else end for end in row[keys : keys + 2]]
    return same(program.output.types, (*row[:keys], *ends, *row[keys + 2 :]))


def wanted(program: Windowed, form: str, key: tuple[Any, ...], window: Window) -> Any:
    """Returns what a form emits for a window."""
    numbers, held = [n for n, _ in window.contents], [value for _, value in window.contents]
    actual: Sequence[Any] | None = numbers
    if form == "declared":
        held = [value for value in held if value is not None]
    elif form == "reduce":
        actual, held = None, held[-1:]
    return same(program.output.types, (*key, window.start, window.end, sum(numbers), actual, held))


def same(kinds: Sequence[Any], values: Sequence[Any]) -> Any:
    return tuple(canonical(kind, value) for kind, value in zip(kinds, values, strict=True))


__all__ = ["Case", "Stretch", "cases", "check", "compare", "declared_output", "programs", "ways_of"]
