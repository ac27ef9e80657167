"""Checks which operators may read a changelog: rows with a text column that marks rows as retracted."""

import re

from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.declared.changelog import OP
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.running import RunningAdapter
from state_engine.spark.graph.nodes import Edge, MapStep, OperatorNode, SelectStep, WhereStep

_USES_OP = re.compile(rf"(?<![\w.`])(?:{OP}\b|`{OP}`)", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
_IS_OP = re.compile(rf"\s*`?{OP}`?\s*", re.IGNORECASE)


def check_reads_changelog(node: OperatorNode) -> None:
    """Checks that a declared operator retracts what an upstream changelog retracts.

    Flink SQL's planner refuses the same. A function of the author's may read any rows. So may an operator after a
    `map`, or after a `where` or a `select` that makes something of the column: there the author has decided.

    Raises:
        JobDefinitionError: The operator would count retracted rows as ordinary records.
    """
    function = node.function
    if not isinstance(function, (Declared, RunningAdapter)):
        return
    if isinstance(function, Declared) and function.reads_changelog:
        return
    for edge in node.edges:
        origin = edge.origin
        if isinstance(origin, OperatorNode) and _is_changelog(origin, edge):
            raise JobDefinitionError(
                f"{function.verb}() reads the changelog of operator {origin.uid!r}: it would take rows with {OP} -U "
                "and -D, which retract earlier rows, for ordinary records.",
                action=f"Put where(\"{OP} in ('+I', '+U')\") before it, if each new row shall count; to retract the "
                f"old rows, use aggregate(..., retract=True) in place of {function.verb}().",
            )


def _is_changelog(origin: OperatorNode, edge: Edge) -> bool:
    function = origin.function if edge.output == MAIN else None
    return isinstance(function, Declared) and function.gives_changelog and not any(map(_decides, edge.steps))


def _decides(step: object) -> bool:
    match step:
        case MapStep():
            return True
        case WhereStep(condition):
            return _uses_op(condition)
        case SelectStep(expressions):
            return any(_uses_op(one) and not _IS_OP.fullmatch(one) for one in expressions)
    return False


def _uses_op(expression: str) -> bool:
    """Returns whether an expression uses the column itself: not a text, another name, or a field of a struct."""
    plain = _QUOTED.sub(lambda found: found[0] if found[0].lower() == f"`{OP}`" else "''", expression)
    return bool(_USES_OP.search(plain))


__all__ = ["check_reads_changelog"]
