"""Adapters that let an operator run the functions of `map`, `flat_map`, `filter` and `reduce`, record by record.

An adapter passes on its function's life cycle, and with it the runtime context: a `MapFunction` on a keyed stream may
keep state, as in PyFlink.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from state_engine.api.descriptors import StateDescriptor, ValueStateDescriptor
from state_engine.api.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from state_engine.api.state import ValueState
from state_engine.api.types import StructType, type_of_columns
from state_engine.errors import DuplicateStateError, JobDefinitionError


def given(function: object) -> str:
    """Describes the object that an author gave instead of a function, for messages."""
    return f"the class {function.__name__}, not an object" if isinstance(function, type) else type(function).__name__


class Adapter(Function):
    """Base of all adapters: wraps one function, an object of the verb's interface or a plain callable.

    Args:
        function: The author's function.

    Raises:
        JobDefinitionError: It is neither.
    """

    verb: str  # the method that the author called, for messages
    interface: ClassVar[type[Function]]
    method: ClassVar[str]
    asks_in_open: ClassVar[bool] = True
    """Whether `open()` asks for all of its own states."""

    def __init__(self, function: Any) -> None:
        wanted = self.interface.__name__
        if isinstance(function, type) and issubclass(function, Function):
            raise JobDefinitionError(
                f"{self.verb}() got the class {function.__name__}.", action=f"Give an object: {function.__name__}()."
            )
        if not isinstance(function, self.interface) and (isinstance(function, Function) or not callable(function)):
            raise JobDefinitionError(
                f"{self.verb}() got {type(function).__name__}.", action=f"Give a {wanted}, or a plain function."
            )
        self.function = function

    @property
    def argument(self) -> str:
        """The name of what the author gave, for explanations."""
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def open(self, runtime_context: Any) -> None:
        if isinstance(self.function, Function):
            self.function.open(runtime_context)
            self._call = getattr(self.function, self.method)
        else:
            self._call = self.function

    def finish(self) -> Iterable[Any] | None:
        return self.function.finish() if isinstance(self.function, Function) else None

    def close(self) -> None:
        if isinstance(self.function, Function):
            self.function.close()

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Processes one record, as the process functions do."""


class MapAdapter(Adapter):
    """Emits the function's result for a record."""

    verb = method = "map"
    interface = MapFunction

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return (self._call(value),)


class FlatMapAdapter(Adapter):
    """Emits all results of the function for a record."""

    verb = method = "flat_map"
    interface = FlatMapFunction

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self._call(value)  # type: ignore[no-any-return]


class FilterAdapter(Adapter):
    """Emits a record if the function returns a true value for it."""

    verb = method = "filter"
    interface = FilterFunction

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return (value,) if self._call(value) else None


class ReduceAdapter(Adapter):
    """Keeps the reduced record of each key, and emits it for every record of the key.

    Args:
        function: Reduces two records to one.
        struct: Columns of the records; the state keeps one record.
    """

    verb = method = "reduce"
    interface = ReduceFunction
    state_name = "reduced"

    def __init__(self, function: Any, struct: StructType) -> None:
        super().__init__(function)
        self._struct = struct

    def open(self, runtime_context: RuntimeContext) -> None:
        # The adapter's state comes first: if the function's open() fails in the driver, the state is known anyway.
        kept = ValueStateDescriptor(self.state_name, type_of_columns(self._struct))
        self._state: ValueState[Any] = runtime_context.get_state(kept)
        super().open(OtherStates(runtime_context, self.state_name))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        before = self._state.value()
        reduced = value if before is None else self._call(before, value)
        self._state.update(reduced)
        return (reduced,)


class OtherStates:
    """A runtime context for the author's code, which refuses states that the operator keeps itself.

    Args:
        context: The operator's context.
        taken: Names of the operator's own states.
    """

    def __init__(self, context: RuntimeContext, *taken: str) -> None:
        self._context = context
        self._taken = taken

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._context, name)
        if not name.endswith("_state"):
            return attribute

        def ask(state_descriptor: StateDescriptor) -> Any:
            taken = getattr(state_descriptor, "name", None)
            if taken in self._taken:
                raise DuplicateStateError(
                    f"The operator keeps a state {taken!r} itself.", action="Give the function's state another name."
                )
            return attribute(state_descriptor)

        return ask


__all__ = ["Adapter", "FilterAdapter", "FlatMapAdapter", "MapAdapter", "OtherStates", "ReduceAdapter", "given"]
