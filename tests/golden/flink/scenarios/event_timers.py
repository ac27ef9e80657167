"""Event-time timers: when they fire, for which key, and what they see then."""

from collections.abc import Iterator
from typing import Any

from scenario import EndOfInput, Operation, Scenario, Watermark, element
from scenario_api import KeyedProcessFunction, OutputTag, Row, Types, ValueStateDescriptor

INPUT = "k string, do string"
SIDE = OutputTag("side", Types.ROW_NAMED(["k", "t"], [Types.STRING(), Types.LONG()]))
NEEDS = ("event time",)


class Commands(KeyedProcessFunction):
    """Does what the record says: `look`, `timer 10`, `delete 10`, `again 10 5 3` (a timer that sets up to 3 more)."""

    def open(self, runtime_context: Any) -> None:
        self.note = runtime_context.get_state(ValueStateDescriptor("note", Types.STRING()))
        self.steps = runtime_context.get_state(ValueStateDescriptor("steps", Types.LONG()))
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            numbers = [int(number) for number in given if number.lstrip("-").isdigit()]
            if verb == "look":
                yield Row(
                    ctx.get_current_key(), f"element at {ctx.timestamp()}, watermark {timers.current_watermark()}"
                )
            elif verb == "timer":
                timers.register_event_time_timer(numbers[0])
            elif verb == "delete":
                timers.delete_event_time_timer(numbers[0])
            elif verb == "again":
                timers.register_event_time_timer(numbers[0])
                self.steps.update(numbers[1])
                self.left.update(numbers[2])
            elif verb == "note":
                self.note.update(given[0])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        yield Row(
            ctx.get_current_key(),
            f"timer {timestamp} at {ctx.timestamp()}, {ctx.time_domain().name}, "
            f"watermark {timers.current_watermark()}, note {self.note.value()}",
        )
        self.note.update(f"after {timestamp}")
        left = self.left.value()
        if left:
            self.left.update(left - 1)
            timers.register_event_time_timer(timestamp + self.steps.value())


class DeletesOther(KeyedProcessFunction):
    """The timer at 10 deletes the one at 20 and sets one at 5; side outputs come from timers, too."""

    def process_element(self, value: Any, ctx: Any) -> None:
        for t in (20, 10, 30):
            ctx.timer_service().register_event_time_timer(t)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield SIDE, Row(ctx.get_current_key(), timestamp)
        yield Row(ctx.get_current_key(), f"timer {timestamp}")
        if timestamp == 10:
            ctx.timer_service().delete_event_time_timer(20)
            ctx.timer_service().register_event_time_timer(5)


def commands(name: str, about: str, *steps: Any, mode: str = "process") -> Scenario:
    return Scenario(name, about, Operation("process", Commands), steps, input=INPUT, needs=NEEDS, mode=mode)


SCENARIOS = [
    commands("what_an_element_sees", "An element has its timestamp and the watermark before it; late ones, too.",
             element("a", "look", at=5), Watermark(10), element("a", "look", at=20), element("a", "look", at=3),
             element("b", "look", at=10), Watermark(30), element("b", "look", at=30)),
    commands("an_element_without_timestamp", "What ctx.timestamp() gives where a record has none.",
             element("a", "look"), Watermark(10), element("a", "look")),
    commands("fires_at_the_watermark", "A timer fires when the watermark reaches its time, not before, and once.",
             element("a", "timer 10", at=1), Watermark(9), Watermark(10), Watermark(11), Watermark(20)),
    commands("fires_in_the_order_of_time", "One watermark fires a key's timers in the order of their times.",
             element("a", "timer 30, timer 10, timer 20, timer 40", at=1), Watermark(35), Watermark(40)),
    commands("several_keys_at_one_time", "Timers of one time fire for each key, with its own state.",
             element("a", "note of-a, timer 10", at=1), element("b", "note of-b, timer 10", at=1),
             element("c", "note of-c, timer 11", at=1), Watermark(10), Watermark(11)),
    commands("registered_twice_fires_once", "A key has one timer per time.",
             element("a", "timer 10, timer 10", at=1), element("a", "timer 10", at=2), Watermark(10), Watermark(20)),
    commands("deleted_does_not_fire", "A deleted timer does not fire; deleting what is not there is fine.",
             element("a", "timer 10, timer 20, delete 10", at=1), element("b", "timer 10, delete 11", at=1),
             element("a", "delete 99", at=1), Watermark(30)),
    commands("deleted_and_registered_again", "Deleting and registering anew in one call leaves one timer.",
             element("a", "timer 10, delete 10, timer 10", at=1), Watermark(10)),
    commands("of_another_key_is_not_deleted", "A key deletes its own timers only.",
             element("a", "timer 10", at=1), element("b", "delete 10", at=1), Watermark(10)),
    commands("registered_in_the_past", "A timer at or before the watermark fires with the next watermark.",
             Watermark(50), element("a", "timer 10, timer 50", at=60), Watermark(51), Watermark(52)),
    commands("registered_in_the_past_with_elements", "It waits for the watermark while elements come.",
             Watermark(50), element("a", "timer 10", at=60), element("a", "look", at=59), Watermark(51)),
    commands("registered_by_a_timer", "A timer may set the next one; those that are due fire with the same watermark.",
             element("a", "again 10 5 3", at=1), Watermark(21), Watermark(100), mode="thread"),
    commands("fires_again_after_it_fired", "After it fired, the same time can be registered again.",
             element("a", "timer 10", at=1), Watermark(10), element("a", "timer 10", at=11), Watermark(11)),
    commands("end_of_input_fires_all", "At the end the watermark is 2^63-1 and fires all timers.",
             element("a", "timer 10, timer 9223372036854775806", at=1), element("b", "timer 9223372036854775807", at=1),
             Watermark(5), EndOfInput()),
    commands("negative_times", "Times before 1970 are times.",
             element("a", "timer -10, timer 0, look", at=-20), Watermark(-10), Watermark(-1), Watermark(0)),
    commands("state_between_element_and_timer", "Timer and element of a key share its state.",
             element("a", "note x, timer 10", at=1), Watermark(10), element("a", "timer 20", at=12), Watermark(20)),
    Scenario("a_timer_deletes_another", "on_timer may delete a timer that is due, and set one that is due already.",
             Operation("process", DeletesOther), [element("a", "", at=1), element("b", "", at=1), Watermark(40)],
             input=INPUT, side_outputs=(SIDE,), needs=NEEDS, mode="thread"),
]  # fmt: skip
