"""An operator as data: made when the job is built, sent to every worker, read by the planner."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.functions import Function
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import key_hasher
from state_engine.log.ops import RESERVED
from state_engine.runtime.two_inputs import TwoInputs
from state_engine.serialization.column import Column

OperatorKind = Literal[
    "keyed_process", "process", "keyed_co_process", "co_process", "keyed_broadcast_process", "broadcast_process"
]


@dataclass(frozen=True)
class OperatorSpec:
    """One operator.

    Attributes:
        uid: Its stable name.
        kind: Which interface `function` has.
        function: The author's object; workers get copies of it.
        input: Columns of the records that it receives.
        key: Its key columns; empty for a function without keys.
        order_by: Columns by which its records are sorted within the subtask.
        output: Columns of its main output.
        side_outputs: Columns of each side output that has a reader, by tag id.
        max_parallelism: Number of key groups.
        generated_uid: Whether the author gave no uid.
        parameters: Job parameters, for `get_job_parameter`.
        emits_event_time: Whether a downstream operator needs the event times of one of its outputs. If so, its main
            output has them.
        timed_side_outputs: The side outputs that have event times too, by tag id.
        out_of_orderness: For an operator whose only input is one ordered stream: by how many ms a record may be older
            than one that came before it. The watermark then follows the records within an epoch. None for all others.
        two_inputs: How two inputs share the columns of `input`; None for an operator with one. `key` and `order_by` are
            those of input 1.
        broadcast: The broadcast states that input 2 changes. If there are none, input 2 is an ordinary input.
        keeps_rows: Whether the next operator takes the rows of its main output as the Python objects that the function
            gave (`Operator.take_rows`).
        writes_main: Whether its main output is written as columns; side outputs always are.
    """

    uid: str
    kind: OperatorKind
    function: Function
    input: StructType
    key: tuple[Column, ...]
    order_by: tuple[str, ...]
    output: StructType
    side_outputs: dict[str, StructType] = field(default_factory=dict)
    max_parallelism: int = 128
    generated_uid: bool = False
    parameters: dict[str, str] = field(default_factory=dict)
    emits_event_time: bool = False
    timed_side_outputs: tuple[str, ...] = ()
    out_of_orderness: int | None = None
    two_inputs: TwoInputs | None = None
    broadcast: tuple[MapStateDescriptor, ...] = ()
    keeps_rows: bool = False
    writes_main: bool = True


def check_columns(columns: StructType, names: Sequence[str]) -> None:
    """Raises JobDefinitionError unless the stream has columns of these names."""
    missing = sorted(set(names) - set(columns.names))
    if missing:
        raise JobDefinitionError(
            f"The stream has no columns {', '.join(missing)}; it has {', '.join(columns.names)}.",
            action="Check the spelling; names are case-sensitive here.",
        )


def key_columns(columns: StructType, names: Sequence[str]) -> tuple[Column, ...]:
    """Returns the key columns of a stream.

    Raises:
        UnsupportedTypeError: A column cannot be a key.
        JobDefinitionError: A column is missing or has a reserved name.
    """
    check_columns(columns, names)
    reserved = sorted(name for name in names if name.lower() in RESERVED)
    if reserved:
        raise JobDefinitionError(
            f"Key columns may not be called {', '.join(reserved)}: state tables have columns of that name.",
            action="Rename them first: select('value as v', ...).",
        )
    key = tuple(Column(name=name, type=columns.types[columns.names.index(name)].ddl()) for name in names)
    key_hasher([column.type for column in key])
    return key


__all__ = ["OperatorKind", "OperatorSpec", "check_columns", "key_columns"]
