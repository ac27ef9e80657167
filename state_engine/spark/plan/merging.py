"""Makes the columns of an operator's exchange from the records of its inputs, as Spark SQL."""

from collections.abc import Callable, Sequence
from functools import partial

from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.two_inputs import INPUT, TwoInputs
from state_engine.spark.graph.nodes import OperatorNode
from state_engine.spark.graph.sources import SOURCE, Sources
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import PARTITION


def expressions(node: OperatorNode, input_: int, column: Callable[[int], str]) -> list[str]:
    """Returns an operator's columns, computed from the records of one of its inputs.

    Args:
        node: The operator.
        input_: 1 or 2.
        column: Returns the input's column with a given number, in Spark SQL.
    """
    if node.two_inputs is None:
        return [column(n) for n in range(len(node.input.names))]
    made = []
    for place, (name, type_) in enumerate(zip(node.input.names, node.input.types, strict=True)):
        index = node.two_inputs.column_of(input_, place)
        constant = f"cast({input_ if name == INPUT else 'null'} as {type_.ddl()})"
        made.append(constant if index is None else column(index))
    return made


def from_batch(node: OperatorNode, sources: Sources) -> list[str]:
    """Returns an operator's columns, computed from a batch by the source of each record."""
    made = {}
    for source, n in node.sources:
        number = source.number
        columns = expressions(node, node.edges[n].input, partial(sources.column, number))
        time, partition = (sources.own_column(number, name) for name in (EVENT_TIME, PARTITION))
        made[number] = [*columns, *timing(node, n, time, partition)]
    chosen = []
    for name, *ways in zip([*node.input.names, *timing_names(node)], *made.values(), strict=True):
        expression = ways[0]
        if len(set(ways)) > 1:
            cases = (f"when {number} then {way}" for number, way in zip(made, ways, strict=True))
            expression = f"case {SOURCE} {' '.join(cases)} end"
        chosen.append(_as(expression, name))
    return chosen


def timing_names(node: OperatorNode) -> list[str]:
    """Returns the names of the columns that carry event time into an operator."""
    return [*([EVENT_TIME] if node.timed else []), *([PARTITION] if node.tells_partitions else [])]


def timing(node: OperatorNode, number: int, time: str | None, partition: str | None) -> list[str]:
    """Returns the expressions of these columns for the records of one edge.

    Args:
        node: The operator.
        number: Number of the edge.
        time: The column that holds the records' event times, if there is one.
        partition: The column that holds their partitions, if there is one.
    """
    strategy = node.edges[number].strategy
    made = [time or "cast(null as bigint)"] if node.timed else []
    if node.tells_partitions:
        has_watermark = strategy is not None and strategy.out_of_orderness is not None
        place = f"concat('{number}|', {partition})" if partition else f"'{number}|'"
        made.append(place if has_watermark else "cast(null as string)")
    return made


def restriction(node: OperatorNode, sources: Sources) -> str | None:
    """Returns the condition for the records of a batch that an operator reads; None if it reads all."""
    numbers = [source.number for source, _ in node.sources]
    return None if sources.are_all(numbers) else f"{SOURCE} in ({', '.join(map(str, numbers))})"


def from_upstream(node: OperatorNode, number: int) -> list[str] | None:
    """Returns an operator's columns, computed from the records of one edge; None if they are the same."""
    edge, two = node.edges[number], node.two_inputs
    if two is None and edge.timed == node.timed and not node.tells_partitions:
        return None
    names = (node.input if two is None else two.first if edge.input == 1 else two.second).names
    made = expressions(node, edge.input, lambda n: quote_always(names[n]))
    partition = PARTITION if edge.strategy is not None and edge.strategy.partition is not None else None
    made += timing(node, number, EVENT_TIME if edge.timed else None, partition)
    return [_as(one, name) for one, name in zip(made, [*node.input.names, *timing_names(node)], strict=True)]


def order_of(node: OperatorNode) -> list[str]:
    """Returns what a subtask's records are sorted by: their event time, if they have any, then the author's order.

    With two inputs, the order columns of both make one order; input 1 comes first among equals. Broadcast elements come
    before all records.
    """
    two, time = node.two_inputs, [EVENT_TIME] if node.timed else []
    if two is None:
        return [*time, *map(quote_always, node.order_by)]
    if node.broadcast_states:
        return [f"-{INPUT}", *time, *_of_elements(two), *_of_input(1, node.order_by)]
    if not node.order_by and not two.second_order:
        return [*time, INPUT] if time else []
    made = time
    for n in range(max(len(node.order_by), len(two.second_order))):
        sides = ["null", "null"]
        if node.order_by:
            sides[0] = quote_always(node.order_by[n])
        if two.second_order:
            place = two.places[two.second.names.index(two.second_order[n])]
            sides[1] = quote_always(two.columns.names[place])
        made.append(sides[0] if sides[0] == sides[1] else f"if({INPUT} = 1, {sides[0]}, {sides[1]})")
    return [*made, INPUT]


def _of_elements(two: TwoInputs) -> list[str]:
    """Returns all columns by which broadcast elements can be sorted: every subtask has them in the same order."""
    places = zip(two.second.types, two.places, strict=True)
    return _of_input(2, [two.columns.names[place] for type_, place in places if "map<" not in type_.ddl()])


def _of_input(input_: int, names: Sequence[str]) -> list[str]:
    return [f"if({INPUT} = {input_}, {quote_always(name)}, null)" for name in names]


def _as(expression: str, name: str) -> str:
    return expression if expression == quote_always(name) else f"{expression} as {quote_always(name)}"


__all__ = ["expressions", "from_batch", "from_upstream", "order_of", "restriction", "timing_names"]
