"""Adapters that let an operator with two inputs run the functions of `map` and `flat_map` on connected streams."""

from collections.abc import Iterable
from typing import Any, ClassVar

from state_engine.api.co_functions import CoFlatMapFunction, CoMapFunction
from state_engine.api.functions import Function
from state_engine.errors import JobDefinitionError


class CoAdapter(Function):
    """Base of both adapters: passes on the function's life cycle, and with it the runtime context.

    Args:
        function: The author's function.

    Raises:
        JobDefinitionError: It does not have the verb's interface.
    """

    verb: ClassVar[str]  # the method that the author called, for messages; the function has it with suffix 1 and 2
    interface: ClassVar[type[Function]]

    def __init__(self, function: Any) -> None:
        if not isinstance(function, self.interface):
            given = function.__name__ if isinstance(function, type) else type(function).__name__
            raise JobDefinitionError(
                f"{self.verb}() on connected streams got {given}.", action=f"Give a {self.interface.__name__}."
            )
        self.function: Any = function

    def open(self, runtime_context: Any) -> None:
        self.function.open(runtime_context)

    def finish(self) -> Iterable[Any] | None:
        return self.function.finish()  # type: ignore[no-any-return]

    def close(self) -> None:
        self.function.close()


class CoMapAdapter(CoAdapter):
    """Emits the function's result for a record, unless it is None."""

    verb = "map"
    interface = CoMapFunction

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        result = self.function.map1(value)
        return None if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        result = self.function.map2(value)
        return None if result is None else (result,)


class CoFlatMapAdapter(CoAdapter):
    """Emits all results of the function for a record."""

    verb = "flat_map"
    interface = CoFlatMapFunction

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.function.flat_map1(value)  # type: ignore[no-any-return]

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.function.flat_map2(value)  # type: ignore[no-any-return]


__all__ = ["CoAdapter", "CoFlatMapAdapter", "CoMapAdapter"]
