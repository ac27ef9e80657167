"""`latest` against plain Python: by arrival and by a column, warm and restored, on both backends."""

import math
from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given, settings
from newest_records import COLUMNS, EPOCHS, replaced

from state_engine.api import StateTtlConfig, Time
from state_engine.api.output_tag import columns_type
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.latest import Latest
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness


def harness(by=None, columns=COLUMNS, key="k", ttl=None, **options):
    return Harness(Latest(parse_columns_ddl(columns), by, ttl), key, columns, columns, **options)


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("by", [None, "v", "d", "s"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_plain_python(by, backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(EPOCHS)
    def check(epochs):
        one = harness(by, state_backend=backend)
        one.open()
        for records, wanted in zip(epochs, replaced(epochs, by), strict=True):
            one.process_elements(records)
            rows = one.extract_output_values()
            one.clear_output()
            assert len(rows) == len(wanted)
            assert {row[0]: repr(tuple(row)) for row in rows} == {k: repr(new) for k, (_, new) in wanted.items()}
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = harness(by, state_backend=backend)
                one.initialize_state(snapshot)
                one.open()
        one.close()

    check()


def newest(by, columns, *epochs):
    """Returns the value of the other column of one key after each epoch."""
    with harness(by, columns) as one:
        values = []
        for records in epochs:
            one.process_elements([("a", *record) for record in records])
            values.append([row[2] for row in one.extract_output_values()])
            one.clear_output()
        return values


def test_of_one_value_the_later_record_is_the_newest():
    columns = "k string, v decimal(10,2), n bigint"
    low, high = Decimal("1.00"), Decimal("1.01")
    epochs = [(high, 1), (high, 2)], [(low, 3)], [(high, 4), (low, 5)], [(None, 6)]
    assert newest("v", columns, *epochs) == [[2], [], [4], []]


def test_without_a_value_the_later_record_is_the_newest_until_one_has_one():
    columns = "k string, v timestamp_ntz, n bigint"
    from datetime import datetime

    assert newest("v", columns, [(None, 1)], [(None, 2)], [(datetime.min, 3)], [(None, 4)]) == [[1], [2], [3], []]


def test_the_least_numbers_are_values():
    columns = "k string, v bigint, n bigint"
    assert newest("v", columns, [(None, 1)], [(-(2**63), 2)], [(None, 3)], [(-(2**63), 4)]) == [[1], [2], [], [4]]


def test_lists_and_maps_are_compared_by_what_they_hold():
    columns = "k string, v array<double>, n map<string,bigint>"
    same = ([1.0, math.nan, None], {"x": 1})
    assert newest(None, columns, [same], [same], [([1.0], {"x": 1})], [([1.0], {"x": 2})], [(None, None)]) == [
        [{"x": 1}], [], [{"x": 1}], [{"x": 2}], [None],
    ]  # fmt: skip


def test_records_of_key_columns_alone_and_keys_of_several():
    with harness(columns="k string, day date", key=("k", "day")) as one:
        from datetime import date

        for _ in range(2):
            one.process_elements([("a", date(2024, 1, 1)), ("a", None), ("a", date(2024, 1, 1))])
        assert len(one.extract_output_values()) == 2


def test_a_record_is_forgotten_from_when_the_newest_one_came():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
    with harness("v", "k string, v bigint", ttl=ttl) as one:
        results = []
        for now, v in ((0, 9), (10, 9), (20, 1), (40, 1), (50, 0)):
            one.set_processing_time(now)
            one.process_elements([("a", v)])
            results.append([row[1] for row in one.extract_output_values()])
            one.clear_output()
        assert results == [[9], [], [], [1], []]


@dataclass
class Place:
    street: str
    number: int


@dataclass
class Address:
    k: str
    place: Place | None


def test_records_of_the_authors_classes():
    columns = columns_type(Address, "the input")
    with Harness(Latest(columns), "k", Address, columns) as one:
        addresses = [Address("a", Place("x", 1)), Address("a", Place("x", 1)), Address("a", None)]
        for address in addresses:
            one.process_element(address)
        assert one.extract_output_values() == [addresses[0], addresses[2]]


def test_rows_come_as_their_records_did():
    with harness(columns="k string, v bigint") as one:
        one.process_elements([("a", 1), ("b", 2), ("a", 3)], [10, 20, 30])
        assert [tuple(row) for row in one.extract_output_values()] == [("b", 2), ("a", 3)]


@pytest.mark.parametrize(("by", "message"), [
    ("w", "by='w'; the stream has k, v"), (3, "by=3"), ("l", "by='l', which is array<bigint>"),
])  # fmt: skip
def test_what_has_no_order_is_refused(by, message):
    with pytest.raises(JobDefinitionError, match=message):
        harness(by, "k string, v bigint, l array<bigint>")


def test_a_time_to_live_in_event_time_is_refused():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).use_event_time().build()
    with pytest.raises(JobDefinitionError, match=r"latest\(\) got a time to live in event time"):
        harness(ttl=ttl)
