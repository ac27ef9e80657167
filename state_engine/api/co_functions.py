"""Base classes of functions with two inputs, under PyFlink's names (`pyflink.datastream.functions`)."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from state_engine.api.functions import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function):
    """Turns each record of either input into at most one record."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Returns the output record for a record of input 1, or None for no output."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Returns the output record for a record of input 2, or None for no output."""


class CoFlatMapFunction(Function):
    """Turns each record of either input into any number of records."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the output records for a record of input 1."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the output records for a record of input 2."""


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
        """Called when a timer of either input fires; as `KeyedProcessFunction.on_timer`."""


__all__ = ["CoFlatMapFunction", "CoMapFunction", "CoProcessFunction", "KeyedCoProcessFunction"]
