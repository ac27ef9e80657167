"""How the elements of a window are kept, and what the window's function gets.

Elements are reduced or aggregated as they come, if the author declares it; else they are kept as a list. With an
evictor, which sees each element, they are always kept as a list, with their event times.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from state_engine.api.descriptors import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor
from state_engine.api.functions import AggregateFunction, ReduceFunction
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType, TypeInformation
from state_engine.api.windows import Evictor, TimestampedValue, Window
from state_engine.backends.keys import KeyContext
from state_engine.runtime.windows.contexts import WindowEvictorContext
from state_engine.runtime.windows.states import MergeableAggregatingState, merge_entries
from state_engine.serialization.copies import copied

CONTENTS = "window-contents"
"""Name of the state."""

Call = Callable[[list[Any]], Iterable[Any]]
"""Calls the window's function; the current entry is the same afterwards."""


class WindowContents(ABC):
    """The elements of the current key and window.

    Attributes:
        adding: The object whose `add` takes an element. It is the state itself where possible: the call is per record.
    """

    _state: Any
    adding: Any

    @abstractmethod
    def open(self, context: Any) -> None:
        """Gets the state from an operator's context."""

    @abstractmethod
    def fire(self, window: Window, call: Call) -> Iterable[Any]:
        """Calls the function with the elements, unless there are none, and returns its rows."""

    def clear(self) -> None:
        """Drops the elements."""
        self._state.clear()

    def merge(self, keys: KeyContext, target: Any, sources: Sequence[Any]) -> None:
        """Moves elements from several entries to one."""
        merge_entries(self._state, keys, target, sources)


class ListContents(WindowContents):
    """All elements, in the order in which they came.

    Args:
        columns: Columns of the records.
    """

    def __init__(self, columns: TypeInformation) -> None:
        self._columns = columns

    def open(self, context: Any) -> None:
        self._state = context.get_list_state(ListStateDescriptor(CONTENTS, self._columns))
        self.adding = self._state

    def fire(self, window: Window, call: Call) -> Iterable[Any]:
        elements = list(self._state.get())
        return call(elements) if elements else ()


class ReducedContents(WindowContents):
    """The record to which the elements were reduced.

    Args:
        function: Reduces two records to one.
        columns: Columns of the records.
    """

    def __init__(self, function: ReduceFunction | Callable[[Any, Any], Any], columns: TypeInformation) -> None:
        self._function, self._columns = function, columns

    def open(self, context: Any) -> None:
        self._state = context.get_reducing_state(ReducingStateDescriptor(CONTENTS, self._function, self._columns))
        self.adding = self._state

    def fire(self, window: Window, call: Call) -> Iterable[Any]:
        value = self._state.get()
        return () if value is None else call([value])


class AggregatedContents(WindowContents):
    """The accumulator of the elements.

    Args:
        function: Aggregates records.
        accumulator: Type of its accumulators.
    """

    def __init__(self, function: AggregateFunction, accumulator: TypeInformation) -> None:
        self._function, self._type = function, accumulator

    def open(self, context: Any) -> None:
        descriptor = AggregatingStateDescriptor(CONTENTS, self._function, self._type)
        self._state = MergeableAggregatingState(context, descriptor)
        self.adding = self._state.adding

    def fire(self, window: Window, call: Call) -> Iterable[Any]:
        value = self._state.get()
        return () if value is None else call([value])


class EvictableContents(WindowContents):
    """All elements with their event times, for an evictor.

    Args:
        columns: Columns of the records.
        evictor: Removes elements.
        fold: Makes the function's input from the elements that remain; by default the function gets all of them.
    """

    def __init__(
        self, columns: TypeInformation, evictor: Evictor, fold: Callable[[list[Any]], list[Any]] | None = None
    ) -> None:
        self._type = StructType(("timestamp", "value"), (Types.LONG(), columns), carrier=tuple)
        self._evictor, self._fold = evictor, fold

    def open(self, context: Any) -> None:
        self._time, self._context = context.time, WindowEvictorContext(context.time)
        self._state = context.get_list_state(ListStateDescriptor(CONTENTS, self._type))
        self.adding = self

    def add(self, value: Any) -> None:
        """Adds an element, with the event time of the current record."""
        self._state.add((self._time.timestamp, value))

    def fire(self, window: Window, call: Call) -> Iterable[Any]:
        elements = [TimestampedValue(value, timestamp) for timestamp, value in self._state.get()]
        if not elements:
            return ()
        count = len(elements)
        self._evictor.evict_before(elements, len(elements), window, self._context)
        values = [copied(element.value) for element in elements]  # the remaining elements may be stored again
        rows = list(self._called(call, values))
        self._evictor.evict_after(elements, len(elements), window, self._context)
        if len(elements) < count:
            self._state.update([(element.timestamp, element.value) for element in elements])
        return rows

    def _called(self, call: Call, values: list[Any]) -> Iterable[Any]:
        if self._fold is None:
            return call(values)
        folded = self._fold(values)
        return call(folded) if folded else ()


class Reducing:
    """Reduces the elements that an evictor left; without elements there is no result."""

    def __init__(self, function: ReduceFunction | Callable[[Any, Any], Any]) -> None:
        self._function = function

    def __call__(self, values: list[Any]) -> list[Any]:
        function = self._function
        call = function.reduce if isinstance(function, ReduceFunction) else function
        return [reduce(call, values)] if values else []


class Aggregating:
    """Aggregates the elements that an evictor left; without any, it gives a new accumulator's result, as in Flink."""

    def __init__(self, function: AggregateFunction) -> None:
        self._function = function

    def __call__(self, values: list[Any]) -> list[Any]:
        function = self._function
        accumulator = function.create_accumulator()
        for value in values:
            accumulator = function.add(value, accumulator)
        return [function.get_result(accumulator)]


__all__ = [
    "CONTENTS",
    "AggregatedContents",
    "Aggregating",
    "EvictableContents",
    "ListContents",
    "ReducedContents",
    "Reducing",
    "WindowContents",
]
