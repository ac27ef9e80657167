"""Which columns a function reads is told only where its code shows it beyond doubt."""

import functools
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction
from state_engine.runtime.read_columns import columns_read

NAMES = ("k", "v", "w", "point", "count")


class Reads(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.v > 0 and (twice := 2 * value.v):
            yield value.k, twice
        for _ in range(value.point.x):
            yield value.k, ctx.timestamp()


class Inherits(Reads):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


class ReadsNothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [(ctx.get_current_key(),)]


class CapturesInAList(KeyedProcessFunction):
    def process_element(self, record: Any, context: Any) -> Any:
        return [(record.k, sum([item + record.v for item in (1, 2)]))]


class YieldsIt(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k, value


class PassesItOn(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.helped(value), value.k

    def helped(self, value: Any) -> Any:
        return value.w


class KeepsIt(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        kept = value
        yield kept.w, value.k


class Captures(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (lambda: value.w)(), value.k


class CallsAMethod(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.as_dict(), value.k


class TakesItByName(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield getattr(value, "w"), value.k  # noqa: B009


class TakesItByPosition(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0], value.k


class Assigns(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        value = ctx.change(value)
        yield value.k


class Changes(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        value.k = "new"
        yield value.k


class Deletes(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        key = value.k
        del value
        yield key


class LooksAtItsFrame(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k, locals()


class ReadsAnUnknownOne(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k, value.nothing


class TakesAnything(KeyedProcessFunction):
    def process_element(self, *both: Any) -> Any:
        yield both[0].k


def decorated(method: Any) -> Any:
    @functools.wraps(method)
    def called(self: Any, value: Any, ctx: Any) -> Any:
        return method(self, value, ctx)

    return called


class Decorated(KeyedProcessFunction):
    @decorated
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k


@pytest.mark.parametrize(
    ("function", "columns"), [(Reads, {"k", "v", "point"}), (ReadsNothing, set()), (Inherits, {"k", "v", "point"})]
)
def test_columns_that_are_read_as_attributes_are_told(function: Any, columns: set[str]) -> None:
    assert columns_read(function().process_element, NAMES) == columns


@pytest.mark.parametrize(
    "function",
    [
        CapturesInAList, YieldsIt, PassesItOn, KeepsIt, Captures, CallsAMethod, TakesItByName, TakesItByPosition,
        Assigns, Changes, Deletes, LooksAtItsFrame, ReadsAnUnknownOne, TakesAnything, Decorated,
    ],
)  # fmt: skip
def test_of_any_other_function_nothing_is_told(function: Any) -> None:
    assert columns_read(function().process_element, NAMES) is None


def test_of_what_is_no_method_nothing_is_told() -> None:
    instance = Reads()
    instance.process_element = lambda value, ctx: [value.k]  # type: ignore[method-assign]
    assert columns_read(instance.process_element, NAMES) is None
    assert columns_read(functools.partial(Reads().process_element), NAMES) is None
    assert columns_read(print, NAMES) is None
