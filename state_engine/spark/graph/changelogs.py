"""Which operators may read a changelog: rows that say, in a column of text, what holds no more."""

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
    """Checks that a declared operator takes back what a changelog in front of it takes back.

    Flink SQL's planner refuses the same. A function of the author's may read any rows. So may an operator behind a
    `map`, or behind a `where` or a `select` that makes something of the column: there the author has decided.

    Raises:
        JobDefinitionError: It would take rows that hold no more for records like others.
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
                "and -D, which say what holds no more, for records like others.",
                action=f"Put where(\"{OP} in ('+I', '+U')\") in front, if each new row shall count; to take back what "
                f"goes, use aggregate(..., retract=True) in place of {function.verb}().",
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
    """Returns whether the column itself is there: no text, no other name, no field of a struct."""
    plain = _QUOTED.sub(lambda found: found[0] if found[0].lower() == f"`{OP}`" else "''", expression)
    return bool(_USES_OP.search(plain))


__all__ = ["check_reads_changelog"]
