"""Commands to an operator, and the one function that executes them: on states of the engine and on plain ones alike.

A command is a method of a state, of the timer service, or of an operator state, with its arguments. `obey` uses only
these objects, so it must return the same for those of the engine and for those in plain Python.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from state_engine.testing.state_folding_suite import Adding, Mean

TTL = 3
SHAPES = ("value", "list", "map", "sum", "mean")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NOTES = ListStateDescriptor("notes", Types.LONG())
UNION = ListStateDescriptor("union", Types.LONG())
INPUT = "k bigint, space string, call string, arguments string"
BROADCAST = "call string, arguments string"
OUTPUT = "k bigint, saw string"


@dataclass(frozen=True)
class Ttl:
    """Settings of a time to live of `TTL` ms.

    Attributes:
        event: Whether it goes by event time.
        reads: Whether reading renews.
        returns: Whether an expired value is read as long as it exists.
        cleanup: What removes expired values, besides reads: `none`, `full`, `each`, `records` or `default`.
    """

    event: bool
    reads: bool
    returns: bool
    cleanup: str

    @property
    def incremental(self) -> bool:
        """Whether values without a reader are cleaned up too, in an order that is not defined."""
        return self.cleanup in ("each", "records", "default")

    def config(self) -> StateTtlConfig:
        """Returns it as an author configures it."""
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
        builder = builder.use_event_time() if self.event else builder
        builder = builder.update_ttl_on_read_and_write() if self.reads else builder
        builder = builder.return_expired_if_not_cleaned_up() if self.returns else builder
        match self.cleanup:
            case "none":
                builder = builder.disable_cleanup_in_background()
            case "full":
                builder = builder.disable_cleanup_in_background().cleanup_full_snapshot()
            case "each":
                builder = builder.cleanup_incrementally(2, False)
            case "records":
                builder = builder.cleanup_incrementally(1, True)
        return builder.build()


def ttls(*, event: bool) -> st.SearchStrategy[Ttl]:
    """Settings by one clock. A read of an expired value has a known result only if nothing else removes the value."""
    cleanups = st.sampled_from(["none", "full", "each", "records", "default"])
    return st.one_of(
        st.builds(Ttl, st.just(event), st.booleans(), st.just(True), st.just("none")),
        st.builds(Ttl, st.just(event), st.booleans(), st.just(False), cleanups),
    )


def names_of(shape: str) -> list[str]:
    """Returns the names of three states: without a time to live, with one by processing time and by event time."""
    return [shape, f"{shape}_p", f"{shape}_e"]


def keyed_states(names: Iterable[str], by_clock: Ttl, by_event: Ttl) -> dict[str, tuple[StateDescriptor, Ttl | None]]:
    """Returns states by their names: `list` has no time to live, `list_p` the first one, `list_e` the second."""
    states: dict[str, tuple[StateDescriptor, Ttl | None]] = {}
    for name in names:
        shape, _, suffix = name.partition("_")
        descriptor, ttl = _descriptor(shape, name), {"": None, "p": by_clock, "e": by_event}[suffix]
        if ttl is not None:
            descriptor.enable_time_to_live(ttl.config())
        states[name] = descriptor, ttl
    return states


def _descriptor(shape: str, name: str) -> StateDescriptor:
    match shape:
        case "value":
            return ValueStateDescriptor(name, Types.LIST(Types.LONG()))
        case "list":
            return ListStateDescriptor(name, Types.LONG())
        case "map":
            return MapStateDescriptor(name, Types.STRING(), Types.LONG())
        case "sum":
            return ReducingStateDescriptor(name, Adding(), Types.LONG())
    return AggregatingStateDescriptor(name, Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))


# Execution ----------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """The command `fail` was executed."""


class Port(Protocol):
    """The objects that commands reach: states by name, also operator states, and the timers of the current key."""

    states: Mapping[str, Any]

    def timer_service(self) -> Any: ...


def obey(port: Port, call: str, arguments: list[Any]) -> str:
    """Executes a command; returns its result as text."""
    if call == "fail":
        raise Failed
    name, method = call.split(".")
    subject = port.timer_service() if name == "timers" else port.states[name]
    return _shown(getattr(subject, method)(*arguments), ordered=method != "items")


def on_timer(port: Port, at: int, domain: TimeDomain) -> str:
    """Runs a timer: it reads the clocks, reads or writes states, and sets or deletes other timers."""
    timers = port.timer_service()
    clocks = f"{domain.name} {at} of {timers.current_processing_time()} and {timers.current_watermark()}"
    keyed = [name for name in port.states if _shape(name) in SHAPES]
    calls: list[tuple[str, list[Any]]]
    match at % 5:
        case 0:
            calls = [(read, []) for read in reads_of(keyed)]
        case 1:
            written = {"value": ("update", [[at]]), "list": ("add", [at]), "map": ("put", ["x", at])}
            calls = [(f"{name}.{m}", a) for name in keyed for m, a in [written.get(_shape(name), ("add", [at]))]]
        case 2 if domain is TimeDomain.EVENT_TIME:
            calls = [("timers.register_event_time_timer", [at + 2])]
        case 2:
            calls = [("timers.register_processing_time_timer", [at + 1])]
        case 3:
            calls = [("timers.delete_event_time_timer", [at + 1]), ("timers.delete_processing_time_timer", [at + 1])]
        case _:
            calls = [("notes.add", [at]), ("notes.get", []), ("rules.items", [])]
    return " ".join([clocks, *(obey(port, call, arguments) for call, arguments in calls)])


def _shown(found: Any, *, ordered: bool) -> str:
    if isinstance(found, Iterator) or not ordered:
        found = list(found)
    shown = repr(found if ordered else sorted(found, key=repr))
    if isinstance(found, list):
        found.append(-1)  # no other object may share this list
    return shown


# Commands -----------------------------------------------------------------------------------------------------------

small = st.integers(0, 3)
texts = st.sampled_from(["", "x", "y"])
nullable = st.one_of(st.none(), small)
several = st.lists(small, max_size=2).map(lambda found: [found])
none = st.just([])


def one(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return strategy.map(lambda found: [found])


OF_SHAPE: dict[str, dict[str, st.SearchStrategy[list[Any]]]] = {
    "value": {"update": one(st.one_of(st.none(), st.lists(small, max_size=2))), "value": none},
    "list": {"add": one(nullable), "add_all": several, "update": several, "get": none},
    "map": {
        "put": st.tuples(st.one_of(st.none(), texts), nullable).map(list),
        "put_all": one(st.dictionaries(texts, nullable, max_size=2)),
        "remove": one(texts),
        "get": one(texts),
        "contains": one(texts),
        "items": none,
        "is_empty": none,
    },
    "sum": {"add": one(small), "get": none},
    "mean": {"add": one(small), "get": none},
}
READS = {
    "value": ["value"],
    "list": ["get"],
    "map": ["is_empty", "items"],
    "sum": ["get"],
    "mean": ["get"],
}
OPERATOR = {
    **{f"{name}.{method}": arguments for name in ("notes", "union") for method, arguments in OF_SHAPE["list"].items()},
    "rules.items": none,
}
TIMERS = [f"timers.{verb}_{clock}_time_timer" for verb in ("register", "delete") for clock in ("event", "processing")]
BROADCASTS: dict[str, st.SearchStrategy[list[Any]]] = {
    "rules.put": st.tuples(texts, small).map(list),
    "rules.remove": one(texts),
    "rules.clear": none,
    "notes.add": one(small),
}
KEYS = [1, 2, None]
SPACES = [None, "w"]  # a window is a namespace
broadcasts = st.lists(
    st.sampled_from(sorted(BROADCASTS)).flatmap(lambda call: st.tuples(st.just(call), BROADCASTS[call])), max_size=2
)


def reads_of(names: Iterable[str]) -> list[str]:
    """Returns commands that read everything in some states."""
    return [f"{name}.{method}" for name in names for method in READS[_shape(name)]]


def batches(names: Iterable[str]) -> st.SearchStrategy[list[Any]]:
    """Batches of (key, namespace, (call, arguments), time relative to the present) for states, timers and lists."""
    of_states = {
        f"{name}.{method}": arguments
        for name in names
        for method, arguments in {**OF_SHAPE[_shape(name)], "clear": none}.items()
    }
    of_state = st.sampled_from(sorted(of_states)).flatmap(lambda call: st.tuples(st.just(call), of_states[call]))
    of_operator = st.sampled_from(sorted(OPERATOR)).flatmap(lambda call: st.tuples(st.just(call), OPERATOR[call]))
    of_timers = st.tuples(st.sampled_from(TIMERS), one(st.integers(-2, 4)))
    call = st.one_of(of_state, of_state, of_state, of_timers, of_operator)
    return st.lists(
        st.tuples(st.sampled_from(KEYS), st.sampled_from([None, *SPACES]), call, st.integers(-2, 2)), max_size=12
    )


def _shape(name: str) -> str:
    return name.partition("_")[0]
