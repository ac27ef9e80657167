"""Spark's partials of groups of records, merged into states, give the same results as the records themselves."""

import random
from collections import defaultdict
from decimal import Decimal

import pyarrow as pa
import pytest

from state_engine.api import Aggregate
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.backends.time import OperatorTime
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.runtime.declared.numeric import _joined
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.serialization.types import schema_of

COLUMNS = parse_columns_ddl("v bigint, d decimal(28,3), s string, k string")
AGGREGATES = {
    "n": Aggregate.count(),
    "there": Aggregate.count("v"),
    "total": Aggregate.sum("v"),
    "paid": Aggregate.sum("d"),
    "mean": Aggregate.avg("v"),
    "least": Aggregate.min("d"),
    "largest": Aggregate.max("v"),
}
MASK = (1 << 32) - 1


def summed(values):
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


IN_SPARK = {
    "count(1)": len,
    "count({})": lambda values: sum(value is not None for value in values),
    "sum({})": summed,
    "sum(shiftright({}, 32))": lambda values: summed(None if value is None else value >> 32 for value in values),
    f"sum(({{}} & {MASK}))": lambda values: summed(None if value is None else value & MASK for value in values),
    "min({})": lambda values: min((value for value in values if value is not None), default=None),
    "max({})": lambda values: max((value for value in values if value is not None), default=None),
}


class Running:
    """An operator that aggregates and runs epoch by epoch."""

    def __init__(self):
        self.function = Aggregation(["k"], AGGREGATES, COLUMNS)
        key, output = key_columns(COLUMNS, ["k"]), self.function.output
        self.operator = operator_of(OperatorSpec("op", "keyed_process", self.function, COLUMNS, key, (), output), 0, 1)
        self.operator.backend.start("0")
        self.operator.backend.attach((), lambda schema: iter(()), OperatorTime(0, 0))
        self.operator.open(None)

    def epoch(self, *batches):
        """Returns the rows, by key, and the content of the states."""
        self.operator.begin(0, None, 0)
        for batch in batches:
            self.operator.process(batch)
        outputs = self.operator.flush()
        self.operator.snapshot(1, 1)
        changes = {schema.name: sorted(map(repr, rows.to_pylist())) for schema, rows in self.operator.changes()}
        self.operator.settle()
        return {row["k"]: row for row in outputs["main"].to_pylist()}, changes


def partials_of(local, rows):
    """Computes the partials in the way that Spark is told to."""
    of_key = defaultdict(list)
    for row in rows:
        of_key[row["k"]].append(row)
    made = [
        [
            key,
            len(records),
            *(IN_SPARK[p.function]([row.get(p.column) for row in records]) for p in local.partials.values()),
        ]
        for key, records in of_key.items()
    ]
    schema = schema_of(local.columns)
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*made, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(rng, count):
    far = [2**62, -(2**62)] * 9 + [None]  # sums of a key come and go beyond 64 bits
    return [
        {"k": rng.choice(["a", "b", None]), "v": v, "d": rng.choice([None, Decimal("1.125")]), "s": rng.choice("xyz")}
        for v in rng.sample(far, count) + [rng.choice([None, rng.randrange(-9, 9)]) for _ in range(count)]
    ]


@pytest.mark.parametrize("seed", range(5))
def test_merging_partials_is_adding_records(seed):
    rng, by_records, by_partials = random.Random(seed), Running(), Running()
    for epoch in range(4):
        rows = [*rows_of(rng, 2), {"k": "only null", "v": None, "d": None, "s": None}]
        try:
            wanted = by_records.epoch(pa.RecordBatch.from_pylist(rows, schema_of(COLUMNS)))
        except Exception as error:
            with pytest.raises(type(error), match="outgrew bigint"):
                by_partials.epoch(partials_of(by_partials.function.local, rows))
            return
        parts = [rows] if epoch % 2 else [rows[:2], rows[2:]]
        assert by_partials.epoch(*(partials_of(by_partials.function.local, part) for part in parts)) == wanted


@pytest.mark.parametrize("total", [0, -1, 1, 2**32, -(2**32) - 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**80])
def test_halves_are_put_together(total):
    high, low = total >> 32, total & MASK
    found = _joined(pa.array([high - 3, None]), pa.array([low + 3 * 2**32, None]))
    assert [None if one is None else int(one) for one in found.to_pylist()] == [total, None]
    assert pa.types.is_integer(found.type) == (-(2**63) <= total < 2**63)
