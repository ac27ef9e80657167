"""The graph of a program's calls so far; `execute` makes a job from it.

In PyFlink the uid, name and parallelism of a stream are set after it is created, so nothing is built before the end.
"""

from dataclasses import dataclass, field
from typing import Any

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType, TypeInformation, columns_of_type
from state_engine.errors import JobDefinitionError
from state_engine.flink.keys import Key


@dataclass(eq=False)
class SinkEntry:
    """A sink on a stream, or a callable that makes a sink for a job.

    A `quiet` sink needs no uid, because its output is not looked up later.
    """

    node: "Node"
    sink: Any
    uid: str | None = None
    quiet: bool = False


@dataclass(eq=False)
class Node:
    """One transformation.

    Attributes:
        verb: The method that the author called.
        inputs: The upstream nodes.
        type: Type of its elements; None if the author has not declared it.
        uid: Stable name of the operator, if it is one.
        name: Name for messages.
        non_parallel: Whether it requires one subtask.
        chains_off: Whether the next node may run in the same operator.
    """

    verb: str
    inputs: "tuple[Node, ...]"
    type: TypeInformation | None
    uid: str | None = None
    name: str = ""
    non_parallel: bool = False
    chains_off: bool = True

    @property
    def has_event_time(self) -> bool:
        """Whether its elements have event times."""
        return any(node.has_event_time for node in self.inputs)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.verb}() {self.uid or self.name!r}" if self.uid or self.name else f"{self.verb}()"

    def columns(self, wanted_by: str) -> StructType:
        """Returns the columns of its elements.

        Raises:
            JobDefinitionError: The type is not declared.
        """
        if self.type is None:
            raise JobDefinitionError(
                f"{self.label} has no output_type, and {wanted_by} needs one: nothing is pickled here.",
                action="Declare it: output_type=Types.STRING(), Types.TUPLE([...]), Types.ROW_NAMED([...], [...]). "
                "It may be missing only if map, flat_map or filter follows, which run in the same operator.",
            )
        return columns_of_type(self.type)


@dataclass(eq=False)
class CollectionNode(Node):
    """`from_collection`."""

    values: list[Any] = field(default_factory=list)
    number: int = 0


@dataclass(eq=False)
class FrameNode(Node):
    """`from_source`."""

    df: Any = None
    bounded: bool = False
    replays: bool = True


@dataclass(eq=False)
class TimedNode(Node):
    """`assign_timestamps_and_watermarks`."""

    strategy: Any = None

    @property
    def has_event_time(self) -> bool:
        return True


@dataclass(eq=False)
class UnionNode(Node):
    """`union`."""


@dataclass(eq=False)
class BroadcastNode(Node):
    """`broadcast` without descriptors."""


@dataclass(eq=False)
class SideNode(Node):
    """`get_side_output`."""

    tag: OutputTag | None = None


@dataclass(eq=False)
class StatelessNode(Node):
    """`map`, `flat_map`, `filter` and `process` on a stream without a key.

    Attributes:
        function: A `ProcessFunction`, or an adapter.
        chains_on: Whether it may run in the operator of the node before it.
    """

    function: Any = None
    chains_on: bool = True


@dataclass(eq=False)
class KeyedNode(Node):
    """A function, or windows, after `key_by`."""

    function: Any = None
    key: Key | None = None


@dataclass(eq=False)
class TwoInputNode(Node):
    """A function of two inputs, each with or without a key."""

    function: Any = None
    keys: tuple[Key | None, Key | None] = (None, None)


@dataclass(eq=False)
class BroadcastProcessNode(Node):
    """A function with a broadcast stream as second input, which is kept in broadcast states."""

    function: Any = None
    key: Key | None = None
    descriptors: tuple[MapStateDescriptor, ...] = ()


__all__ = [
    "BroadcastNode",
    "BroadcastProcessNode",
    "CollectionNode",
    "FrameNode",
    "KeyedNode",
    "Node",
    "SideNode",
    "SinkEntry",
    "StatelessNode",
    "TimedNode",
    "TwoInputNode",
    "UnionNode",
]
