"""From what feeds an operator to the columns of its exchange, as Spark SQL."""

from collections.abc import Callable

from state_engine.runtime.two_inputs import INPUT
from state_engine.spark.graph import OperatorNode
from state_engine.spark.names import quote_always
from state_engine.spark.sources import SOURCE, Sources


def expressions(node: OperatorNode, input_: int, column: Callable[[int], str]) -> list[str]:
    """Returns an operator's columns made of the records of one of its inputs.

    Args:
        node: The operator.
        input_: 1 or 2.
        column: Gives the input's column of a number, in Spark SQL.
    """
    if node.two_inputs is None:
        return [column(n) for n in range(len(node.input.names))]
    made = []
    for place, (name, type_) in enumerate(zip(node.input.names, node.input.types, strict=True)):
        found = node.two_inputs.column_of(input_, place)
        null = f"cast({input_ if name == INPUT else 'null'} as {type_.ddl()})"
        made.append(null if found is None else column(found))
    return made


def from_batch(node: OperatorNode, sources: Sources) -> list[str]:
    """Returns an operator's columns made of a batch, by the source that each record is of."""
    made = {
        source.number: expressions(node, input_, lambda n, number=source.number: sources.column(number, n))  # type: ignore[misc]
        for source, input_ in node.sources
    }
    chosen = []
    for name, *ways in zip(node.input.names, *made.values(), strict=True):
        one = ways[0]
        if len(set(ways)) > 1:
            cases = (f"when {number} then {way}" for number, way in zip(made, ways, strict=True))
            one = f"case {SOURCE} {' '.join(cases)} end"
        chosen.append(_as(one, name))
    return chosen


def restriction(node: OperatorNode, sources: Sources) -> str | None:
    """Returns the condition for the records of a batch that an operator reads, None if it reads all."""
    numbers = [source.number for source, _ in node.sources]
    return None if sources.are_all(numbers) else f"{SOURCE} in ({', '.join(map(str, numbers))})"


def from_upstream(node: OperatorNode, input_: int) -> list[str] | None:
    """Returns an operator's columns made of another one's output; None where they are the same."""
    if node.two_inputs is None:
        return None
    names = (node.two_inputs.first if input_ == 1 else node.two_inputs.second).names
    made = expressions(node, input_, lambda n: quote_always(names[n]))
    return [_as(one, name) for one, name in zip(made, node.input.names, strict=True)]


def order_of(node: OperatorNode) -> list[str]:
    """Returns what a subtask's records are sorted by.

    With two inputs their order columns make one order; input 1 comes first among equals.
    """
    two = node.two_inputs
    if two is None:
        return [quote_always(name) for name in node.order_by]
    if not node.order_by and not two.second_order:
        return []
    made = []
    for n in range(max(len(node.order_by), len(two.second_order))):
        sides = ["null", "null"]
        if node.order_by:
            sides[0] = quote_always(node.order_by[n])
        if two.second_order:
            place = two.places[two.second.names.index(two.second_order[n])]
            sides[1] = quote_always(two.columns.names[place])
        made.append(sides[0] if sides[0] == sides[1] else f"if({INPUT} = 1, {sides[0]}, {sides[1]})")
    return [*made, INPUT]


def _as(expression: str, name: str) -> str:
    return expression if expression == quote_always(name) else f"{expression} as {quote_always(name)}"


__all__ = ["expressions", "from_batch", "from_upstream", "order_of", "restriction"]
