"""Windows by the number of a key's records, by PyFlink's names.

What a key remembers says which of its windows are open and how many records each has. It does not depend on the size:
a release with another size or slide goes on with the windows that are open, and numbers new ones behind them.
"""

from abc import abstractmethod
from collections.abc import Collection
from typing import Any

from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType, TypeInformation
from state_engine.api.windows.assigners import WindowAssigner
from state_engine.api.windows.triggers import CountTrigger, PurgingTrigger, Trigger
from state_engine.api.windows.windows import CountWindow, CountWindowSerializer, WindowSerializer
from state_engine.errors import JobDefinitionError


class CountWindowAssigner(WindowAssigner[Any, CountWindow]):
    """Base of the windows by the number of a key's records. They fire when full, and are over then.

    A window that an earlier release has begun with a larger size, and that has as many records as are wanted now or
    more, is full with the key's next record.

    Args:
        window_size: Records in a window.
        window_slide: Records from the first one of a window to the first one of the next.
        state_name: Where a key's open windows are kept.
        kept: What is kept of them, by name.

    Attributes:
        windows: Descriptor of that state.
    """

    def __init__(self, window_size: int, window_slide: int, state_name: str, kept: dict[str, TypeInformation]) -> None:
        if not all(type(n) is int and n >= 1 for n in (window_size, window_slide)):
            raise JobDefinitionError(
                f"{type(self).__name__} got size={window_size}, slide={window_slide}.", action="Give 1 or more."
            )
        self._size, self._slide = window_size, window_slide
        self.windows = ValueStateDescriptor(state_name, StructType(tuple(kept), tuple(kept.values()), carrier=tuple))
        self.windows.migrate_from(Types.LONG(), self.from_number)

    @abstractmethod
    def from_number(self, number: int) -> tuple[Any, ...]:
        """Returns what is kept of a key's windows, by the number of its next record: what earlier releases kept."""

    def get_default_trigger(self, env: Any) -> Trigger[Any, CountWindow]:
        return PurgingTrigger(CountTrigger(self._size))  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self._size}, slide={self._slide})"


class CountTumblingWindowAssigner(CountWindowAssigner):
    """Every `window_size` records of a key are a window.

    Of a key is kept which window gets its next record, and how many that one has.
    """

    def __init__(self, window_size: int) -> None:
        kept: dict[str, TypeInformation] = {"window": Types.LONG(), "records": Types.LONG()}
        super().__init__(window_size, window_size, "tumble-count-assigner", kept)

    @staticmethod
    def of(window_size: int) -> "CountTumblingWindowAssigner":
        return CountTumblingWindowAssigner(window_size)

    def from_number(self, number: int) -> tuple[Any, ...]:
        return divmod(number, self._size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self.windows)
        window, records = state.value() or (0, 0)
        records += 1
        state.update((window, records) if records < self._size else (window + 1, 0))
        return [CountWindow(window)]


class CountSlidingWindowAssigner(CountWindowAssigner):
    """Windows of `window_size` records of a key, one beginning at every `window_slide`-th record.

    Of a key is kept which window begins next, how many records came since the last one began, and how many each window
    has that is not full, the oldest first.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        kept = {"window": Types.LONG(), "records": Types.LONG(), "open": Types.LIST(Types.LONG())}
        super().__init__(window_size, window_slide, "slide-count-assigner", kept)

    @staticmethod
    def of(window_size: int, window_slide: int) -> "CountSlidingWindowAssigner":
        return CountSlidingWindowAssigner(window_size, window_slide)

    def from_number(self, number: int) -> tuple[Any, ...]:
        window = -(-number // self._slide)
        begun = range(max(0, (number - self._size) // self._slide + 1), window)
        return window, number - (window - 1) * self._slide, [number - n * self._slide for n in begun]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self.windows)
        window, records, others = state.value() or (0, self._slide, [])
        if records >= self._slide or not (others or self._slide > self._size):  # none is open after a smaller slide
            window, records, others = window + 1, 0, [*others, 0]
        held = [n + 1 for n in others]
        state.update((window, records + 1, [n for n in held if n < self._size]))
        return [CountWindow(n) for n in range(window - 1, window - 1 - len(held), -1)]


def count_windows(size: int, slide: int) -> CountWindowAssigner:
    """Returns the assigner of `count_window(size, slide)`; a slide of 0 is one window after the other."""
    return CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)


__all__ = ["CountSlidingWindowAssigner", "CountTumblingWindowAssigner", "CountWindowAssigner", "count_windows"]
