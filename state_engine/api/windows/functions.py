"""Base classes of functions over the elements of a window, under PyFlink's names."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from state_engine.api.functions import Function, KeyedStateStore
from state_engine.api.windows.windows import Window

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2", bound=Window)


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes rows from a window's elements.

    If the elements were reduced or aggregated as they arrived, `inputs` contains only the result.
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, and `(tag, row)` for side outputs.

        Args:
            key: The value of a single key column, or a tuple of several.
            window: The window that fires.
            inputs: Its elements, in order of arrival.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes rows from a window's elements, with state of the window and of the key.

    A state that `open` gets from the runtime context belongs to the key, over all its windows.
    """

    class Context(ABC, Generic[W2]):
        """What a window fires with."""

        @abstractmethod
        def window(self) -> W2:
            """Returns the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the epoch's one processing time, in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the operator's watermark, in ms."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns the states of the key in this window: clear them in `clear`. Session windows have none."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns the states of the key over all windows."""

    @abstractmethod
    def process(
        self, key: KEY, context: "ProcessWindowFunction.Context[W]", elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Yields or returns rows, and `(tag, row)` for side outputs; arguments as those of `WindowFunction.apply`."""

    def clear(self, context: "ProcessWindowFunction.Context[W]") -> None:
        """Called when the window is over, to clear its states."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes rows from a window's elements on a stream without key; otherwise as `WindowFunction`."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, as `WindowFunction.apply` does."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes rows from a window's elements, with state, on a stream without key; else as `ProcessWindowFunction`."""

    class Context(ABC, Generic[W2]):
        """What a window fires with."""

        @abstractmethod
        def window(self) -> W2:
            """Returns the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns the states of this window: clear them in `clear`. Session windows have none."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns the states over all windows."""

    @abstractmethod
    def process(self, context: "ProcessAllWindowFunction.Context[W]", elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, as `ProcessWindowFunction.process` does."""

    def clear(self, context: "ProcessAllWindowFunction.Context[W]") -> None:
        """Called when the window is over, to clear its states."""


__all__ = ["AllWindowFunction", "ProcessAllWindowFunction", "ProcessWindowFunction", "WindowFunction"]
