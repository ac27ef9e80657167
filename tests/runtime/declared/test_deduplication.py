"""`deduplicate` against plain Python, warm and restored, on both backends; how long keys are remembered."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import StateTtlConfig, Time
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.declared.deduplication import Deduplication
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

COLUMNS = "k string, v bigint"
EPOCHS = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 9)), max_size=8), max_size=4
)


def harness(ttl=None, **options):
    return Harness(Deduplication(parse_columns_ddl(COLUMNS), ttl), "k", COLUMNS, COLUMNS, **options)


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_the_first_record_of_each_key(backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(EPOCHS)
    def check(epochs):
        one, rows, wanted = harness(state_backend=backend), [], {}
        one.open()
        for records in epochs:
            one.process_elements(records)
            rows += [tuple(row) for row in one.extract_output_values()]
            one.clear_output()
            for key, value in records:
                wanted.setdefault(key, value)
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = harness(state_backend=backend)
                one.initialize_state(snapshot)
                one.open()
        one.close()
        assert rows == list(wanted.items())

    check()


def test_keys_are_forgotten():
    with harness(StateTtlConfig.new_builder(Time.milliseconds(15)).build()) as one:
        for now in (0, 10, 20, 30):
            one.set_processing_time(now)
            one.process_elements([("a", now)])
        assert [v for _, v in one.extract_output_values()] == [0, 20]


def test_rows_have_the_event_times_of_their_records():
    function = Deduplication(parse_columns_ddl(COLUMNS))
    with Harness(function, "k", COLUMNS, COLUMNS) as one:
        one.process_elements([("a", 1), ("b", 2), ("a", 3)], [10, 20, 30])
        assert [tuple(row) for row in one.extract_output_values()] == [("a", 1), ("b", 2)]
