"""Timers of functions over batches read, key by key, the states that whole columns wrote, and the other way round."""

import pyarrow as pa
import pytest
from batch_forms import TTL, States
from restoring import renewed

from state_engine.api import KeyedBatchProcessFunction, Types
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

INPUT, OUTPUT = "k string, v bigint, at bigint", "k string, said string"


class Forgets(States, KeyedBatchProcessFunction):
    """Stores a key's records by columns, and emits the states before them; its timer emits the states, and clears them.

    Then the timer stores its time as the count, and as the only element of the list.
    """

    def process_batch(self, keys, batch, ctx):
        values = batch.column("v")
        columns = [self.count.get_many(keys), self.listed.get_many(keys), self.seen.get_many(keys, values)]
        columns += [self.reduced.get_many(keys)]
        columns += [mean.get_many(keys, Types.DOUBLE()) for mean in (self.mean, self.column_mean)]
        texts = [str(list(row)) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
        self.count.put_many(keys, values)
        self.seen.put_many(keys, values, pa.array(keys.running_counts()))
        for state in (self.listed, self.reduced, self.mean, self.column_mean):
            state.add_many(keys, values)
        ctx.timer_service().register_processing_time_timers(keys, batch.column("at"))
        return pa.table([batch.column("k"), pa.array(texts)], names=["k", "said"])

    def on_timer(self, timestamp, ctx):
        held = [self.count.value(), list(self.listed.get()), dict(sorted(self.seen.items())), self.reduced.get()]
        text = f"{timestamp}: {[*held, self.mean.get(), self.column_mean.get()]}"
        for state in (self.count, self.listed, self.seen, self.reduced, self.mean, self.column_mean):
            state.clear()
        self.count.update(timestamp)
        self.listed.add(timestamp)
        return [(ctx.get_current_key(), text)]


@pytest.fixture(params=["heap", "rocksdb"])
def made(request):
    return lambda ttl=None: Harness(Forgets(ttl), "k", INPUT, OUTPUT, state_backend=request.param)


@pytest.fixture(params=[False, True], ids=["warm", "restored"])
def go_on(request):
    """Returns the harness to continue with: the same one, or a restored one."""
    return lambda run, made: renewed(run, made) if request.param else run


def said(run):
    rows = [f"{key} {what}" for key, what in run.extract_output_values()]
    run.clear_output()
    return rows


NOTHING = "[None, [], None, None, None, None]"


def test_they_read_and_clear_what_columns_wrote(made, go_on):
    run = made()
    run.process_elements([("a", 1, 5), ("b", 7, 9), ("a", 3, None), ("a", 2, 5)])
    assert said(run) == [f"a {NOTHING}", f"b {NOTHING}", f"a {NOTHING}", f"a {NOTHING}"]
    run = go_on(run, made)
    run.set_processing_time(5)
    assert said(run) == ["a 5: [2, [1, 3, 2], {1: 1, 2: 3, 3: 2}, 6, 2.0, 2.0]"]
    run = go_on(run, made)
    states = run.snapshot().states()
    assert (states["count"], states["listed"]) == ({"a": 5, "b": 7}, {"a": [5], "b": [7]})
    assert [set(states[name]) for name in ("seen", "reduced", "mean", "column_mean")] == [{"b"}] * 4
    run.close()


def test_columns_read_and_add_to_what_they_left(made, go_on):
    run = made()
    run.process_elements([("a", 1, 5), ("b", 7, 9)])
    run.set_processing_time(5)
    run.clear_output()
    run = go_on(run, made)
    run.process_elements([("a", 1, 9), ("b", 7, None)])
    assert said(run) == ["a [5, [5], None, None, None, None]", "b [7, [7], 1, 7, 7.0, 7.0]"]
    run = go_on(run, made)
    run.set_processing_time(9)
    assert said(run) == ["a 9: [1, [5, 1], {1: 1}, 1, 1.0, 1.0]", "b 9: [7, [7, 7], {7: 1}, 14, 7.0, 7.0]"]
    run.close()


def test_they_are_due_before_the_records_of_an_epoch(made, go_on):
    run = made()
    run.process_elements([("a", 1, 5)])
    run.clear_output()
    run = go_on(run, made)
    run.set_processing_time(4)
    run.process_elements([("a", 2, 4), ("a", 3, 3)])
    assert said(run) == ["a [1, [1], None, 1, 1.0, 1.0]"] * 2
    run.process_elements([("a", 4, 4)])
    assert said(run) == [
        "a 3: [3, [1, 2, 3], {1: 1, 2: 1, 3: 2}, 6, 2.0, 2.0]",
        "a 4: [3, [3], {}, None, None, None]",
        "a [4, [4], None, None, None, None]",
    ]
    run.close()


def test_they_find_nothing_that_has_expired(made, go_on):
    run = made(TTL)
    run.process_elements([("a", 1, 14), ("b", 2, 15)])
    run.clear_output()
    run = go_on(run, lambda: made(TTL))
    run.set_processing_time(14)
    assert said(run) == ["a 14: [1, [1], {1: 1}, 1, 1.0, 1.0]"]
    run = go_on(run, lambda: made(TTL))
    run.set_processing_time(15)
    assert said(run) == ["b 15: [None, [], {}, None, None, None]"]
    run.process_elements([("a", 1, None), ("b", 2, None)])
    assert said(run) == ["a [14, [14], None, None, None, None]", "b [15, [15], None, None, None, None]"]
    run.close()
