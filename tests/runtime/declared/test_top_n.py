"""`top_n` against plain Python: ties, nulls and NaN, any cut into epochs, warm and restored, on both backends."""

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recounts import rank

from state_engine.api import StateTtlConfig, Time
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.top_n import TopN
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

COLUMNS = "k string, v bigint, d double, s string"
NAMES = ["k", "v", "d", "s"]
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from([1.5, -2.0, math.nan]),
    st.none() | st.sampled_from("xyz"),
)
EPOCHS = st.lists(st.lists(RECORD, max_size=8), max_size=4)


def harness(n, by, columns=COLUMNS, key="k", descending=True, ttl=None, **options):
    function = TopN(parse_columns_ddl(columns), n, by, descending=descending, ttl=ttl)
    return Harness(function, key, columns, function.output, **options)


def first(records, n, by, descending):
    """Returns the first records of one key; of equal values the earlier one comes first."""
    return sorted(records, key=lambda record: rank(record[by]), reverse=descending)[:n]


def applied(rows, known):
    """Applies the rows of an epoch to the rows by (key, rank), and checks that each one fits."""
    for *record, at, op in rows:
        place = (record[0], at)
        if op == "+I":
            assert place not in known
        elif op in ("-U", "-D"):
            assert repr(known.pop(place)) == repr(tuple(record))
        else:
            assert op == "+U"
            assert place not in known
        if op[0] == "+":
            known[place] = tuple(record)


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("by", ["v", "d", "s"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_plain_python(descending, by, backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(EPOCHS, st.integers(1, 4))
    def check(epochs, n):
        one, seen, ranks = harness(n, by, descending=descending, state_backend=backend), {}, {}
        one.open()
        for records in epochs:
            one.process_elements(records)
            before, rows = dict(ranks), one.extract_output_values()
            one.clear_output()
            applied(rows, ranks)
            for record in records:
                seen.setdefault(record[0], []).append(record)
            top = {key: first(of_key, n, NAMES.index(by), descending) for key, of_key in seen.items()}
            wanted = {(key, at): record for key, of_key in top.items() for at, record in enumerate(of_key, 1)}
            assert {place: repr(record) for place, record in ranks.items()} == {p: repr(r) for p, r in wanted.items()}
            changed = {row[0:1] + row[-2:-1] for row in map(tuple, rows)}
            assert changed == {p for p in ranks if p not in before or repr(before[p]) != repr(ranks[p])}, "no more"
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = harness(n, by, descending=descending, state_backend=backend)
                one.initialize_state(snapshot)
                one.open()
        one.close()

    check()


def epoch(one, *records):
    one.process_elements(records)
    rows = [tuple(row) for row in one.extract_output_values()]
    one.clear_output()
    return rows


def test_rows_say_what_became_of_a_rank():
    with harness(2, "v", "k string, v bigint") as one:
        assert epoch(one, ("a", 1), ("b", 9)) == [("a", 1, 1, "+I"), ("b", 9, 1, "+I")]
        assert epoch(one, ("a", 5)) == [("a", 1, 1, "-U"), ("a", 5, 1, "+U"), ("a", 1, 2, "+I")]
        assert epoch(one, ("a", 3), ("b", 9)) == [("a", 1, 2, "-U"), ("a", 3, 2, "+U"), ("b", 9, 2, "+I")]
        assert epoch(one, ("a", 3), ("a", 0), ("b", 9)) == []


def test_the_state_is_the_first_records_in_order():
    with harness(2, "v", "k string, v decimal(5,2), n bigint", descending=False) as one:
        for n in range(6):
            one.process_element(("a", Decimal(n % 3), n))
        snapshot = one.snapshot()
        [rows] = [snapshot.table(schema.name) for schema in snapshot.manifest.schemas]
        assert [row["n"] for row in rows.column("value").to_pylist()] == [0, 3]


def moved(snapshot, *arguments, **options):
    other = harness(*arguments, **options)
    other.initialize_state(snapshot)
    return other


def test_a_smaller_n_retracts_what_is_too_much():
    columns = "k string, v bigint"
    with harness(3, "v", columns) as one:
        epoch(one, ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 0))
        snapshot = one.snapshot()
    with moved(snapshot, 1, "v", columns) as one:
        assert epoch(one, ("a", 0), ("b", 2)) == [
            ("a", 2, 2, "-D"), ("a", 1, 3, "-D"), ("b", 1, 1, "-U"), ("b", 2, 1, "+U"), ("b", 0, 2, "-D"),
        ]  # fmt: skip
        assert epoch(one, ("a", 0)) == []


def test_another_order_brings_what_is_there_into_it():
    columns = "k string, v bigint"
    with harness(2, "v", columns) as one:
        epoch(one, ("a", 1), ("a", 2))
        snapshot = one.snapshot()
    with moved(snapshot, 2, "v", columns, descending=False) as one:
        rows = epoch(one, ("a", 9))
        assert rows == [("a", 2, 1, "-U"), ("a", 1, 1, "+U"), ("a", 1, 2, "-U"), ("a", 2, 2, "+U")]


def test_first_records_expire_since_they_last_changed():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
    with harness(1, "v", "k string, v bigint", ttl=ttl) as one:
        changes = []
        for now, v in ((0, 1), (10, 5), (20, 1), (25, 2), (50, 3)):
            one.set_processing_time(now)
            changes.append([(row[1], row[3]) for row in epoch(one, ("a", v))])
        assert changes == [[(1, "+I")], [(1, "-U"), (5, "+U")], [], [(2, "+I")], [(3, "+I")]]


def test_keys_of_several_columns_and_nested_values():
    with harness(1, "v", "k string, day date, v bigint, tags map<string,array<string>>", key=("k", "day")) as one:
        assert epoch(one, ("a", None, 1, {"x": None}), (None, None, 1, None)) == [
            ("a", None, 1, {"x": None}, 1, "+I"), (None, None, 1, None, 1, "+I"),
        ]  # fmt: skip
        assert epoch(one, ("a", None, 2, {"y": [None, "z"]})) == [
            ("a", None, 1, {"x": None}, 1, "-U"), ("a", None, 2, {"y": [None, "z"]}, 1, "+U"),
        ]  # fmt: skip


def test_it_is_explained_as_it_is_called():
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
    function = TopN(parse_columns_ddl("k string, v bigint"), 3, "v", descending=False, ttl=ttl)
    assert function.argument == "n=3, by=v, descending=False, ttl=1000 ms"


@pytest.mark.parametrize(("columns", "n", "by", "message"), [
    ("k string, v bigint", 0, "v", "n=0"), ("k string, v bigint", True, "v", "n=True"),
    ("k string, v bigint", 2, "w", "by='w'; the stream has k, v"), ("k string, v bigint", 2, None, "by=None"),
    ("k string, v array<bigint>", 2, "v", "by='v', which is array<bigint>"),
    ("k string, v bigint, OP string", 2, "v", "a column 'OP'"), ("rank bigint, k string", 2, "k", "a column 'rank'"),
])  # fmt: skip
def test_what_has_no_first_records_is_refused(columns, n, by, message):
    with pytest.raises(JobDefinitionError, match=message):
        harness(n, by, columns)
