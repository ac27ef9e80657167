"""State interfaces, with PyFlink's names and semantics (`pyflink.datastream.state`).

An instance belongs to one state of one operator. It reads and writes the entry of the current key.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from state_engine.api.keys import Keys
from state_engine.api.types import TypeInformation
from state_engine.errors import UnsupportedMethodError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base of all partitioned state.

    The methods with `_many` take the keys of a whole batch (`KeyedBatchProcessFunction`) and Arrow columns with one
    value per record. They have the same effect as the row methods, called record by record; one state may be used by
    both. A column passed to them has the state's type, or a type with values that all fit it: an int for a bigint or a
    double.
    """

    columns: Any = None
    """Implements the methods with `_many`; None for states without them."""

    def remove_many(self, keys: Keys) -> None:
        """Removes the entry of each key."""
        self._many().remove_many(keys)

    def _many(self) -> Any:
        if self.columns is None:
            raise UnsupportedMethodError(
                "This state has no methods for whole columns.", action="Use keyed state of an operator's own."
            )
        return self.columns

    @abstractmethod
    def clear(self) -> None:
        """Removes the entry of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value of the current key, or None if it has none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value of the current key; None removes it, as in Flink."""

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record the value of its key; null if the key has none."""
        column: pa.Array[Any] = self._many().get_many(keys)
        return column

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record whether its key has a value."""
        column: pa.Array[Any] = self._many().contains_many(keys)
        return column

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the value of each key to that of its last record; null removes it, as in Flink."""
        self._many().put_many(keys, values)


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added."""

    @abstractmethod
    def get(self) -> OUT:
        """Returns the current content."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged over namespaces, as session windows need it."""


class ReducingState(MergingState[T, T | None], Generic[T]):
    """One value per key: all added values reduced. `get` returns None before the first value is added."""

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record the reduced value of its key; null if nothing was added to it."""
        column: pa.Array[Any] = self._many().get_many(keys)
        return column

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record whether its key has a value."""
        column: pa.Array[Any] = self._many().contains_many(keys)
        return column

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds each record's value to the state of its key, in the order of the records."""
        self._many().add_many(keys, values)


class AggregatingState(MergingState[IN, OUT | None], Generic[IN, OUT]):
    """One accumulator per key; `get` returns the aggregate's result, or None before the first value is added."""

    def get_many(self, keys: Keys, result_type: TypeInformation) -> "pa.Array[Any]":
        """Returns for each record the result of its key; null if nothing was added to it.

        Args:
            keys: The key of each record.
            result_type: The type of the aggregate's results; a descriptor does not contain it.
        """
        column: pa.Array[Any] = self._many().get_many(keys, result_type)
        return column

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record whether its key has a result."""
        column: pa.Array[Any] = self._many().contains_many(keys)
        return column

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds each record's value to the state of its key, in the order of the records.

        A `ColumnAggregateFunction` gets the column as it is. Any other aggregate function gets its values as the Python
        values that a row function would get.
        """
        self._many().add_many(keys, values)


class ListState(MergingState[T, Iterable[T]], Generic[T]):
    """A list per key, in the order of adding. Each added element is written to the log once, not the whole list."""

    @abstractmethod
    def get(self) -> Iterator[T]:
        """Iterates over the elements; the iterator is empty if there are none."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replaces the list; an empty list clears the state."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Adds several values in order."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record the list of its key; an empty list if the key has none."""
        column: pa.Array[Any] = self._many().get_many(keys)
        return column

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record whether the list of its key has elements."""
        column: pa.Array[Any] = self._many().contains_many(keys)
        return column

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the list of each key to that of its last record; null or an empty list clears the state."""
        self._many().put_many(keys, values)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds each record's value to the state of its key, in the order of the records."""
        self._many().add_many(keys, values)


class MapState(State, Generic[K, V]):
    """A map per key, written entry by entry. User keys may be null; an entry with a null value exists."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a user key, or None if there is no entry."""

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
        """Returns whether the user key has an entry."""

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
        """Returns whether there is no entry."""

    def get_many(self, keys: Keys, user_keys: Any) -> "pa.Array[Any]":
        """Returns for each record the value of its user key in the map of its key; null if there is no entry."""
        column: pa.Array[Any] = self._many().get_many(keys, user_keys)
        return column

    def contains_many(self, keys: Keys, user_keys: Any) -> "pa.Array[Any]":
        """Returns for each record whether the map of its key has its user key."""
        column: pa.Array[Any] = self._many().contains_many(keys, user_keys)
        return column

    def items_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns for each record all entries of the map of its key, as `items` does; an empty list if there are none.

        The entries of a map are a list of structs of `key` and `value`: Arrow's own maps do not allow a null key.
        """
        column: pa.Array[Any] = self._many().items_many(keys)
        return column

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        """Sets one entry per record, in the order of the records."""
        self._many().put_many(keys, user_keys, values)

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        """Removes one entry per record; without user keys, all entries of each key."""
        self._many().remove_many(keys, user_keys)

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
