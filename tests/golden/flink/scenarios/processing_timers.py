"""Processing-time timers, on a clock that moves only when the script sets it."""

from collections.abc import Iterator
from typing import Any

from scenario import EndOfInput, Operation, ProcessingTime, Scenario, Watermark, element
from scenario_api import KeyedProcessFunction, Row, Types, ValueStateDescriptor

INPUT = "k string, do string"
NEEDS = ("timers",)


class Commands(KeyedProcessFunction):
    """Does what the record says: `look`, `timer 10`, `in 10` (from now), `delete 10`, `event 10`, `every 10 3`."""

    def open(self, runtime_context: Any) -> None:
        self.every = runtime_context.get_state(ValueStateDescriptor("every", Types.LONG()))
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            numbers = [int(number) for number in given]
            if verb == "look":
                yield Row(ctx.get_current_key(), f"element, now {now}")
            elif verb == "timer":
                timers.register_processing_time_timer(numbers[0])
            elif verb == "in":
                timers.register_processing_time_timer(now + numbers[0])
            elif verb == "delete":
                timers.delete_processing_time_timer(numbers[0])
            elif verb == "event":
                timers.register_event_time_timer(numbers[0])
            else:
                self.every.update(numbers[0])
                self.left.update(numbers[1])
                timers.register_processing_time_timer(now + numbers[0])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        yield Row(ctx.get_current_key(), f"timer {timestamp} at {ctx.timestamp()}, {ctx.time_domain().name}, now {now}")
        left = self.left.value()
        if left:
            self.left.update(left - 1)
            timers.register_processing_time_timer(timestamp + self.every.value())


def commands(name: str, about: str, *steps: Any, needs: tuple[str, ...] = NEEDS, mode: str = "process") -> Scenario:
    return Scenario(name, about, Operation("process", Commands), steps, input=INPUT, needs=needs, mode=mode)


SCENARIOS = [
    commands("fires_when_the_clock_is_there", "A timer fires when the clock reaches its time, and once.",
             element("a", "look, timer 100"), ProcessingTime(99), element("a", "look"), ProcessingTime(100),
             ProcessingTime(200)),
    commands("fires_in_the_order_of_time", "A jump of the clock fires a key's timers in the order of their times.",
             element("a", "timer 30, timer 10, timer 20, timer 40"), ProcessingTime(35), ProcessingTime(40)),
    commands("several_keys_at_one_time", "Timers of one time fire for each key.",
             element("a", "timer 10"), element("b", "timer 10"), element("c", "timer 11"), ProcessingTime(10),
             ProcessingTime(11)),
    commands("registered_twice_fires_once", "A key has one timer per time; a deleted one does not fire.",
             element("a", "timer 10, timer 10, timer 20, delete 20"), element("b", "delete 10"), ProcessingTime(50)),
    commands("from_now", "Timers relative to the clock, which is that of the element.",
             ProcessingTime(1000), element("a", "in 5, in 10"), ProcessingTime(1005), element("b", "in 5"),
             ProcessingTime(1010)),
    commands("registered_by_a_timer", "A timer may set the next one; a jump of the clock fires those that are due.",
             element("a", "every 10 3"), ProcessingTime(10), ProcessingTime(25), ProcessingTime(100),
             mode="thread"),
    commands("both_domains", "A time in both domains is two timers; deleting one leaves the other.",
             element("a", "timer 10, event 10", at=1), element("b", "timer 10, event 10, delete 10", at=1),
             ProcessingTime(10), Watermark(10), needs=("timers", "event time")),
    commands("the_watermark_does_not_fire_them", "A watermark beyond its time does not fire a processing-time timer.",
             element("a", "timer 10", at=1), Watermark(100), ProcessingTime(10), needs=("timers", "event time")),
    commands("end_of_input_does_not_fire_them", "At the end of input pending processing-time timers are dropped.",
             element("a", "timer 10, event 10", at=1), EndOfInput(), needs=("timers", "event time")),
]  # fmt: skip
