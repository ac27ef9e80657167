"""Session windows: growing, merging, gaps that an element decides, lateness."""

from typing import Any

from scenario import EndOfInput, ProcessingTime, Watermark, element
from scenario_api import EventTimeSessionWindows, ProcessingTimeSessionWindows, SessionWindowTimeGapExtractor, Time
from scenarios.event_windows import ACCUMULATOR, LATE, Added, Applied, Contents, Mean, at, windowed


class GapOfElement(SessionWindowTimeGapExtractor):
    """The value is the gap."""

    def extract(self, element: Any) -> int:
        return int(element[1])


def gap() -> Any:
    return EventTimeSessionWindows.with_gap(Time.milliseconds(10))


def dynamic() -> Any:
    return EventTimeSessionWindows.with_dynamic_gap(GapOfElement())


MERGING = [*at(1, 5), *at(30), Watermark(10), *at(20), *at(3, key="b"), Watermark(12), *at(12), EndOfInput()]
SCENARIOS = [
    windowed("grows_and_ends", "A session ends a gap after its last element.", gap,
             [*at(1, 8), Watermark(16), Watermark(17), *at(40), *at(2, key="b"), EndOfInput()], late=LATE),
    windowed("an_element_bridges_two", "An element between two sessions makes one of them.", gap, MERGING),
    windowed("touching_sessions_are_one", "Sessions that touch are merged: [1, 11) and [11, 21).", gap,
             [*at(1, 11), Watermark(10), Watermark(20), EndOfInput()]),
    windowed("out_of_order", "Elements come in any order; the session's elements have the order of coming.", gap,
             [*at(30, 1, 12, 21, 5), Watermark(39), EndOfInput()]),
    windowed("reduce", "Merging reduces the folded values of the sessions.", gap, MERGING, how="reduce", fold=Added,
             function=Applied),
    windowed("aggregate", "Merging merges the accumulators.", gap, MERGING, how="aggregate", fold=Mean,
             accumulator=lambda: ACCUMULATOR),
    windowed("dynamic_gap", "Each element brings the gap behind it.", dynamic,
             [element("a", 10, at=0), element("a", 2, at=9), element("a", 5, at=10), element("a", 3, at=30),
              Watermark(14), Watermark(32), EndOfInput()]),
    windowed("late_session", "A late element is dropped, unless it belongs to a session that is still there.", gap,
             [*at(1), Watermark(5), *at(8), Watermark(12), *at(2), Watermark(30), *at(19, 25), EndOfInput()],
             late=LATE),
    windowed("lateness", "Within the allowed lateness a late element extends and fires a session that fired.", gap,
             [*at(1), Watermark(12), *at(8), Watermark(18), Watermark(25), *at(9), EndOfInput()], late=LATE,
             allowed_lateness=lambda: 5),
    windowed("lateness_merges", "A late element joins a session that has fired with one that has not.",
             gap, [*at(1), Watermark(12), *at(19), *at(10), Watermark(28), EndOfInput()], late=LATE,
             allowed_lateness=lambda: 20),
    windowed("apply", "A WindowFunction gets the merged window and all its elements.", gap, MERGING, how="apply",
             function=Applied),
    windowed("dynamic_gap_by_the_clock", "Each element brings the gap behind it, from the clock.",
             lambda: ProcessingTimeSessionWindows.with_dynamic_gap(GapOfElement()),
             [ProcessingTime(1), element("a", 10), ProcessingTime(3), element("a", 2), ProcessingTime(10),
              ProcessingTime(11), element("a", 5), ProcessingTime(50)], function=lambda: ByClock()),
    windowed("processing_time", "Sessions by the clock.",
             lambda: ProcessingTimeSessionWindows.with_gap(Time.milliseconds(10)),
             [ProcessingTime(1), element("a", 1), ProcessingTime(6), element("a", 2), element("b", 3),
              ProcessingTime(15), ProcessingTime(16), element("a", 4), ProcessingTime(100)],
             function=lambda: ByClock()),
]  # fmt: skip


class ByClock(Contents):
    """Shows no watermark, which has no meaning there."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        from scenario_api import Row

        window = context.window()
        yield Row(key, f"[{window.start}, {window.end}) {[row[1] for row in elements]}")
