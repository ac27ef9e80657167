"""What an operator with two inputs requires of the streams that feed it."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from state_engine.api.types import StructType
from state_engine.runtime.two_inputs import KeyedInput
from state_engine.spark.graph.nodes import Edge, OperatorNode

Names = str | Sequence[str]


class Feeding(Protocol):
    """A stream, keyed or not; `DataStream` implements this."""

    @property
    def columns(self) -> StructType: ...

    @property
    def has_event_time(self) -> bool: ...

    def feeding(self, input_: int = 1) -> tuple[Edge, ...]: ...

    def check_meets(self, other: Any) -> None: ...

    def claim_uid(self, uid: str | None, kind: str) -> str: ...

    def append_operator(self, node: OperatorNode) -> Self: ...

    def keyed_input(self, key: Sequence[Names], order_by: Names) -> "Input[Self]": ...


StreamT = TypeVar("StreamT", bound=Feeding)


class Input(NamedTuple, Generic[StreamT]):
    """A stream and how its records are keyed; if they are not, `keyed` has no key."""

    stream: StreamT
    keyed: KeyedInput


__all__ = ["Feeding", "Input", "Names", "StreamT"]
