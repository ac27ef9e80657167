"""Every kind of state with a time to live, so that one test can cover all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.log.ops import Op
from state_engine.testing.state_folding_suite import Adding, Mean
from state_engine.testing.state_harness import StateHarness

DescriptorT = TypeVar("DescriptorT", bound=StateDescriptor)
Logged = list[tuple[Op, Any, int | None]]

TTL = 100
START = 1_000_000
"""Processing time and watermark at which tests begin, in ms."""


@dataclass(frozen=True)
class TtlCase:
    """One kind of state.

    Attributes:
        make: Creates its descriptor, without a time to live.
        write: Writes a number to the state.
        read: Reads the state.
        expected: Returns what `read` returns after these numbers were written, if none has expired.
        empty: What `read` returns for an empty state.
        looks_twice: Whether `read` reads the same value more than once.
    """

    make: Callable[[], StateDescriptor]
    write: Callable[[Any, int], None]
    read: Callable[[Any], Any]
    expected: Callable[[Sequence[int]], Any]
    empty: Any = None
    looks_twice: bool = False

    def describe(self, config: StateTtlConfig | None) -> StateDescriptor:
        """Returns the descriptor with these settings."""
        return with_ttl(self.make(), config)

    def check(self, state: Any, *written: int) -> None:
        """Asserts that the state contains these numbers; without numbers, that it is empty."""
        expected = self.expected(written) if written else self.empty
        assert self.read(state) == expected, f"{type(state).__name__} does not read as {expected!r}"

    def check_once(self, state: Any, *written: int) -> None:
        """Asserts that the first read returns an expired value, and that the value is then removed."""
        if not self.looks_twice:
            self.check(state, *written)
        else:
            self.read(state)
        self.check(state)


def _last(numbers: Sequence[int]) -> int:
    return numbers[-1]


CASES: dict[str, TtlCase] = {
    "value": TtlCase(
        lambda: ValueStateDescriptor("s", Types.LONG()), lambda s, n: s.update(n), lambda s: s.value(), _last
    ),
    "value that can change": TtlCase(
        lambda: ValueStateDescriptor("s", "array<bigint>"),
        lambda s, n: s.update([n]),
        lambda s: s.value(),
        lambda numbers: [numbers[-1]],
    ),
    "list": TtlCase(
        lambda: ListStateDescriptor("s", Types.STRING()),
        lambda s, n: s.update([str(n), "x"]),
        lambda s: list(s.get()),
        lambda numbers: [str(numbers[-1]), "x"],
        [],
    ),
    "map": TtlCase(
        lambda: MapStateDescriptor("s", Types.STRING(), Types.LONG()),
        lambda s, n: s.put_all({"x": n, "y": -n}),
        lambda s: dict(s.items()),
        lambda numbers: {"x": numbers[-1], "y": -numbers[-1]},
        {},
    ),
    "entry of a map": TtlCase(
        lambda: MapStateDescriptor("s", Types.STRING(), Types.LONG()),
        lambda s, n: s.put("x", n),
        lambda s: s.get("x"),
        _last,
    ),
    "null in a map": TtlCase(
        lambda: MapStateDescriptor("s", "struct<a:int>", Types.LONG()),
        lambda s, n: s.put((7,), None),
        lambda s: (s.contains((7,)), s.get((7,))),
        lambda numbers: (True, None),
        (False, None),
        looks_twice=True,
    ),
    "reducing": TtlCase(
        lambda: ReducingStateDescriptor("s", Adding(), Types.LONG()), lambda s, n: s.add(n), lambda s: s.get(), sum
    ),
    "aggregating": TtlCase(
        lambda: AggregatingStateDescriptor("s", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
        lambda s, n: s.add(n),
        lambda s: s.get(),
        lambda numbers: sum(numbers) / len(numbers),
    ),
}


def lives(ttl: int = TTL) -> StateTtlConfig.Builder:
    """Returns a builder without clean-up in the background."""
    return StateTtlConfig.new_builder(Time.milliseconds(ttl)).disable_cleanup_in_background()


def after(harness: StateHarness, ms: int) -> StateHarness:
    """Sets the processing time to `ms` after the start."""
    harness.time.processing_time = START + ms
    return harness


def sealed(harness: StateHarness, restore: bool) -> StateHarness:
    """Ends the epoch; returns the harness, or with `restore` a new one on the same log."""
    harness.seal()
    return harness.reopened() if restore else harness


def count(config: StateTtlConfig | None) -> ValueStateDescriptor:
    """Returns a value state with these settings."""
    return with_ttl(ValueStateDescriptor("count", Types.LONG()), config)


def tags(config: StateTtlConfig | None) -> ListStateDescriptor:
    """Returns a list state with these settings."""
    return with_ttl(ListStateDescriptor("tags", Types.STRING()), config)


def routes(config: StateTtlConfig | None) -> MapStateDescriptor:
    """Returns a map state with these settings."""
    return with_ttl(MapStateDescriptor("routes", Types.STRING(), Types.LONG()), config)


def with_ttl(descriptor: DescriptorT, config: StateTtlConfig | None) -> DescriptorT:
    """Returns the descriptor with these settings."""
    if config is not None:
        descriptor.enable_time_to_live(config)
    return descriptor


def logged(rows: dict[str, list[dict[str, Any]]]) -> Logged:
    """Returns the logged rows of the only state with changes: op, value, and last access in ms after the start."""
    if not rows:
        return []
    (only,) = rows.values()
    accesses = [row["last_access"] for row in only]
    times = [None if access is None else access - START for access in accesses]
    return [(Op(row["op"]), row["value"], time) for row, time in zip(only, times, strict=True)]


__all__ = [
    "CASES",
    "START",
    "TTL",
    "Logged",
    "TtlCase",
    "after",
    "count",
    "lives",
    "logged",
    "routes",
    "sealed",
    "tags",
    "with_ttl",
]
