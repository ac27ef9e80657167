"""The same aggregates of windows in both forms, by columns and by rows, and records for them."""

import math
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from state_engine.api import Aggregate, AggregateFunction, OutputTag, Types, WindowFunction
from state_engine.testing import windowed_harness

INPUT = "k string, day date, v bigint, d double"
LATE = OutputTag("late", INPUT)
ALL = {
    "n": Aggregate.count(), "values": Aggregate.count("v"), "total": Aggregate.sum("v"), "mean": Aggregate.avg("v"),
    "least": Aggregate.min("v"), "largest": Aggregate.max("d"), "first": Aggregate.first("v"),
    "last": Aggregate.last("v"),
    "all": Aggregate.collect("v"),
}  # fmt: skip
RESULTS = [
    Types.LONG(),
    Types.LONG(),
    Types.LONG(),
    Types.DOUBLE(),
    Types.LONG(),
    Types.DOUBLE(),
    *[Types.LONG()] * 2,
    Types.LIST(Types.LONG()),
]


class ByRows(AggregateFunction):
    """The same aggregates in the row form, over all records, which it keeps as lists."""

    def create_accumulator(self) -> tuple[list[int | None], list[float | None]]:
        return [], []

    def add(self, value, accumulator):
        accumulator[0].append(value.v)
        accumulator[1].append(value.d)
        return accumulator

    def get_result(self, accumulator):
        v, d = ([one for one in values if one is not None] for values in accumulator)
        largest = max(d, key=lambda one: math.inf if math.isnan(one) else one, default=None)
        return (
            len(accumulator[0]), len(v), sum(v) if v else None, sum(v) / len(v) if v else None, min(v, default=None),
            largest, v[0] if v else None, v[-1] if v else None, v,
        )  # fmt: skip

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithBounds(WindowFunction):
    def apply(self, key, window, inputs):
        start, end = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms) for ms in (window.start, window.end))
        yield *key, start, end, *next(iter(inputs))


def by_columns(assigner, aggregates=ALL, **options):
    return windowed_harness(assigner, ("k", "day"), INPUT, **options).side_output_late_data(LATE).aggregate(aggregates)


def by_rows(assigner, **options):
    names = ["k", "day", "window_start", "window_end", *ALL]
    output = Types.ROW_NAMED(names, [Types.STRING(), Types.SQL_DATE(), *[Types.INSTANT()] * 2, *RESULTS])
    stream = windowed_harness(assigner, ("k", "day"), INPUT, **options).side_output_late_data(LATE)
    return stream.aggregate(ByRows(), WithBounds(), output_type=output)


RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([None, datetime(2024, 1, 1).date()]),
    st.none() | st.integers(-9, 9),
    st.none() | st.sampled_from([1.5, -2.0, math.nan]),
)
EPOCH = st.lists(st.tuples(RECORD, st.integers(-15, 40)), max_size=8)


def rows_of(harness):
    return [repr(tuple(row)) for row in harness.extract_output_values()]


def found(harness):
    """Returns key, start and end in ms, and results of each row."""
    rows = [tuple(row) for row in harness.extract_output_values()]
    return [(row[0], *((bound - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) for bound in row[1:3]),
             *row[3:]) for row in rows]  # fmt: skip
