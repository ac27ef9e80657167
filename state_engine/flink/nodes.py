"""What a program has said so far: a graph that `execute` makes a job of.

PyFlink's streams are told their uid, name and parallelism after they were made, so nothing is built before the end.
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
    """A sink on a stream, or what makes one for a job.

    `quiet` ones need no uid, because nobody looks for their output.
    """

    node: "Node"
    sink: Any
    uid: str | None = None
    quiet: bool = False


@dataclass(eq=False)
class Node:
    """One transformation.

    Attributes:
        verb: What the author called.
        inputs: The nodes in front.
        type: Of its elements; None where the author has not declared it.
        uid: Stable name of the operator, if it is one.
        name: For messages.
        non_parallel: Whether it asks for one subtask.
        chains_off: Whether it may run in one operator with what is behind it.
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
        """What messages call it."""
        return f"{self.verb}() {self.uid or self.name!r}" if self.uid or self.name else f"{self.verb}()"

    def columns(self, wanted_by: str) -> StructType:
        """Returns the columns of its elements.

        Raises:
            JobDefinitionError: They are not known.
        """
        if self.type is None:
            raise JobDefinitionError(
                f"{self.label} has no output_type, and {wanted_by} needs one: nothing is pickled here.",
                action="Declare it: output_type=Types.STRING(), Types.TUPLE([...]), Types.ROW_NAMED([...], [...]). "
                "It may be missing only where map, flat_map or filter follows, which run in the same operator.",
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
    """`map`, `flat_map`, `filter` and `process` on a stream without key.

    Attributes:
        function: A `ProcessFunction`, or an adapter.
        chains_on: Whether it may run in one operator with what is in front of it.
    """

    function: Any = None
    chains_on: bool = True


@dataclass(eq=False)
class KeyedNode(Node):
    """A function, or windows, behind `key_by`."""

    function: Any = None
    key: Key | None = None


@dataclass(eq=False)
class TwoInputNode(Node):
    """A function of two inputs, each with its key or without one."""

    function: Any = None
    keys: tuple[Key | None, Key | None] = (None, None)


@dataclass(eq=False)
class BroadcastProcessNode(Node):
    """A function beside a broadcast stream, which is the second input and is kept in states."""

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
