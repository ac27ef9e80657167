"""Time to live: effects of update types and visibilities, per value, per element of a list, per entry of a map.

Recorded in thread mode, which reads Flink's state each time: process mode returns what its worker has cached.
"""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, ProcessingTime, Scenario, element
from scenario_api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

INPUT = "k string, do string"
NEEDS = ("time to live",)
TTL = 100


def written() -> Any:
    """The defaults, spelled out: writing renews, and expired values are never returned."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    return builder.update_ttl_on_create_and_write().never_return_expired().build()


def read() -> Any:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    return builder.update_ttl_on_read_and_write().never_return_expired().build()


def kept() -> Any:
    """Expired values are returned until something cleans them up, which nothing does in the background."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    return builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()


def read_and_kept() -> Any:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).update_ttl_on_read_and_write()
    return builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return f"total {accumulator}"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Commands(KeyedProcessFunction):
    """Does what the record says to a state of one kind that expires."""

    def __init__(self, kind: str, config: Any) -> None:
        self.kind = kind
        self.config = config

    def open(self, runtime_context: Any) -> None:
        descriptor = {
            "value": lambda: ValueStateDescriptor("s", Types.LONG()),
            "list": lambda: ListStateDescriptor("s", Types.LONG()),
            "map": lambda: MapStateDescriptor("s", Types.STRING(), Types.LONG()),
            "reducing": lambda: ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()),
            "aggregating": lambda: AggregatingStateDescriptor("s", Total(), Types.LONG()),
        }[self.kind]()
        descriptor.enable_time_to_live(self.config())
        ask = {"value": "get_state"}.get(self.kind, f"get_{self.kind}_state")
        self.state = getattr(runtime_context, ask)(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            arguments = [int(text) if text.isdigit() else text for text in given]
            if verb in ("add", "clear", "remove", "put"):
                getattr(self.state, verb)(*arguments)
            elif verb == "update":
                self.state.update(arguments if self.kind == "list" else arguments[0])
            else:
                found = getattr(self.state, verb)(*arguments)
                if verb in ("items", "keys", "values"):
                    found = sorted(found)
                yield Row(ctx.get_current_key(), f"{list(found) if self.kind == 'list' else found}")


def expiring(name: str, about: str, kind: str, config: Any, *script: Any) -> Scenario:
    """A number in the script sets the clock, a text is a command of a record of key `a`; a pair names another key."""
    steps = [ProcessingTime(step) if isinstance(step, int) else
             element(*step) if isinstance(step, tuple) else element("a", step) for step in script]  # fmt: skip
    operation = Operation("process", lambda: Commands(kind, config))
    return Scenario(name, about, operation, steps, input=INPUT, needs=NEEDS, mode="thread")


SCENARIOS = [
    expiring("value_until_its_time", "A value is there until ttl has passed since it was written.",
             "value", written, "update 1", 99, "value", 100, "value", 101, "value"),
    expiring("value_writing_renews", "Writing renews, with the same value, too; reading does not.",
             "value", written, "update 1", 60, "value, update 1", 120, "value", 159, "value", 160, "value"),
    expiring("value_reading_renews", "Reading renews with update_ttl_on_read_and_write.",
             "value", read, "update 1", 60, "value", 120, "value", 180, "value", 280, "value"),
    expiring("value_per_key", "Each key has its own time.", "value", written, ("a", "update 1"), 50, ("b", "update 2"),
             100, ("a", "value"), ("b", "value"), 150, ("b", "value")),
    expiring("value_written_anew", "An expired value can be written anew, and lives a whole ttl.",
             "value", written, "update 1", 200, "value, update 2", 299, "value", 300, "value"),
    expiring("value_expired_is_returned", "return_expired_if_not_cleaned_up gives an expired value, at least once.",
             "value", kept, "update 1", 100, "value", "value"),
    expiring("list_per_element", "Elements of a list expire one by one.", "list", written, "add 1", 50, "add 2", 99,
             "get", 100, "get", 149, "get", 150, "get"),
    expiring("list_update_renews_all", "update gives all elements the time of the call.", "list", written,
             "add 1", 50, "add 2", 60, "update 3 4", 155, "get", 160, "get"),
    expiring("list_reading_renews_all", "Reading renews the elements that are left.", "list", read,
             "add 1", 50, "add 2", 100, "get", 190, "get", 290, "get"),
    expiring("map_per_entry", "Entries of a map expire one by one, in every view.", "map", written,
             "put x 1", 50, "put y 2", 100, "get x, contains x, get y, keys, items, values, is_empty", 150,
             "keys, get y"),
    expiring("map_reading_one_entry_renews_it", "Reading an entry renews that entry only.", "map", read,
             "put x 1, put y 2", 60, "get x", 120, "get x, get y", 180, "contains x", 240, "get x"),
    expiring("map_writing_one_entry_renews_it", "Writing an entry renews that entry only.", "map", written,
             "put x 1, put y 2", 60, "put x 3", 100, "get x, get y", 160, "get x"),
    expiring("reducing", "What was reduced expires as a whole; adding renews it and starts anew behind it.",
             "reducing", written, "add 1", 60, "add 2, get", 159, "get", 160, "get, add 5, get", 300, "add 7, get"),
    expiring("aggregating", "The accumulator expires as a whole; adding renews it and starts anew behind it.",
             "aggregating", written, "add 1", 60, "add 2, get", 159, "get", 160, "get, add 5, get", 300, "add 7, get"),
    expiring("value_read_and_kept", "Reading an expired value that is returned renews it, or not.",
             "value", read_and_kept, "update 1", 50, "value", 149, "value", 260, "value", "value"),
    expiring("cleared_before_its_time", "clear() takes a value, an expired one, too.", "value", written,
             "update 1", 50, "clear, value", 60, "update 2", 200, "clear, value, update 3, value"),
]  # fmt: skip
