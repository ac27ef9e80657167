"""What an operator is, as data: made when the job is built, carried to every worker, read by the planner."""

from dataclasses import dataclass, field
from typing import Literal

from state_engine.api.functions import Function
from state_engine.api.types import StructType
from state_engine.serialization.column import Column

OperatorKind = Literal["keyed_process", "process"]


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
        side_outputs: Columns of each side output that somebody reads, by tag id.
        max_parallelism: Number of key groups.
        generated_uid: Whether the author gave no uid.
        parameters: Job parameters, for `get_job_parameter`.
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


__all__ = ["OperatorKind", "OperatorSpec"]
