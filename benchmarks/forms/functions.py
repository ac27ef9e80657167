"""The function of `row/six deltas`. Workers import this module."""

from collections.abc import Iterator
from typing import Any

from benchmarks.latency.functions import Count
from state_engine.api import KeyedProcessFunction, OutputTag

APART = [OutputTag(f"apart_{number}", "k bigint, n bigint, file bigint") for number in range(1, 6)]


class CountApart(Count):
    """As `Count`, with a sixth of the rows in the main output, and a sixth in each side output."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:  # type: ignore[override]
        [row] = super().process_element(value, ctx)
        part = row[1] % 6
        yield (APART[part - 1], row) if part else row


__all__ = ["APART", "CountApart"]
