"""Sessions of random records, cut into random epochs, are those of a plain model: warm, loaded, restored, rescaled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import AggregateFunction, OutputTag, ProcessWindowFunction, Time, WindowFunction
from state_engine.api.windows import CountEvictor, EventTimeSessionWindows
from state_engine.testing import windowed_harness

GAP = 10
INPUT = "k string, n bigint"
OUTPUT = "k string, start bigint, until bigint, seen bigint, sum bigint"
LATE = OutputTag("late", INPUT)
END = (1 << 63) - 1
Record = tuple[str, int, int]  # key, number, event time


@dataclass
class Session:
    start: int
    end: int
    numbers: list[int] = field(default_factory=list)


class Model:
    """Sessions as documented, over lists."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.watermark = -(1 << 63)
        self.sessions: dict[str, list[Session]] = {}
        self.emitted: Counter[Any] = Counter()
        self.late: Counter[Any] = Counter()

    def emit(self, key: str, session: Session) -> None:
        self.emitted[key, session.start, session.end, len(session.numbers), sum(session.numbers)] += 1

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        for key, sessions in self.sessions.items():
            for session in sessions:
                if before < session.end - 1 <= watermark:
                    self.emit(key, session)
            self.sessions[key] = [s for s in sessions if s.end - 1 + self.lateness > watermark]

    def add(self, record: Record) -> None:
        key, number, at = record
        sessions = self.sessions.setdefault(key, [])
        meeting = [s for s in sessions if s.start <= at + GAP and at <= s.end]
        if not meeting and at + GAP - 1 + self.lateness <= self.watermark:
            self.late[key, number] += 1
            return
        numbers = [n for s in meeting for n in s.numbers]
        start, end = min([at, *(s.start for s in meeting)]), max([at + GAP, *(s.end for s in meeting)])
        session = Session(start, end, [*numbers, number])
        self.sessions[key] = [*(s for s in sessions if s not in meeting), session]
        if session.end - 1 <= self.watermark:
            self.emit(key, session)


class Sums(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        numbers = [e.n for e in elements]
        yield key, context.window().start, context.window().end, len(numbers), sum(numbers)


class CountAndSum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value.n

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithResult(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        ((count, total),) = inputs
        yield key, window.start, window.end, count, total


def start(how: str, lateness: int, parallelism: int) -> Any:
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP))
    stream = windowed_harness(sessions, "k", INPUT, side_outputs=[LATE], parallelism=parallelism, max_parallelism=13)
    stream = stream.allowed_lateness(lateness).side_output_late_data(LATE)
    if how == "evicted":
        stream = stream.evictor(CountEvictor(1_000))
    if how == "aggregate":
        return stream.aggregate(CountAndSum(), WithResult(), output_type=OUTPUT)
    return stream.process(Sums(), OUTPUT)


records = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 99), st.integers(-20, 120))
epochs = st.lists(st.tuples(st.integers(-20, 140), st.lists(records, max_size=6)), max_size=8)
between = st.tuples(st.sampled_from(["nothing", "loaded", "restored"]), st.integers(1, 4))
cuts = st.lists(between, min_size=8, max_size=8)


@pytest.mark.parametrize("how", ["process", "aggregate", "evicted"])
@settings(max_examples=settings.default.max_examples // 3)
@given(epochs=epochs, lateness=st.sampled_from([0, 0, 7, 40]), cuts=cuts)
def test_sessions_are_those_of_the_model(
    how: str, epochs: list[Any], lateness: int, cuts: list[tuple[str, int]]
) -> None:
    model, run = Model(lateness), start(how, lateness, 2)
    emitted: Counter[Any] = Counter()
    late: Counter[Any] = Counter()
    watermark = -(1 << 63)

    def collect() -> None:
        emitted.update(run.extract_output_values())
        late.update(run.get_side_output(LATE))
        run.clear_output()

    for (mark, found), (cut, parallelism) in zip(epochs, cuts, strict=False):
        watermark = max(watermark, mark)
        run.process_watermark(watermark)
        model.advance(watermark)
        ordered = sorted(found, key=lambda record: record[2])
        run.process_elements([r[:2] for r in ordered], [r[2] for r in ordered])
        for record in ordered:
            model.add(record)
        collect()
        assert emitted == model.emitted
        assert late == model.late
        if cut == "loaded":
            run.close()
        elif cut == "restored":
            snapshot, run = run.snapshot(), start(how, lateness, parallelism)
            run.initialize_state(snapshot)
    run.process_watermark(END)
    model.advance(END)
    collect()
    assert emitted == model.emitted
    assert not any(run.snapshot().states().values())
    assert run.num_event_time_timers() == 0
