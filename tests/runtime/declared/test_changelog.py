"""Aggregates that read and emit changelogs, against plain Python: warm and restored, on both backends."""

import datetime
import statistics
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from changelogs import aggregating, checked, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import Aggregate, StateTtlConfig, Time, Types
from state_engine.api.keys import Keys
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.runtime import batch_contexts, batch_function
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.runtime.declared.changelog import ChangelogAggregation
from state_engine.runtime.declared.latest import Latest
from state_engine.runtime.declared.retracting import RetractingExtreme
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing.state_harness import StateHarness

RECORDS = "k string, v bigint, m decimal(5,2), s string"
CHANGES = f"{RECORDS}, op string"
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-9, 9) | st.sampled_from([-(2**63), 2**63 - 1]),
    st.none() | st.decimals(-9, 9, places=2),
    st.none() | st.sampled_from("xyz"),
)
ALL = {
    "n": Aggregate.count(), "there": Aggregate.count("s"), "total": Aggregate.sum("v"), "mean": Aggregate.avg("v"),
    "money": Aggregate.sum("m"), "least": Aggregate.min("v"), "most": Aggregate.max("v"), "dear": Aggregate.max("m"),
    "text": Aggregate.min("s"),
}  # fmt: skip


def harness(aggregates=None, columns=CHANGES, retract=True, ttl=None, **options):
    return aggregating("k", aggregates or ALL, columns, retract=retract, ttl=ttl, **options)


def harness_of(key, aggregates, columns):
    function = ChangelogAggregation([key], aggregates, parse_columns_ddl(columns), retract=True)
    return Harness(function, key, columns, function.output)


def expected(records):
    """Returns the results of a key with these records."""
    v, m, s = ([value for value in column if value is not None] for column in list(zip(*records, strict=True))[1:])
    mean = float(sum(v) / len(v)) if v else None
    extremes = min(v, default=None), max(v, default=None), max(m, default=None), min(s, default=None)
    return len(records), len(s), sum(v) if v else None, mean, sum(m) if m else None, *extremes


@st.composite
def changelogs(draw):
    """Draws epochs of records that are added, and of existing records that are retracted."""
    existing, epochs = [], []
    for _ in range(draw(st.integers(1, 4))):
        epoch = []
        for _ in range(draw(st.integers(0, 8))):
            if existing and draw(st.booleans()):
                record = existing.pop(draw(st.integers(0, len(existing) - 1)))
                epoch.append((*record, draw(st.sampled_from(["-U", "-D"]))))
            else:
                record = draw(RECORD)
                if abs(sum(r[1] or 0 for r in existing) + (record[1] or 0)) >= 2**62 and record[1]:
                    record = (record[0], 1, *record[2:])
                existing.append(record)
                epoch.append((*record, draw(st.sampled_from(["+I", "+U"]))))
        epochs.append((epoch, list(existing)))
    return epochs


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_what_goes_is_retracted(backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(changelogs())
    def check(epochs):
        checked(epochs, lambda: harness(state_backend=backend), restored, expected)

    check()


SMALL = st.tuples(st.sampled_from("ab"), st.none() | st.integers(1, 2), st.none(), st.sampled_from("xy"))


@st.composite
def with_strangers(draw):
    """Draws epochs of unordered changelogs, in which a key without records also retracts records it never had."""
    existing, epochs = Counter(), []
    for _ in range(draw(st.integers(1, 4))):
        held, epoch, net = Counter(record[0] for record in existing.elements()), [], Counter()
        for record in draw(st.lists(SMALL, max_size=8)):
            coming = draw(st.booleans())
            if not coming and held[record[0]] and existing[record] + net[record] <= 0:
                continue
            epoch.append((*record, draw(st.sampled_from(["+I", "+U"] if coming else ["-U", "-D"]))))
            net[record] += 1 if coming else -1
        for record, count in net.items():
            existing[record] += count if held[record[0]] else max(count, 0)
        epochs.append((draw(st.permutations(epoch)), list(existing.elements())))
    return epochs


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_what_a_key_without_records_loses_is_not_taken_from_what_comes(backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(with_strangers())
    def check(epochs):
        checked(epochs, lambda: harness(state_backend=backend), restored, expected)

    check()


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_records_that_only_come(backend, restored):
    """If the input retracts nothing, all aggregates can be emitted as a changelog."""
    aggregates = {"n": Aggregate.count(), "least": Aggregate.min("v"), "last": Aggregate.last("s")}

    def wanted_of(records):
        v, s = ([value for value in column if value is not None] for column in list(zip(*records, strict=True))[1::2])
        return len(records), min(v, default=None), s[-1] if s else None

    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(st.lists(st.lists(RECORD, max_size=6), min_size=1, max_size=4))
    def check(epochs):
        existing, so_far = [], []
        for records in epochs:
            existing = existing + records
            so_far.append((records, existing))
        new = lambda: harness(aggregates, RECORDS, retract=False, state_backend=backend)  # noqa: E731
        checked(so_far, new, restored, wanted_of)

    check()


def test_a_key_without_records_is_given_back_and_begins_again():
    with harness({"total": Aggregate.sum("v")}, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", 5, "+I")) == [("a", 5, "+I")]
        assert rows_of(one, ("a", 5, "-U"), ("a", 7, "+U")) == [("a", 5, "-U"), ("a", 7, "+U")]
        assert rows_of(one, ("a", 7, "-D")) == [("a", 7, "-D")]
        assert rows_of(one, ("a", 7, "-D")) == [], "a record that never existed retracts nothing"
        assert rows_of(one, ("a", 1, "+I")) == [("a", 1, "+I")]
        assert rows_of(one, ("a", 2, "+I"), ("a", 2, "-D")) == [], "nothing has changed"


def test_an_update_of_a_record_that_never_came_is_a_record_that_comes():
    with harness({"n": Aggregate.count(), "t": Aggregate.sum("v")}, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", 12, "+U"), ("a", 10, "-U")) == [("a", 1, 12, "+I")]
        assert rows_of(one, ("a", 12, "-U"), ("a", 13, "+U")) == [("a", 1, 12, "-U"), ("a", 1, 13, "+U")]
        assert rows_of(one, ("b", 10, "-U"), ("b", 12, "+U"), ("b", 10, "+I")) == [("b", 1, 12, "+I")]
        assert rows_of(one, ("c", 5, "+I"), ("c", 5, "-D"), ("c", 5, "-D"), ("c", 5, "+I"), ("c", 5, "+I")) == [
            ("c", 1, 5, "+I")
        ]


def test_a_record_that_never_came_differs_from_one_by_all_its_columns():
    """Columns that are not aggregated count, too, of whatever type."""
    columns = "town string, person string, pets array<struct<name:string>>, op string"
    with harness_of("town", {"n": Aggregate.count()}, columns) as one:
        ann = ("Rome", "ann", [("Rex",)])
        assert rows_of(one, (*ann, "-U"), ("Rome", "bob", [], "+I")) == [("Rome", 1, "+I")]
        assert rows_of(one, ("Oslo", "ann", [("Rex",)], "+U"), ("Oslo", "ann", [("Max",)], "-U")) == [("Oslo", 1, "+I")]
        assert rows_of(one, ("Bonn", "ann", None, "+U"), ("Bonn", "ann", None, "-U")) == []


def test_an_event_time_is_that_of_the_latest_record_of_the_key(monkeypatch):
    """Also if that record retracts a record that never came."""
    seen, timed = [], batch_contexts.BatchContext.timed

    def told(ctx, rows, times):
        seen.append(list(zip(rows.column("k").to_pylist(), times.to_pylist(), strict=True)))
        return timed(ctx, rows, times)

    monkeypatch.setattr(batch_contexts.BatchContext, "timed", told)
    with harness({"n": Aggregate.count()}, "k string, v bigint, op string") as one:
        records = [("x", 1, "-D"), ("b", 1, "+I"), ("a", 12, "+U"), ("a", 10, "-U")]
        one.process_elements(records, [10, 20, 30, 40])
    assert seen == [[("b", 20), ("a", 40)]]


def test_nothing_is_kept_of_a_record_that_never_came():
    with harness({"n": Aggregate.count()}, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", 10, "-U"), ("b", 1, "+I"), ("c", 2, "-D"), ("c", 2, "+I")) == [("b", 1, "+I")]
        assert one.num_keyed_state_entries() == 1


NOON = datetime.datetime(2026, 1, 1, 12)
EXTREMES = {"least": Aggregate.min("v"), "most": Aggregate.max("v")}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_the_least_is_looked_for_when_it_goes(backend):
    """If several equal values are retracted one by one, the next minimum is searched after the last one."""
    with harness(EXTREMES, "k string, v bigint, op string", state_backend=backend) as one:
        came = [("a", v, "+I") for v in (5, 2, 2, 9, 7)]
        assert rows_of(one, *came, ("b", 1, "+I")) == [("a", 2, 9, "+I"), ("b", 1, 1, "+I")]
        assert rows_of(one, ("a", 2, "-D")) == []
        assert rows_of(one, ("a", 2, "-D"), ("a", 9, "-D")) == [("a", 2, 9, "-U"), ("a", 5, 7, "+U")]
        assert rows_of(one, ("a", 5, "-U"), ("a", 6, "+U")) == [("a", 5, 7, "-U"), ("a", 6, 7, "+U")]
        assert rows_of(one, ("a", None, "+I"), ("a", 6, "-D"), ("a", 7, "-D")) == [
            ("a", 6, 7, "-U"), ("a", None, None, "+U"),
        ]  # fmt: skip
        assert rows_of(one, ("a", None, "-D")) == [("a", None, None, "-D")]
        assert one.snapshot().states()["min_v.counts"] == {"b": {1: 1}}


def test_a_least_value_that_stays_is_not_logged_again():
    state = StateHarness(HeapKeyedStateBackend, "k bigint")
    least = RetractingExtreme(Types.LONG(), "min")
    states = [state.backend.state(least.descriptor(f"least.{part}", part)) for part in least.parts]

    def epoch(keys, values, signs):
        key_column = Keys([pa.array(keys)], lambda columns: columns[0].to_pylist())
        [minima] = least.merge(key_column, states, least.signed(np.array(signs), pa.array(values)))
        rows = state.seal()
        return minima.to_pylist(), {row["k"] for row in rows.get("least.min", [])}

    assert epoch([1, 1, 2], [5, 7, 3], [1, 1, 1]) == ([5, 3], {1, 2})
    assert epoch([1, 2], [7, 3], [-1, 1]) == ([5, 3], set())
    assert epoch([1, 2], [4, 3], [1, -1]) == ([4, 3], {1})


def test_a_value_that_never_came_waits_for_one_that_does():
    """If its key has other values: as in Flink, the count of the value is negative."""
    with harness(EXTREMES, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", 5, "+I"), ("a", 6, "+I")) == [("a", 5, 6, "+I")]
        assert rows_of(one, ("a", 2, "-D")) == []
        assert rows_of(one, ("a", 2, "+I")) == []
        assert rows_of(one, ("a", 2, "+I")) == [("a", 5, 6, "-U"), ("a", 2, 6, "+U")]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize(("ddl", "values"), [
    ("boolean", [False, True]), ("tinyint", [-128, 127]), ("string", ["", "é"]), ("binary", [b"", b"\xff"]),
    ("date", [NOON.date(), NOON.date().replace(year=9999)]), ("decimal(38,2)", [Decimal("-1.00"), Decimal("1e35")]),
    ("timestamp", [NOON.replace(tzinfo=datetime.UTC, year=1900), NOON.replace(tzinfo=datetime.UTC)]),
    ("timestamp_ntz", [NOON.replace(microsecond=1), NOON.replace(microsecond=2)]),
], ids=str)  # fmt: skip
def test_of_all_types_that_can_be_distinguished(ddl, values, backend):
    least, most = values
    with harness(EXTREMES, f"k string, v {ddl}, op string", state_backend=backend) as one:
        assert rows_of(one, ("a", most, "+I"), ("a", least, "+I")) == [("a", least, most, "+I")]
        assert rows_of(one, ("a", least, "-D")) == [("a", least, most, "-U"), ("a", most, most, "+U")]
        assert rows_of(one, ("a", least, "+I"), ("a", most, "-D")) == [
            ("a", most, most, "-U"),
            ("a", least, least, "+U"),
        ]


def test_a_sum_of_no_value_is_null():
    with harness({"total": Aggregate.sum("v")}, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", None, "+I"), ("a", 3, "+I")) == [("a", 3, "+I")]
        assert rows_of(one, ("a", 3, "-D")) == [("a", 3, "-U"), ("a", None, "+U")]


def test_the_least_integer_can_be_retracted():
    least = -(2**63)
    with harness({"total": Aggregate.sum("v")}, "k string, v bigint, op string") as one:
        rows_of(one, ("a", least, "+I"))
        assert rows_of(one, ("a", least, "-U"), ("a", 1, "+U")) == [("a", least, "-U"), ("a", 1, "+U")]


def test_what_the_key_has_expired_is_not_retracted():
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
    with harness({"n": Aggregate.count()}, "k string, v bigint, op string", ttl=ttl) as one:
        rows_of(one, ("a", 1, "+I"))
        one.set_processing_time(5_000)
        assert rows_of(one, ("a", 1, "+I")) == [("a", 1, "+I")]


def test_an_update_of_a_record_that_has_expired_is_a_record_that_comes():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    aggregates = {"n": Aggregate.count(), "t": Aggregate.sum("v")}
    with harness(aggregates, "k string, v bigint, op string", ttl=ttl) as one:
        assert rows_of(one, ("a", 10, "+I")) == [("a", 1, 10, "+I")]
        one.set_processing_time(1_000)
        assert rows_of(one, ("a", 10, "-U"), ("a", 12, "+U")) == [("a", 1, 12, "+I")]
        assert rows_of(one, ("a", 12, "-U"), ("a", 15, "+U")) == [("a", 1, 12, "-U"), ("a", 1, 15, "+U")]


def test_a_changelog_of_a_changelog_of_the_newest_records():
    """Counts the people of each town: a person who moves is not counted in the old town any more."""
    columns = "name string, town string"
    people = Harness(newest := Latest(parse_columns_ddl(columns), changelog=True), "name", columns, newest.output)
    towns = "name string, town string, op string"
    counted = ChangelogAggregation(["town"], {"n": Aggregate.count()}, parse_columns_ddl(towns), retract=True)
    with people, Harness(counted, "town", towns, counted.output) as count:
        moves = rows_of(people, ("ann", "Rome"), ("bob", "Rome"))
        assert moves == [("ann", "Rome", "+I"), ("bob", "Rome", "+I")]
        assert rows_of(count, *moves) == [("Rome", 2, "+I")]
        moves = rows_of(people, ("ann", "Oslo"), ("bob", "Rome"))
        assert moves == [("ann", "Rome", "-U"), ("ann", "Oslo", "+U")]
        assert rows_of(count, *moves) == [("Rome", 2, "-U"), ("Rome", 1, "+U"), ("Oslo", 1, "+I")]
        assert rows_of(count, *rows_of(people, ("bob", "Oslo"))) == [
            ("Rome", 1, "-D"), ("Oslo", 1, "-U"), ("Oslo", 2, "+U"),
        ]  # fmt: skip


@pytest.mark.parametrize("aggregate", [
    Aggregate.min("d"), Aggregate.max("d"), Aggregate.first("v"), Aggregate.last("v"), Aggregate.collect("v"),
    Aggregate.stddev("v"), Aggregate.approx_count_distinct("v"), Aggregate.approx_quantile("v", 0.5),
    Aggregate.sum("d"), Aggregate.avg("d"),
], ids=str)  # fmt: skip
def test_refuses_what_cannot_be_retracted(aggregate):
    columns = parse_columns_ddl("k string, v bigint, d double, op string")
    with pytest.raises(JobDefinitionError, match="it cannot retract records"):
        ChangelogAggregation(["k"], {"r": aggregate}, columns, retract=True)


@pytest.mark.parametrize("columns", ["k string, v bigint", "k string, v bigint, op int"])
def test_refuses_a_stream_that_is_no_changelog(columns):
    with pytest.raises(JobDefinitionError, match="aggregate\\(\\) got retract") as raised:
        ChangelogAggregation(["k"], {"n": Aggregate.count()}, parse_columns_ddl(columns), retract=True)
    assert "'op' of text" in raised.value.action


def test_refuses_names_that_its_rows_have():
    columns = parse_columns_ddl("k string, v bigint, op string")
    with pytest.raises(JobDefinitionError, match="'Op'"):
        ChangelogAggregation(["k"], {"Op": Aggregate.count()}, columns)
    with pytest.raises(JobDefinitionError, match="'op'"):
        ChangelogAggregation(["op"], {"n": Aggregate.count()}, columns, retract=True)
    with pytest.raises(JobDefinitionError, match="column 'op'"):
        Latest(columns, changelog=True)


@pytest.mark.parametrize(("aggregate", "retract"), [
    (Aggregate.collect("v"), False), (Aggregate.min("v"), True), (Aggregate.max("v"), True),
], ids=str)  # fmt: skip
def test_refuses_what_is_kept_of_values_that_expire_one_by_one(aggregate, retract):
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
    with pytest.raises(JobDefinitionError, match=f"got {aggregate.kind}, .*expire one by one"):
        ChangelogAggregation(["k"], {"all": aggregate}, parse_columns_ddl(CHANGES), ttl, retract=retract)


def test_the_least_of_what_only_comes_may_expire():
    """The minimum is one value, with one last access."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    with harness({"least": Aggregate.min("v")}, RECORDS, retract=False, ttl=ttl) as one:
        rows_of(one, ("a", 1, None, None))
        one.set_processing_time(1_000)
        assert rows_of(one, ("a", 2, None, None)) == [("a", 2, "+I")]


@pytest.mark.parametrize("aggregates", [{"n": "count"}, {1: Aggregate.count()}, {}])
def test_refuses_what_is_no_aggregate_as_without_a_changelog(aggregates):
    with pytest.raises(JobDefinitionError):
        ChangelogAggregation(["k"], aggregates, parse_columns_ddl(RECORDS))


def test_the_mean_of_less_than_nothing_is_null():
    with harness({"mean": Aggregate.avg("v")}, "k string, v bigint, op string") as one:
        assert rows_of(one, ("a", None, "+I"), ("a", None, "+I")) == [("a", None, "+I")]
        assert rows_of(one, ("a", 5, "-D")) == [], "it could have been one of those"


def test_an_epoch_is_processed_as_a_whole_however_large_it_is(monkeypatch):
    """A retraction may come before the record that it retracts."""
    monkeypatch.setattr(batch_function, "ENOUGH_BYTES", 1)
    columns, key = parse_columns_ddl(CHANGES), (Column(name="k", type="string"),)
    numbers, batch = {"n": Aggregate.count()}, pa.record_batch({"k": ["a"]})

    def waits(function):
        spec = OperatorSpec("of", "keyed_process", function, columns, key, (), function.output, max_parallelism=8)
        return batch_function.BatchCall(spec, [0], KeyCodec(key, 8)).waits_with(batch)

    assert waits(ChangelogAggregation(["k"], numbers, columns, retract=True))
    assert waits(Latest(parse_columns_ddl(RECORDS), changelog=True))
    assert not waits(Aggregation(["k"], numbers, columns))
    assert not waits(Latest(columns))


def test_an_op_that_is_none_stops_the_job():
    with harness({"n": Aggregate.count()}, "k string, v bigint, op string") as one:
        with pytest.raises(UserFunctionError, match="op='gone'"):
            one.process_elements([("a", 1, "gone")])
        with pytest.raises(UserFunctionError, match="op=None"):
            one.process_elements([("a", 1, None)])


def test_says_what_was_declared():
    columns, numbers = parse_columns_ddl(CHANGES), {"n": Aggregate.count()}
    assert ChangelogAggregation(["k"], numbers, columns, retract=True).argument == "count() as n, retract=True"
    assert ChangelogAggregation(["k"], numbers, columns).argument == "count() as n, changelog=True"


def test_means_are_those_of_what_is_left():
    with harness({"mean": Aggregate.avg("m")}) as one:
        rows_of(one, ("a", 1, Decimal("1.50"), "x", "+I"), ("a", 1, Decimal("2.50"), "x", "+I"))
        assert rows_of(one, ("a", 1, Decimal("1.50"), "x", "-D"))[-1] == ("a", statistics.mean([2.5]), "+U")
