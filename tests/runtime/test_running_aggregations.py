"""Running aggregations against a plain loop: first records, ties, nulls, NaN, and restored state."""

import datetime
import math
import pickle
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import Types
from state_engine.api.type_hints import parse_columns_ddl, type_information
from state_engine.errors import JobDefinitionError
from state_engine.runtime.failures import OperatorFailure
from state_engine.runtime.operators import operator_of
from state_engine.runtime.running import RunningAdapter
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import writer
from state_engine.serialization.rows import write_columns
from state_engine.serialization.types import columns_of, columns_to_arrow

INPUT = "k string, at bigint, v bigint"
VERBS = ["sum", "min", "max", "min_by", "max_by"]
RNG = random.Random(3)
RECORDS = [(RNG.choice(["a", "b", None]), at, RNG.randrange(-4, 5)) for at in range(60)]


def running(run: Any, verb: Any, field: int | str, columns: str = INPUT) -> Any:
    struct = parse_columns_ddl(columns)
    adapter = pickle.loads(pickle.dumps(RunningAdapter(verb, field, struct)))  # as it is sent to a worker
    return run(adapter, columns, input=columns, key=["k"])


def fed(operator: Any, *records: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in operator.feed(*records)["main"]]


def plain(verb: str, records: list[Any]) -> list[Any]:
    """Returns the results of a loop over dictionaries."""
    kept: dict[Any, Any] = {}
    rows = []
    for k, at, v in records:
        old = kept.setdefault(k, None)
        if old is None:
            kept[k] = (k, at, v)
        elif verb == "sum":
            kept[k] = (*old[:2], old[2] + v)
        elif v < old[2] if verb.startswith("min") else v > old[2]:
            kept[k] = (k, at, v) if verb.endswith("_by") else (*old[:2], v)
        rows.append(kept[k])
    return rows


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("field", ["v", 2])
def test_one_row_for_each_record_as_a_loop_gives_it(run: Any, verb: str, field: int | str) -> None:
    assert fed(running(run, verb, field), *RECORDS) == plain(verb, RECORDS)


@pytest.mark.parametrize("verb", VERBS)
def test_restored_state_goes_on(run: Any, verb: str) -> None:
    rows: list[Any] = []
    log: list[Any] = []
    for start in range(0, len(RECORDS), 13):
        operator = running(run, verb, "v")
        for schema, table in log:
            operator.operator.backend.apply(schema.name, table)
        rows += fed(operator, *RECORDS[start : start + 13])
        log += operator.operator.backend.freeze(5_000)
    assert {schema.name for schema, _ in log} == {f"{verb}_v"}
    assert rows == plain(verb, RECORDS)


def test_the_other_fields_are_those_of_the_first_record_or_of_the_extreme(run: Any) -> None:
    records = [("a", 1, 5), ("a", 2, 3), ("a", 3, 9)]
    assert fed(running(run, "sum", "v"), *records)[-1] == ("a", 1, 17)
    assert fed(running(run, "min", "v"), *records)[-1] == ("a", 1, 3)
    assert fed(running(run, "max", "v"), *records)[-1] == ("a", 1, 9)
    assert fed(running(run, "min_by", "v"), *records)[-1] == ("a", 2, 3)
    assert fed(running(run, "max_by", "v"), *records)[-1] == ("a", 3, 9)


@pytest.mark.parametrize("verb", ["min_by", "max_by"])
def test_the_first_of_several_extremes_stays(run: Any, verb: str) -> None:
    assert fed(running(run, verb, "v"), ("a", 1, 5), ("a", 2, 5), ("a", 3, 5)) == [("a", 1, 5)] * 3


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("before", [[], [("a", 1, 5)]], ids=["first", "later"])
def test_a_null_stops_the_job_at_its_own_record(run: Any, verb: str, before: list[Any]) -> None:
    with pytest.raises(OperatorFailure, match=rf"{verb}\(\) raised ValueError: the field 'v' is null.*where") as caught:
        fed(running(run, verb, "v"), *before, ("a", 2, None))
    assert caught.value.failure.record == "Row(k='a', at=2, v=None)"


def test_nulls_in_other_fields_do_not_matter(run: Any) -> None:
    assert fed(running(run, "sum", "v"), (None, None, 1), (None, 2, 2)) == [(None, None, 1), (None, None, 3)]


def test_nan_is_larger_than_every_number(run: Any) -> None:
    columns, nan = "k string, v double", math.nan
    for values in ([1.0, nan, 2.0], [nan, 1.0, 2.0], [2.0, 1.0, nan]):
        records = [("a", v) for v in values]
        for verb in ("min", "min_by"):
            assert fed(running(run, verb, "v", columns), *records)[-1] == ("a", 1.0)
        for verb in ("max", "max_by"):
            assert math.isnan(fed(running(run, verb, "v", columns), *records)[-1][1])


ORDERED = {
    "string": ("ab", "b"),
    "boolean": (False, True),
    "binary": (b"a", b"b"),
    "date": (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    "timestamp_ntz": (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)),
    "decimal(38,18)": (Decimal("1.000000000000000001"), Decimal("1.000000000000000002")),
    "float": (0.25, 0.5),
}


@pytest.mark.parametrize("kind", ORDERED)
def test_whatever_has_an_order_has_extremes(run: Any, kind: str) -> None:
    columns, (low, high) = f"k string, v {kind}", ORDERED[kind]
    for values in ((low, high), (high, low)):
        records = [("a", v) for v in values]
        assert fed(running(run, "min", "v", columns), *records)[-1] == ("a", low)
        assert fed(running(run, "max_by", "v", columns), *records)[-1] == ("a", high)


def test_sums_of_decimals_are_exact(run: Any) -> None:
    large, small = Decimal("12345678901234567890.000000000000000001"), Decimal("0.000000000000000002")
    operator = running(run, "sum", "v", "k string, v decimal(38,18)")
    assert fed(operator, ("a", large), ("a", small))[-1] == ("a", Decimal("12345678901234567890.000000000000000003"))


def test_sums_of_floats_do_not_depend_on_where_an_epoch_ends(run: Any) -> None:
    columns, records = "k string, v float", [("a", 0.1)] * 50
    in_one = fed(running(run, "sum", "v", columns), *records)
    rows, log = [], []
    for record in records:
        operator = running(run, "sum", "v", columns)
        for schema, table in log:
            operator.operator.backend.apply(schema.name, table)
        rows += fed(operator, record)
        log = [*log, *operator.operator.backend.freeze(5_000)]
    assert rows == in_one


def test_a_sum_that_outgrows_its_type_is_refused(run: Any) -> None:
    with pytest.raises(OperatorFailure, match=r"'v'.*tinyint"):
        fed(running(run, "sum", "v", "k string, v tinyint"), ("a", 100), ("a", 100))
    with pytest.raises(OperatorFailure, match="OverflowError"):
        fed(running(run, "sum", "v", "k string, v float"), ("a", 3e38), ("a", 3e38))


def test_a_field_that_python_cannot_spell(run: Any) -> None:
    operator = running(run, "sum", "größe & class", "k string, `größe & class` int")
    assert fed(operator, ("a", 1), ("a", 2)) == [("a", 1), ("a", 3)]
    assert [schema.name for schema, _ in operator.operator.backend.freeze(5_000)] == ["sum_gr__e___class"]


@dataclass
class Sale:
    k: str
    v: int


@pytest.mark.parametrize("carried", [Sale, Types.TUPLE([str, int])], ids=["dataclass", "tuple"])
@pytest.mark.parametrize(("verb", "last"), [("sum", 6), ("max", 3), ("max_by", 3)])
def test_records_that_an_upstream_operator_made(carried: Any, verb: Any, last: int) -> None:
    """The upstream operator's output type defines the form of a record here."""
    struct: Any = type_information(carried)
    key = columns_of(struct)[:1]
    operator = operator_of(
        OperatorSpec("op", "keyed_process", RunningAdapter(verb, 1, struct), struct, key, (), struct), 0, 1
    )
    operator.open()
    operator.begin(0, None, 0)
    arrays = write_columns([("a", 3), ("a", 1), ("a", 2)], struct, [writer(t) for t in struct.types])
    outputs = operator.process(pa.RecordBatch.from_arrays(arrays, schema=columns_to_arrow(columns_of(struct))))
    assert list(outputs["main"].to_pylist()[-1].values()) == ["a", last]


# Refused when the job is built --------------------------------------------------------------------------------------

COLUMNS = parse_columns_ddl("k string, v bigint, parts array<int>")
WRONG = {
    "missing": ("V", "got the field 'V'; the stream has k, v, parts"),
    "outside": (3, "got the position 3; the stream has 3 fields"),
    "negative": (-1, "got the position -1"),
    "neither": (1.0, "got 1.0 for a field"),
    "bool": (True, "got True for a field"),
    "list": ("parts", "cannot aggregate the field 'parts': it is array<int>"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", WRONG)
def test_a_field_that_cannot_be_aggregated(verb: Any, case: str) -> None:
    field, message = WRONG[case]
    with pytest.raises(JobDefinitionError, match=rf"{verb}\(\) ") as caught:
        RunningAdapter(verb, field, COLUMNS)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert caught.value.action


@pytest.mark.parametrize("kind", ["string", "boolean", "binary", "date", "timestamp"])
def test_only_numbers_have_a_sum(kind: str) -> None:
    with pytest.raises(JobDefinitionError, match=rf"sum\(\) cannot aggregate the field 'v': it is {kind}"):
        RunningAdapter("sum", "v", parse_columns_ddl(f"k string, v {kind}"))
