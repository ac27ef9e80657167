"""Values of every type are put into a value state, and read with the next record."""

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, Row, Types, ValueStateDescriptor


def plain(value: Any) -> Any:
    """Rows and tuples as tuples, arrays as lists."""
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        return value
    inner = [plain(one) for one in value]
    return inner if isinstance(value, list) else tuple(inner)


class Keeps(KeyedProcessFunction):
    """Puts one value after the other, and shows what it reads."""

    def __init__(self, make_type: Any, values: list[Any]) -> None:
        self.make_type = make_type
        self.values = values

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("s", self.make_type()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield Row(value.k, f"{plain(self.state.value())!r}")
        if value.v < len(self.values):
            self.state.update(self.values[value.v])


def keeps(name: str, make_type: Any, *values: Any, mode: str = "thread") -> Scenario:
    operation = Operation("process", lambda: Keeps(make_type, list(values)))
    steps = [element("a", number) for number in range(len(values) + 1)]
    return Scenario(name, f"A value state of {name.replace('_', ' ')}.", operation, steps, mode=mode)


NESTED = {"x": [1, 2], "y": []}
SCENARIOS = [
    keeps("bytes_and_shorts", lambda: Types.TUPLE([Types.BYTE(), Types.SHORT()]), (-128, 32767), (127, -32768)),
    keeps("ints", Types.INT, 2**31 - 1, -(2**31), 0),
    keeps("doubles", Types.DOUBLE, 0.1, -0.0, 5e-324, float("inf"), float("nan")),
    keeps("floats", Types.FLOAT, 0.5, 0.1, 16777217.0, float("-inf")),
    keeps("texts", Types.STRING, "", "日本 \U0001f600", "a\nb"),
    keeps("binary", lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()), b"", b"\x00\xff\x80", mode="process"),
    keeps("dates", Types.SQL_DATE, datetime.date(1970, 1, 1), datetime.date(1969, 12, 31), datetime.date(2400, 2, 29)),
    keeps("timestamps", Types.SQL_TIMESTAMP, datetime.datetime(1970, 1, 1), 
          datetime.datetime(2026, 2, 3, 4, 5, 6, 789000)),
    keeps("decimals", Types.BIG_DEC, decimal.Decimal("1.5"), decimal.Decimal("-0.000000000000000001")),
    keeps("lists_of_lists", lambda: Types.LIST(Types.LIST(Types.LONG())), [[1], [], [2, 3]], []),
    keeps("maps_of_lists", lambda: Types.MAP(Types.STRING(), Types.LIST(Types.LONG())), NESTED, {}),
    keeps("tuples_in_tuples", lambda: Types.TUPLE([Types.LONG(), Types.TUPLE([Types.STRING(), Types.BOOLEAN()])]),
          (1, ("x", True)), (2, ("", False))),
    keeps("rows_with_nulls", lambda: Types.ROW([Types.LONG(), Types.STRING()]), Row(None, "x"), Row(1, None)),
]  # fmt: skip
