"""Broadcast state: written by the broadcast side, read by the other, with and without key."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, Watermark, element
from scenario_api import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)

NEEDS = ("broadcast state",)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHER = MapStateDescriptor("other", Types.STRING(), Types.STRING())


def change(state: Any, value: Any) -> None:
    """A rule of -1 is removed, `*` with -1 clears all."""
    if value.v != -1:
        state.put(value.k, value.v)
    elif value.k == "*":
        state.clear()
    else:
        state.remove(value.k)


class Keyed(KeyedBroadcastProcessFunction):
    """Counts per key, and shows the rules; a timer shows them later."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        rules = ctx.get_broadcast_state(RULES)
        if value.v:
            ctx.timer_service().register_event_time_timer(value.v)
        seen = f"rule {rules.get(value.k)} {rules.contains(value.k)} of {sorted(rules.items())}"
        yield Row(ctx.get_current_key(), f"{number}. {seen}, watermark {ctx.current_watermark()}")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        change(rules, value)
        yield Row("rules", f"{sorted(rules.items())} at {ctx.timestamp()}, watermark {ctx.current_watermark()}")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield Row(ctx.get_current_key(), f"timer {timestamp}, {self.count.value()}, {sorted(rules.items())}")


class ToSide(KeyedBroadcastProcessFunction):
    """Both sides emit to a side output; one changes the rules, the other the count."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SIDE, Row(ctx.get_current_key(), ctx.get_broadcast_state(RULES).get(value.k))
        yield Row(ctx.get_current_key(), f"element at {ctx.timestamp()}")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        before = rules.get(value.k)
        rules.put(value.k, value.v)
        yield SIDE, Row(value.k, before)


class Plain(BroadcastProcessFunction):
    """Two broadcast states, without key."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules, other = ctx.get_broadcast_state(RULES), ctx.get_broadcast_state(OTHER)
        yield Row(value.k, f"{value.v}: {sorted(rules.keys())} {sorted(rules.values())} {sorted(other.items())}")

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        change(ctx.get_broadcast_state(RULES), value)
        ctx.get_broadcast_state(OTHER).put("last", value.k)


SIDE = OutputTag("side", Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()]))


def rule(key: str, v: int, at: int | None = None) -> Any:
    return element(key, v, at=at, input=2)


STEPS = [element("a", 0, at=1), rule("a", 5, at=2), element("a", 0, at=3), element("b", 0, at=4), rule("b", 7, at=5),
         rule("a", 6, at=6), element("a", 0, at=7), rule("a", -1, at=8), element("a", 0, at=9), rule("*", -1, at=10),
         element("b", 0, at=11)]  # fmt: skip


def scenario(name: str, about: str, make: Any, steps: Any, *, key: str | None = "k", tags: Any = (),
             descriptors: Any) -> Scenario:  # fmt: skip
    operation = Operation("broadcast", make, {"descriptors": lambda: descriptors})
    return Scenario(name, about, operation, steps, input2="k string, v bigint", key=key, side_outputs=tags,
                    needs=NEEDS)  # fmt: skip


SCENARIOS = [
    scenario("keyed_reads_the_rules", "Every key reads what the broadcast side wrote; its own state is beside it.",
             Keyed, STEPS, descriptors=[RULES]),
    scenario("side_outputs_of_both_sides", "Elements and rules may give to side outputs.", ToSide, STEPS, tags=(SIDE,),
             descriptors=[RULES]),
    scenario("without_key_two_states", "Two broadcast states on a stream without key.", Plain, STEPS, key=None,
             descriptors=[RULES, OTHER]),
    scenario("a_timer_reads_the_rules", "A timer waits for the watermarks of both inputs, and reads the rules of then.",
             Keyed, [element("a", 10, at=1), rule("a", 1, at=1), Watermark(20), rule("a", 2, at=2), Watermark(10, 2),
                     rule("a", 3, at=30)], descriptors=[RULES]),
]  # fmt: skip
