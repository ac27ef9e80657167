"""`temporal_join` against plain Python: any cut into epochs, late versions, null keys, restores, both backends."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import OutputTag
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared import joins
from state_engine.testing import temporal_join_harness

ORDERS, RATES = "currency string, amount bigint", "of string, rate double"
LATE = OutputTag("late", ORDERS)
FOREVER = (1 << 63) - 1


def joined(how="inner", **options):
    return temporal_join_harness("currency", "of", ORDERS, RATES, how, LATE, side_outputs=(LATE,), **options)


def rows_of(one):
    return [tuple(row) for row in one.extract_output_values()]


EVENT = st.tuples(st.sampled_from([1, 2]), st.sampled_from(["a", "b", None]), st.integers(0, 40))
EPOCHS = st.lists(st.tuples(st.integers(0, 50), st.lists(EVENT, max_size=10)), max_size=6)


class Expected:
    """The expected output: a loop that joins a record when the watermark passes it, with all versions until then."""

    def __init__(self, how):
        self.how, self.waiting, self.versions, self.late = how, [], [], []

    def pass_to(self, watermark):
        due = [one for one in self.waiting if one[0] <= watermark]
        self.waiting = [one for one in self.waiting if one[0] > watermark]
        for at, (key, amount) in due:
            valid = [(v_at, n) for n, (v_at, (v_key, _)) in enumerate(self.versions) if v_key == key and v_at <= at]
            if valid and key is not None:
                yield key, amount, self.versions[max(valid)[1]][1][1]
            elif self.how == "left":
                yield key, amount, None

    def add(self, watermark, side, at, record):
        if side == 2:
            self.versions.append((at, record))
        elif at <= watermark:
            self.late.append(record)
        else:
            self.waiting.append((at, record))


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_plain_python(how, backend, restored):
    @settings(max_examples=max(8, settings.default.max_examples // (2 if backend == "heap" else 12)))
    @given(EPOCHS, st.integers(1, 3))
    def check(epochs, parallelism):
        options = {"state_backend": backend, "parallelism": parallelism}
        one, expected, numbers = joined(how, **options), Expected(how), itertools.count()
        one.open()
        watermark, late = -(1 << 63), []
        for moved, events in epochs:
            watermark = max(watermark, moved)
            one.process_both_watermarks(watermark)
            assert sorted(map(repr, rows_of(one))) == sorted(map(repr, expected.pass_to(watermark)))
            one.clear_output()
            coming = [
                (side, at, (key, n) if side == 1 else (key, float(n)))
                for (side, key, at), n in zip(events, numbers, strict=False)
            ]
            for side, at, record in sorted(coming, key=lambda event: event[1]):  # in the order of an epoch
                expected.add(watermark, side, at, record)
            one.process_elements([(side, record) for side, _, record in coming], [at for _, at, _ in coming])
            assert not rows_of(one), "not before the watermark has passed"
            late += map(tuple, one.get_side_output(LATE))
            one.clear_output()
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = joined(how, **options)
                one.initialize_state(snapshot)
                one.open()
        one.process_both_watermarks(FOREVER)
        assert sorted(map(repr, rows_of(one))) == sorted(map(repr, expected.pass_to(FOREVER)))
        assert sorted(map(repr, late)) == sorted(map(repr, expected.late))
        kept = {key for _, (key, _) in expected.versions if key is not None}
        assert one.num_keyed_state_entries() == len(kept), "only the newest version of each key"
        assert one.num_event_time_timers() == 0
        one.close()

    check()


def test_versions_that_are_not_needed_are_forgotten_without_any_record():
    with joined() as one:
        for at in range(100):
            one.process_element2(("a", float(at)), at)
            one.process_both_watermarks(at)
        one.process_element1(("a", 7), 200)
        one.process_both_watermarks(200)
        assert rows_of(one) == [("a", 7, 99.0)]
        [version] = one.snapshot().states()["versions"]["a"]
        assert (version.at, version.record.rate) == (99, 99.0)


def test_a_version_that_comes_late_is_valid_for_what_comes_then():
    with joined("left") as one:
        one.process_both_watermarks(100)
        one.process_elements([(2, ("a", 1.5)), (1, ("a", 1))], [50, 101])
        one.process_both_watermarks(101)
        assert rows_of(one) == [("a", 1, 1.5)]


def test_a_version_after_the_end_of_the_input_is_kept():
    with joined("left") as one:
        one.process_both_watermarks(FOREVER)
        one.process_element2(("a", 1.5), 5)
        assert [version.at for version in one.snapshot().states()["versions"]["a"]] == [5]


def test_slices_of_keys_do_not_change_results(monkeypatch):
    results = []
    for keys in (1024, 1, 2):
        monkeypatch.setattr(joins, "_KEYS_AT_ONCE", keys)
        with joined("left") as one:
            events = [(2, (key, float(at))) for at in (0, 10) for key in "abc"] + [(1, (key, 1)) for key in "abcd"]
            one.process_elements(events, [0, 0, 0, 10, 10, 10, 5, 12, 10, 3])
            one.end_input()
            results.append(sorted(rows_of(one), key=repr))
    assert results[0] == results[1] == results[2] == [("a", 1, 0.0), ("b", 1, 10.0), ("c", 1, 10.0), ("d", 1, None)]


def test_of_several_versions_of_one_time_the_last_one_counts():
    with joined() as one:
        one.process_elements([(2, ("a", 1.0)), (2, ("a", 2.0)), (1, ("a", 1))], [5, 5, 5])
        one.process_element2(("a", 3.0), 5)
        one.process_both_watermarks(5)
        assert rows_of(one) == [("a", 1, 3.0)]


def test_each_record_has_the_version_of_its_own_time():
    with joined("left") as one:
        rates = [(2, ("a", float(at))) for at in (10, 20, 30)]
        orders = [(1, ("a", at)) for at in (5, 10, 15, 29, 30, 99)]
        one.process_elements(orders + rates, [5, 10, 15, 29, 30, 99, 10, 20, 30])
        one.process_both_watermarks(15)
        assert sorted(rows_of(one)) == [("a", 5, None), ("a", 10, 10.0), ("a", 15, 10.0)]
        one.clear_output()
        one.end_input()
        assert sorted(rows_of(one)) == [("a", 29, 20.0), ("a", 30, 30.0), ("a", 99, 30.0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: joined("right"), "how='right'"),
        (lambda: temporal_join_harness("k", "k", "k int, a int", "k int, A int"), "a column 'A'"),
        (lambda: temporal_join_harness("k", "k", "k int, a int", "k bigint, b int"), "Input 1 is keyed by"),
        (lambda: temporal_join_harness((), (), "k int, a int", "l bigint, b int"), "without key"),
    ],
)
def test_what_cannot_run_is_refused(make, message):
    with pytest.raises(JobDefinitionError, match=message):
        make()
