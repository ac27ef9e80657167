"""Which window's state holds the contents of which window, for windows that are merged.

When windows become one, the contents of the first stay where they are, and those of the others are moved there: the
merged window has the state of a window that is no more. Without that, each record of a session would move all of them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from state_engine.api.state import ValueState
from state_engine.api.windows import MergingWindowAssigner, WindowSerializer
from state_engine.iterating import whole

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the window that results, those that were merged, the one whose state it has, and those whose state is to
be moved there."""


class MergingWindowSet:
    """The windows of one key that are not over.

    Args:
        assigner: Says which become one.
        serializer: Of its windows.
        state: Of the key: text of a window → text of the window that its state stands under. One value for all, since
            all are needed for each record.
    """

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, Any],
        serializer: WindowSerializer[Any],
        state: ValueState[dict[str, str]],
    ) -> None:
        self._assigner = assigner
        self._serializer = serializer
        self._state = state
        self._stored = state.value() or {}
        read = serializer.deserialize
        self._mapping = {read(window): read(holder) for window, holder in self._stored.items()}

    @property
    def windows(self) -> tuple[Any, ...]:
        """All of them."""
        return tuple(self._mapping)

    def state_window(self, window: Any) -> Any:
        """Returns the window under which the state of a window stands; None if that is over."""
        return self._mapping.get(window)

    def retire_window(self, window: Any) -> None:
        """Removes a window: it is over.

        Raises:
            KeyError: It was not there.
        """
        del self._mapping[window]

    def add_window(self, window: Any, on_merge: OnMerge) -> Any:
        """Adds the window of a record, and merges what becomes one with it.

        Returns:
            The window that the record is in now: the new one, or that into which it was merged.
        """
        decided = _Decided()
        self._assigner.merge_windows([*self._mapping, window], decided)
        result = window
        for merged, windows in decided.merges:
            if window in windows:
                result = merged
            self._merge(merged, [w for w in windows if w in self._mapping], on_merge)
        self._mapping.setdefault(result, result)
        return result

    def _merge(self, result: Any, windows: list[Any], on_merge: OnMerge) -> None:
        """Makes `result` of windows that are there; the new one never had a state."""
        if not windows or windows == [result]:
            return
        holder, *others = [self._mapping.pop(window) for window in windows]
        self._mapping[result] = holder
        on_merge(result, windows, holder, others)

    def persist(self) -> None:
        """Writes what changed to the state."""
        write = self._serializer.serialize
        now = {write(window): write(holder) for window, holder in self._mapping.items()}
        if now != self._stored:
            self._state.update(now or None)
            self._stored = now


class _Decided(MergingWindowAssigner.MergeCallback[Any]):
    """Notes what an assigner says."""

    def __init__(self) -> None:
        self.merges: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merges.append((merge_result, list(dict.fromkeys(whole(to_be_merged)))))


__all__ = ["MergingWindowSet", "OnMerge"]
