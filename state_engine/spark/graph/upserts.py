"""Checks whether an output can be upserted: which row of a key is the last one must not depend on the parallelism."""

from state_engine.api.sinks import Upsert
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.declared.changelog import OP
from state_engine.runtime.declared.top_n import RANK, TopN
from state_engine.runtime.outputs import MAIN
from state_engine.spark.graph.nodes import OperatorNode


def check_upsert(node: OperatorNode, output: str, upsert: Upsert) -> None:
    """Checks the keys of an upsert against the operator that emits the rows.

    Args:
        node: The operator.
        output: Name of its output.
        upsert: What the sink does with the rows.

    Raises:
        JobDefinitionError: A column does not exist; rows of one key may come from several subtasks, and no column
            orders them; or the output is a changelog, and its retractions would be taken for rows.
    """
    columns = (node.output if output == MAIN else node.side_outputs[output]).names
    named = (*upsert.keys, *(name for name in (upsert.version_by, upsert.op) if name is not None))
    if missing := [name for name in named if name not in columns]:
        raise JobDefinitionError(
            f"The output of operator {node.uid!r} has no column {missing[0]!r}, which the sink names.",
            action=f"Choose from its columns: {', '.join(columns)}.",
        )
    key = _key_of(node)
    if upsert.version_by is None and not (key and set(key) <= set(upsert.keys)):
        what = f"is keyed by {', '.join(key)}" if key else "has no key"
        raise JobDefinitionError(
            f"The sink upserts by {', '.join(upsert.keys)}, but operator {node.uid!r} {what}: rows with the same keys "
            "may come from several subtasks, and none of them would be the last one.",
            action="Let keys contain the columns of the operator's key, or give version_by=, the column whose largest "
            "value wins.",
        )
    function = node.function
    if output == MAIN and upsert.op is None and isinstance(function, Declared) and function.gives_changelog:
        raise JobDefinitionError(
            f"The output of operator {node.uid!r} is a changelog: rows with {OP} -U and -D retract earlier rows, and "
            "the sink would write them like others.",
            action=f"Give the sink op={OP!r}: rows with -U are then left out, and those with -D delete.",
        )
    if output == MAIN and isinstance(function, Declared) and function.gives_changelog:
        _check_changelog(node, function, upsert, key)


def _check_changelog(node: OperatorNode, function: Declared, upsert: Upsert, key: tuple[str, ...]) -> None:
    """Checks that a row of a changelog replaces the one that it updates: their key is exactly that of the changelog."""
    of_rows = (*key, RANK) if isinstance(function, TopN) else key
    if set(upsert.keys) != set(of_rows):
        raise JobDefinitionError(
            f"The output of operator {node.uid!r} is a changelog with one row for each {', '.join(of_rows)}, and the "
            f"sink upserts by {', '.join(upsert.keys)}: a row that was replaced would stay.",
            action=f"Give the sink keys=[{', '.join(map(repr, of_rows))}].",
        )


def _key_of(node: OperatorNode) -> tuple[str, ...]:
    """Returns the columns by which the records reach the operator's subtask: those of the head of its chain."""
    while node.chained and isinstance(origin := node.edges[0].origin, OperatorNode):
        node = origin
    return node.key


__all__ = ["check_upsert"]
