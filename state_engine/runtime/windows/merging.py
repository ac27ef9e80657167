"""Maps each merged window to the window under which its contents are stored.

When windows become one, the contents of the first stay where they are, and the contents of the others are moved there.
So the merged window keeps the state of a window that no longer exists. Without that, each record of a session would
move the whole contents.
"""

from collections.abc import Callable, Iterable
from typing import Any

from state_engine.api.state import ValueState
from state_engine.api.windows import MergingWindowAssigner, WindowSerializer
from state_engine.iterating import whole

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the resulting window, the merged windows, the window that stores its state, and the windows from which
state must be moved there."""


class MergingWindowSet:
    """The windows of one key that are not over.

    Args:
        assigner: Decides which windows become one.
        serializer: Serializer of its windows.
        state: State of the key: text of a window → text of the window under which its state is stored. It is one value
            for all windows, since each record needs all of them.
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
        """All windows of the set."""
        return tuple(self._mapping)

    def state_window(self, window: Any) -> Any:
        """Returns the window under which the state of a window is stored; None if the window is not in the set."""
        return self._mapping.get(window)

    def retire_window(self, window: Any) -> None:
        """Removes a window that is over.

        Raises:
            KeyError: It is not in the set.
        """
        del self._mapping[window]

    def add_window(self, window: Any, on_merge: OnMerge) -> Any:
        """Adds the window of a record, and merges the windows that become one.

        Returns:
            The window that the record is in now: the new one, or the one into which it was merged.
        """
        decisions = _Decided()
        self._assigner.merge_windows([*self._mapping, window], decisions)
        result = window
        for merged, windows in decisions.merges:
            if window in windows:
                result = merged
            self._merge(merged, [w for w in windows if w in self._mapping], on_merge)
        self._mapping.setdefault(result, result)
        return result

    def _merge(self, result: Any, windows: list[Any], on_merge: OnMerge) -> None:
        """Makes `result` from windows of the set; the new window is not among them, as it has no state yet."""
        if not windows or windows == [result]:
            return
        holder, *others = [self._mapping.pop(window) for window in windows]
        self._mapping[result] = holder
        on_merge(result, windows, holder, others)

    def persist(self) -> None:
        """Writes the set to the state if it changed."""
        write = self._serializer.serialize
        now = {write(window): write(holder) for window, holder in self._mapping.items()}
        if now != self._stored:
            self._state.update(now or None)
            self._stored = now


class _Decided(MergingWindowAssigner.MergeCallback[Any]):
    """Records the merges that an assigner decides."""

    def __init__(self) -> None:
        self.merges: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merges.append((merge_result, list(dict.fromkeys(whole(to_be_merged)))))


__all__ = ["MergingWindowSet", "OnMerge"]
