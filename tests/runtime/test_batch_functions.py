"""Functions over whole batches emit the same as their row forms, on both backends, warm and restored."""

import pytest
from batch_forms import COMMANDED, READ, RECORDS, TTL, ByBatch, ByRow, CommandsByBatch, CommandsByRow, content, run
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("ttl", [None, TTL, READ], ids=["forever", "ttl", "ttl by reads"])
@pytest.mark.parametrize("between", ["warm", "restored"])
def test_the_same_as_record_by_record(backend, ttl, between):
    @settings(max_examples=max(5, settings.default.max_examples // 8))
    @given(st.lists(RECORDS, min_size=1, max_size=5))
    def check(epochs):
        by_row, of_rows = run([ByRow(ttl)], epochs, backend, between)
        by_batch, of_batches = run([ByBatch(ttl)], epochs, backend, between)
        assert by_batch == by_row
        assert content(of_batches) == content(of_rows)

    check()


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("ttl", [None, TTL, READ], ids=["forever", "ttl", "ttl by reads"])
@pytest.mark.parametrize("between", ["warm", "restored"])
def test_what_is_put_and_removed_by_columns_is_what_rows_put_and_remove(backend, ttl, between):
    @settings(max_examples=max(5, settings.default.max_examples // 10))
    @given(COMMANDED)
    def check(commanded):
        epochs = [[(key, command) for key in keys] for command, keys in commanded]
        by_row, of_rows = run([CommandsByRow(ttl)], epochs, backend, between)
        by_batch, of_batches = run([CommandsByBatch(ttl)], epochs, backend, between)
        assert by_batch == by_row
        assert content(of_batches) == content(of_rows)

    check()
