"""Functions of two inputs, by PyFlink's names (`pyflink.datastream.functions`)."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from state_engine.api.functions import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function):
    """Makes one record of each record of either input."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Returns the record that is made of one of input 1; None for none."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Returns the record that is made of one of input 2; None for none."""


class CoFlatMapFunction(Function):
    """Makes any number of records of each record of either input."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the records that are made of one of input 1."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the records that are made of one of input 2."""


class CoProcessFunction(Function):
    """Processes records of two inputs one by one, without keys."""

    Context: TypeAlias = ProcessFunction.Context

    @abstractmethod
    def process_element1(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record of input 1; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record of input 2, as `process_element1` does."""


class KeyedCoProcessFunction(Function):
    """Processes records of two inputs one by one, with the state of their key, which both inputs share."""

    Context: TypeAlias = KeyedProcessFunction.Context
    OnTimerContext: TypeAlias = KeyedProcessFunction.OnTimerContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record of input 1; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record of input 2, as `process_element1` does."""

    def on_timer(self, timestamp: int, ctx: "KeyedCoProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, whichever input registered it; as `KeyedProcessFunction.on_timer`."""


__all__ = ["CoFlatMapFunction", "CoMapFunction", "CoProcessFunction", "KeyedCoProcessFunction"]
