"""State interfaces, by PyFlink's names and with its semantics (`pyflink.datastream.state`).

An instance belongs to one state of one operator; what it reads and writes is the entry of the key that is current.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base of all partitioned state."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what is stored under the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value of the current key, or None when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value of the current key; None removes it, as in Flink."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT:
        """Returns the current content."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state whose contents can be merged over namespaces (session windows)."""


class ReducingState(MergingState[T, T | None], Generic[T]):
    """One value per key: all added values reduced. `get` is None before the first."""


class AggregatingState(MergingState[IN, OUT | None], Generic[IN, OUT]):
    """One accumulator per key; `get` gives the aggregate's result, or None before the first value."""


class ListState(MergingState[T, Iterable[T]], Generic[T]):
    """A list per key, in the order of adding. Adding is logged as adding: an element is written once."""

    @abstractmethod
    def get(self) -> Iterator[T]:
        """Iterates over the elements; empty when there is none."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replaces the list; an empty one clears."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Adds several values in order."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A map per key, written entry by entry. User keys may be null; a null value is not an absent one."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a user key, or None."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets one entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Sets several entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes one entry; an absent one is no error."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Says whether the user key has an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Iterates over the entries, as of the call."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Iterates over the user keys, as of the call."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Iterates over the values, as of the call."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Says whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


__all__ = [
    "AggregatingState",
    "AppendingState",
    "ListState",
    "MapState",
    "MergingState",
    "ReducingState",
    "State",
    "ValueState",
]
