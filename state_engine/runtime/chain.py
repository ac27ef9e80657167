"""Runs several functions one after the other in one operator, as Flink chains operators."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from state_engine.api.functions import Function
from state_engine.errors import JobDefinitionError
from state_engine.iterating import whole
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.co_adapters import CoAdapter
from state_engine.runtime.emitted import TimedRows
from state_engine.runtime.outputs import is_tagged
from state_engine.serialization.copies import copied

Emitted = Iterable[Any] | None
Call = Callable[[Any, Any], Emitted]


class ChainAdapter(Adapter):
    """Passes the rows of each function to the next one; only the rows of the last function leave the operator.

    Rows between two functions stay in the process and need no type. They are copied, as between Flink's chained
    operators: if one function changes a row later, no other function sees it. (Objects of classes that `copied` does
    not know are not copied.) Only the first function can have side outputs; their rows skip the other functions.

    Args:
        links: Any function that an operator runs, then adapters of `map`, `flat_map` and `filter`.
    """

    def __init__(self, links: Sequence[Any]) -> None:
        self._links = tuple(links)
        self.verb = getattr(links[0], "verb", "process")
        first = links[0]
        self.function = first.function if isinstance(first, (Adapter, CoAdapter)) else first

    @property
    def argument(self) -> str:
        first = self._links[0]
        first_name = first.argument if isinstance(first, Adapter) else type(first).__name__
        return " -> ".join([first_name, *map(_named, self._links[1:])])

    def open(self, runtime_context: Any) -> None:
        first, *others = self._links
        first.open(runtime_context)
        without_state: Any = WithoutState(runtime_context)
        for link in others:
            link.open(without_state)
        self._others = [link.process_element for link in others]
        self._calls = _calls_of(first)

    def finish(self) -> Emitted:
        """Passes the last rows of each function to the next one, then finishes that one, down the chain."""
        rows: list[Any] = [copied(row) for row in whole(self._links[0].finish() or ())]
        for link in self._links[1:]:
            rows = [*_passed(rows, link.process_element, None), *(copied(row) for row in whole(link.finish() or ()))]
        return rows

    def close(self) -> None:
        for link in self._links:
            link.close()

    def process_element(self, value: Any, ctx: Any) -> Emitted:
        return self._pass_on(self._calls["process_element"](value, ctx), ctx)

    def process_element1(self, value: Any, ctx: Any) -> Emitted:
        """Processes a record of input 1."""
        return self._pass_on(self._calls["process_element1"](value, ctx), ctx)

    def process_element2(self, value: Any, ctx: Any) -> Emitted:
        """Processes a record of input 2."""
        return self._pass_on(self._calls["process_element2"](value, ctx), ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Emitted:
        """Fires a timer."""
        return self._pass_on(self._calls["on_timer"](timestamp, ctx), ctx)

    def _pass_on(self, emitted: Emitted, ctx: Any) -> Emitted:
        if emitted is not None and not isinstance(emitted, TimedRows):
            emitted = (copied(row) for row in whole(emitted))
        for process in self._others:
            if emitted is None:
                return None
            emitted = _passed(emitted, process, ctx)
        return emitted


def _calls_of(first: Any) -> dict[str, Call]:
    names = ("process_element", "process_element1", "process_element2", "on_timer")
    return {name: getattr(first, name) for name in names if hasattr(first, name)}


def _passed(given: Iterable[Any], process: Call, ctx: Any) -> Iterable[Any]:
    if isinstance(given, TimedRows):
        timed = TimedRows()
        for record, time in zip(given, given.times, strict=True):
            timed.add([copied(row) for row in _one_passed(record, process, ctx)], time)
        return timed
    return [copied(made) for record in whole(given) for made in _one_passed(record, process, ctx)]


def _one_passed(record: Any, process: Call, ctx: Any) -> Iterable[Any]:
    return (record,) if is_tagged(record) else whole(process(record, ctx) or ())


class WithoutState:
    """A runtime context without keyed state: for functions after a keyed one in a chain."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_state"):
            raise JobDefinitionError(
                "A function after a keyed operator asked for a keyed state, but its stream has no key.",
                action="Call key_by(...) before it.",
            )
        return getattr(self._context, name)


def _named(link: Function) -> str:
    return f"{link.verb}({link.argument})" if isinstance(link, Adapter) else type(link).__name__


def itself(record: Any) -> Any:
    """Returns the record: the function of an identity operator between a source and its sinks."""
    return record


class Projection:
    """The function of `project`: returns a tuple of some fields."""

    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes

    def __call__(self, element: Any) -> tuple[Any, ...]:
        values = tuple(whole(element))
        return tuple(values[n] for n in self._indexes)


__all__ = ["ChainAdapter", "Projection", "itself"]
