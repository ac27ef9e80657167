"""How a function emits rows: generators, lists, nothing; null fields, and the rows that it gets."""

from collections.abc import Iterable
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, ProcessFunction, Row

COLUMNS = "k string, n bigint, text string, flag boolean, real double"


class Rows(KeyedProcessFunction):
    """Emits what the record names."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        one = (value.k, 1, "x", True, 0.5)
        return {
            "none": lambda: None,
            "empty": lambda: [],
            "list": lambda: [Row(*one), Row(*one)],
            "generator": lambda: (Row(value.k, number, "x", False, 1.0) for number in range(3)),
            "nulls": lambda: [Row(value.k, None, None, None, None)],
            "falsy": lambda: [Row(value.k, 0, "", False, 0.0)],
            "extremes": lambda: [Row(value.k, 2**63 - 1, "日本 \U0001f600", True, 1.7976931348623157e308),
                                 Row(value.k, -(2**63), "\n\t\"", False, -5e-324)],
        }[value.do]()  # fmt: skip


class Input(ProcessFunction):
    """Shows a record, by every way to its fields."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        by_place = [value[0], value[1], value[2], value[3], value[4]]
        by_name = [value.k, value.n, value.text, value.flag, value.real]
        yield Row(value.k, f"{by_place} {by_name == by_place} {len(value)} {list(value) == by_place}")


def giving(*what: str) -> list[Any]:
    return [element("a", word) for word in what]


ODD = [("a", 1, "x", True, 0.5), ("b", None, None, None, None), ("", 0, "", False, -0.0),
       ("日本", -(2**63), "\U0001f600", True, 1e300)]  # fmt: skip
SCENARIOS = [
    Scenario("what_a_function_returns", "None and empty lists give nothing; lists and generators give rows.",
             Operation("process", Rows), giving("none", "list", "empty", "generator", "none"),
             input="k string, do string", output=COLUMNS),
    Scenario("what_a_field_may_be", "Fields may be null, false in Python, or as large as their type.",
             Operation("process", Rows), giving("nulls", "falsy", "extremes"), input="k string, do string",
             output=COLUMNS),
    Scenario("what_a_record_is", "A record is a row: fields by place and by name, length, iteration.",
             Operation("process", Input), [element(*row) for row in ODD], input=COLUMNS, key=None),
]  # fmt: skip
