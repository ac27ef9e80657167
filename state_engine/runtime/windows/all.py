"""Windows of a stream without a key: all records have the same key, in a column that functions do not see."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from state_engine.api.functions import Function
from state_engine.api.types import StructType, columns_of_type
from state_engine.api.windows import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from state_engine.runtime.windows.stream import WindowedStream

R = TypeVar("R")
ALL = "window_all"
"""The key column: a boolean, always null, after the columns of the records."""


class AllWindowedStream(WindowedStream[R]):
    """Records partitioned only by window: PyFlink's class of the same name.

    As `WindowedStream`, but its functions get no key. `add` makes an operator that is keyed by `ALL`.
    """

    applied: ClassVar[type[Function]] = AllWindowFunction
    processed: ClassVar[type[Function]] = ProcessAllWindowFunction

    def _keyed(self, function: Any) -> Any:
        if function is None:
            return None
        return _Applied(function) if isinstance(function, AllWindowFunction) else _Processed(function)

    def _key_columns(self) -> Sequence[str] | None:
        return None if self._records() is None else ()

    def _records(self) -> StructType | None:
        return columns_of_type(self._columns)


class _OfAll(Function):
    """Passes on the life cycle of the author's function."""

    def __init__(self, function: Any) -> None:
        self.of_author = function

    def open(self, runtime_context: Any) -> None:
        self.of_author.open(runtime_context)

    def close(self) -> None:
        self.of_author.close()


class _Applied(_OfAll, WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        return self.of_author.apply(window, inputs)  # type: ignore[no-any-return]


class _Processed(_OfAll, ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any] | None:
        return self.of_author.process(context, elements)  # type: ignore[no-any-return]

    def clear(self, context: Any) -> None:
        self.of_author.clear(context)


__all__ = ["ALL", "AllWindowedStream"]
