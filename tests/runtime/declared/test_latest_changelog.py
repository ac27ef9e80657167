"""`latest` with a changelog against plain Python: by any column, with nulls and NaN, and with records that expire."""

import math

import pytest
from changelogs import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from newest_records import COLUMNS, EPOCHS, replaced
from restoring import renewed

from state_engine.api import StateTtlConfig, Time
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.declared.latest import Latest
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

TTL = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
BY_READS = StateTtlConfig.new_builder(Time.milliseconds(15)).update_ttl_on_read_and_write().build()
LIVES = {"forever": (None, {}), "ttl": (TTL, {"lives": 1}), "ttl by reads": (BY_READS, {"lives": 1, "by_reads": True})}
"""Times to live, and their length in epochs of 10 ms."""


def harness(by=None, ttl=None, columns=COLUMNS, **options):
    function = Latest(parse_columns_ddl(columns), by, ttl, changelog=True)
    return Harness(function, "k", columns, function.output, **options)


def changes(records, changed):
    """Returns the rows of an epoch: grouped by key, the keys in the order of their first records."""
    for key in dict.fromkeys(record[0] for record in records):
        if key in changed:
            before, after = changed[key]
            yield from [(*after, "+I")] if before is None else [(*before, "-U"), (*after, "+U")]


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
@pytest.mark.parametrize("life", LIVES)
def test_each_row_says_what_it_replaces(backend, restored, life):
    ttl, lives = LIVES[life]

    @settings(max_examples=max(10, settings.default.max_examples // (3 if backend == "heap" else 12)))
    @given(EPOCHS, st.sampled_from([None, "v", "d", "s"]))
    def check(epochs, by):
        one = harness(by, ttl, state_backend=backend)
        one.open()
        for number, (records, changed) in enumerate(zip(epochs, replaced(epochs, by, **lives), strict=True)):
            one.set_processing_time(10 * number)
            assert list(map(repr, rows_of(one, *records))) == list(map(repr, changes(records, changed)))
            if restored:
                one = renewed(one, lambda: harness(by, ttl, state_backend=backend))
        one.close()

    check()


def test_null_is_replaced_by_values_and_these_by_nan():
    with harness("v", columns="k string, v double, n bigint") as one:
        assert rows_of(one, ("a", None, 1)) == [("a", None, 1, "+I")]
        assert rows_of(one, ("a", None, 2)) == [("a", None, 1, "-U"), ("a", None, 2, "+U")]
        assert rows_of(one, ("a", -math.inf, 3)) == [("a", None, 2, "-U"), ("a", -math.inf, 3, "+U")]
        [retracted, added] = rows_of(one, ("a", math.inf, 4), ("a", math.nan, 5), ("a", math.inf, 6))
        assert retracted == ("a", -math.inf, 3, "-U")
        assert repr(added) == repr(("a", math.nan, 5, "+U"))
        assert rows_of(one, ("a", math.nan, 5)) == [], "it is the same in all columns"
        assert rows_of(one, ("a", math.inf, 7), ("a", None, 8)) == []


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_what_has_expired_is_not_retracted(backend):
    with harness("v", TTL, "k string, v bigint", state_backend=backend) as one:
        assert rows_of(one, ("a", 9)) == [("a", 9, "+I")]
        one.set_processing_time(10)
        assert rows_of(one, ("a", 9)) == [], "it lives longer nevertheless"
        one.set_processing_time(20)
        assert rows_of(one, ("a", 5)) == [], "an older record does not prolong its life"
        one.set_processing_time(30)
        assert rows_of(one, ("a", 5)) == [("a", 5, "+I")]
        assert rows_of(one, ("a", 6)) == [("a", 5, "-U"), ("a", 6, "+U")]
