"""Assigners of count windows, under PyFlink's names: windows by the number of a key's records.

The state of a key records which of its windows are open and how many records each has. It does not depend on the size:
a release with another size or slide continues the open windows, and gives new windows higher numbers.
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
    """Base of the assigners of count windows. These windows fire when full, and are then over.

    An earlier release may have begun a window with a larger size. If this window already has at least `window_size`
    records, it becomes full with the key's next record.

    Args:
        window_size: Number of records in a window.
        window_slide: Number of records from the first one of a window to the first one of the next.
        state_name: Name of the state with a key's open windows.
        kept: Names and types of the fields of this state.

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
        """Converts the state of earlier releases, the number of a key's next record, to the current state."""

    def get_default_trigger(self, env: Any) -> Trigger[Any, CountWindow]:
        return PurgingTrigger(CountTrigger(self._size))  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> WindowSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self._size}, slide={self._slide})"


class CountTumblingWindowAssigner(CountWindowAssigner):
    """Assigns every `window_size` records of a key to a window.

    The state of a key is the window that gets its next record, and the number of records in that window.
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
    """Assigns a key's records to windows of `window_size` records; one begins at every `window_slide`-th record.

    The state of a key is the window that begins next, the number of records since the last window began, and the
    number of records in each window that is not full, the oldest first.
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
    """Returns the assigner of `count_window(size, slide)`; with a slide of 0 the windows do not overlap."""
    return CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)


__all__ = ["CountSlidingWindowAssigner", "CountTumblingWindowAssigner", "CountWindowAssigner", "count_windows"]
