"""State interfaces, by PyFlink's names and with its semantics (`pyflink.datastream.state`).

An instance belongs to one state of one operator; what it reads and writes is the entry of the key that is current.
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

    The methods with `_many` take the keys of a whole batch (`KeyedBatchProcessFunction`) and Arrow columns with a value
    per record. They mean what the row methods mean, record by record: both may be used on one state. A column that is
    given has the state's type, or one whose values all fit it: an int for a bigint or a double.
    """

    columns: Any = None
    """What the methods with `_many` do; None for states without them."""

    def remove_many(self, keys: Keys) -> None:
        """Removes what is stored under each key."""
        self._many().remove_many(keys)

    def _many(self) -> Any:
        if self.columns is None:
            raise UnsupportedMethodError(
                "This state has no methods for whole columns.", action="Use keyed state of an operator's own."
            )
        return self.columns

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

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record the value of its key, null where there is none."""
        found: pa.Array[Any] = self._many().get_many(keys)
        return found

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record whether its key has a value."""
        found: pa.Array[Any] = self._many().contains_many(keys)
        return found

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the value of each key to that of its last record; null removes it, as in Flink."""
        self._many().put_many(keys, values)


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

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record what was added to its key, reduced; null where there is nothing."""
        found: pa.Array[Any] = self._many().get_many(keys)
        return found

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record whether its key has a value."""
        found: pa.Array[Any] = self._many().contains_many(keys)
        return found

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        self._many().add_many(keys, values)


class AggregatingState(MergingState[IN, OUT | None], Generic[IN, OUT]):
    """One accumulator per key; `get` gives the aggregate's result, or None before the first value."""

    def get_many(self, keys: Keys, result_type: TypeInformation) -> "pa.Array[Any]":
        """Returns of each record the result of its key, null where nothing was added.

        Args:
            keys: Of the records.
            result_type: What the aggregate's results are, which no descriptor says.
        """
        found: pa.Array[Any] = self._many().get_many(keys, result_type)
        return found

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record whether its key has a result."""
        found: pa.Array[Any] = self._many().contains_many(keys)
        return found

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records.

        A `ColumnAggregateFunction` gets the column as it is; any other one the Python values that a row function would
        have of it.
        """
        self._many().add_many(keys, values)


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

    def get_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record the list of its key, an empty one where there is none."""
        found: pa.Array[Any] = self._many().get_many(keys)
        return found

    def contains_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record whether the list of its key has elements."""
        found: pa.Array[Any] = self._many().contains_many(keys)
        return found

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the list of each key to that of its last record; null or an empty one clears."""
        self._many().put_many(keys, values)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        self._many().add_many(keys, values)


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

    def get_many(self, keys: Keys, user_keys: Any) -> "pa.Array[Any]":
        """Returns of each record the value of its user key in the map of its key, null where there is none."""
        found: pa.Array[Any] = self._many().get_many(keys, user_keys)
        return found

    def contains_many(self, keys: Keys, user_keys: Any) -> "pa.Array[Any]":
        """Returns of each record whether the map of its key has its user key."""
        found: pa.Array[Any] = self._many().contains_many(keys, user_keys)
        return found

    def items_many(self, keys: Keys) -> "pa.Array[Any]":
        """Returns of each record all entries of the map of its key, as of `items`; no entries where there is none.

        They are lists of structs of `key` and `value`: Arrow's own maps would allow no null as a key.
        """
        found: pa.Array[Any] = self._many().items_many(keys)
        return found

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        """Sets one entry per record, in their order."""
        self._many().put_many(keys, user_keys, values)

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        """Removes one entry per record; without user keys all entries of each key."""
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
