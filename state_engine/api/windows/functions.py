"""Functions over the elements of a window, by PyFlink's names."""

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
    """Makes rows of a window's elements.

    Where these were reduced or aggregated as they came, `inputs` holds the one result.
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, and `(tag, row)` for side outputs.

        Args:
            key: The value of a single key column, or a tuple of several.
            window: The window that fires.
            inputs: Its elements, in the order in which they came.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes rows of a window's elements, with state of the window and of the key.

    A state that `open` asks the runtime context for is the key's, over all windows.
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
            """Returns the states of the key in this window: clear them in `clear`. Sessions have none."""

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
    """Makes rows of a window's elements, on a stream without key; otherwise a `WindowFunction`."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, as `WindowFunction.apply` does."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes rows of a window's elements, on a stream without key, with state; otherwise a `ProcessWindowFunction`."""

    class Context(ABC, Generic[W2]):
        """What a window fires with."""

        @abstractmethod
        def window(self) -> W2:
            """Returns the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns the states of this window: clear them in `clear`. Sessions have none."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns the states over all windows."""

    @abstractmethod
    def process(self, context: "ProcessAllWindowFunction.Context[W]", elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Yields or returns rows, as `ProcessWindowFunction.process` does."""

    def clear(self, context: "ProcessAllWindowFunction.Context[W]") -> None:
        """Called when the window is over, to clear its states."""


__all__ = ["AllWindowFunction", "ProcessAllWindowFunction", "ProcessWindowFunction", "WindowFunction"]
