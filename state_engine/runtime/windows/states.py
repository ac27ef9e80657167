"""States of windows: looked up once per descriptor, and merged between windows.

A state reads and writes under the current entry: a key alone, or a key with a window as its namespace.
"""

from collections.abc import Callable, Sequence
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.functions import KeyedStateStore, RuntimeContext
from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from state_engine.backends.keys import KeyContext
from state_engine.errors import JobDefinitionError

Ask = Callable[[Any], Any]


class KnownStates(KeyedStateStore):
    """Caches states by descriptor, since making a state's schema costs more than reading the state.

    Args:
        context: Returns the states.
        wrap: Wraps each state; by default a state is returned as it is.
    """

    def __init__(self, context: RuntimeContext, wrap: Callable[[Any], Any] = lambda state: state) -> None:
        self._context = context
        self._wrap = wrap
        self._known: dict[tuple[str, str], tuple[StateDescriptor, Any]] = {}

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._get("value", state_descriptor, self._context.get_state)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._get("list", state_descriptor, self._context.get_list_state)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._get("map", state_descriptor, self._context.get_map_state)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._get("reducing", state_descriptor, self._context.get_reducing_state)  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._get("aggregating", state_descriptor, self._context.get_aggregating_state)  # type: ignore[no-any-return]

    def of(self, descriptor: StateDescriptor) -> State:
        """Returns the state of a descriptor of any kind."""
        match descriptor:
            case ListStateDescriptor():
                return self.get_list_state(descriptor)
            case MapStateDescriptor():
                return self.get_map_state(descriptor)
            case ReducingStateDescriptor():
                return self.get_reducing_state(descriptor)
            case AggregatingStateDescriptor():
                return self.get_aggregating_state(descriptor)
        return self.get_state(descriptor)  # type: ignore[arg-type]  # it refuses what is no value state descriptor

    def _get(self, kind: str, descriptor: StateDescriptor, ask: Ask) -> Any:
        cached = self._known.get((kind, getattr(descriptor, "name", "")))
        if cached is not None and (cached[0] is descriptor or _is_same(cached[0], descriptor)):
            return cached[1]
        state = self._wrap(ask(descriptor))
        self._known[kind, descriptor.name] = descriptor, state
        return state


def _is_same(one: StateDescriptor, other: StateDescriptor) -> bool:
    """Returns whether two descriptors of one name and kind are equal: authors often make a new one for each call."""
    parts = [(type(d), d.type_info, d.ttl_config, getattr(d, "key_type_info", None)) for d in (one, other)]
    return parts[0] == parts[1]


class MergeableStates(KnownStates):
    """States of a trigger; its aggregating states can be merged."""

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._get("aggregating", state_descriptor, self._ask_aggregating)  # type: ignore[no-any-return]

    def _ask_aggregating(self, descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return MergeableAggregatingState(self._context, descriptor)


class MergeableAggregatingState(AggregatingState[Any, Any]):
    """An aggregating state that also reads and merges whole accumulators.

    Attributes:
        adding: The wrapped state, for callers that add to it with each record.
    """

    def __init__(self, context: RuntimeContext, descriptor: AggregatingStateDescriptor) -> None:
        self._function = descriptor.get_agg_function()
        self.adding: Any = context.get_aggregating_state(descriptor)

    def get(self) -> Any:
        return self.adding.get()

    def add(self, value: Any) -> None:
        self.adding.add(value)

    def clear(self) -> None:
        self.adding.clear()

    def accumulator(self) -> Any:
        """Returns the state's accumulator; None without one."""
        return self.adding.read()

    def merge(self, accumulator: Any) -> None:
        """Merges another accumulator into the accumulator of the current entry."""
        current = self.adding.read()
        self.adding.put(accumulator if current is None else self._function.merge(current, accumulator))


def merge_entries(state: Any, keys: KeyContext, target: Any, sources: Sequence[Any]) -> None:
    """Moves the content of a state from several entries to one; afterwards the current entry is `target`.

    Args:
        state: A list, reducing or mergeable aggregating state.
        keys: The current entry.
        target: The entry that gets the content; its own content comes first.
        sources: The entries from which content is moved, in order.

    Raises:
        JobDefinitionError: The state cannot be merged.
    """
    take, put = _taking_and_putting(state)
    for source in sources:
        keys.entry = source
        content = take()
        if content is not None:
            state.clear()
            keys.entry = target
            put(content)
    keys.entry = target


def _taking_and_putting(state: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Returns two functions: one reads all content of a state (None if empty), one adds it to the current entry."""
    match state:
        case ListState():
            return lambda: list(state.get()) or None, state.add_all
        case MergeableAggregatingState():
            return state.accumulator, state.merge
        case ReducingState():
            return state.get, state.add
    raise JobDefinitionError(
        f"A trigger asked to merge a {type(state).__name__}.", action="Use a list, reducing or aggregating state."
    )


__all__ = ["KnownStates", "MergeableAggregatingState", "MergeableStates", "merge_entries"]
