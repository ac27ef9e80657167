"""`interval_join` against plain Python: any cut into epochs, late records, null keys, restores, both backends."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import OutputTag, Time
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.runtime.declared import interval_join, joins
from state_engine.runtime.declared.joins import FARTHEST
from state_engine.testing import interval_join_harness

LEFT, RIGHT = "k string, v bigint, a array<string>", "w double, of string, k2 string"
EARLY, LATE = OutputTag("late-left", LEFT), OutputTag("late-right", RIGHT)
FOREVER = (1 << 63) - 1


def joined(how, lower, upper, **options):
    streams = interval_join_harness("k", "of", LEFT, RIGHT, side_outputs=(EARLY, LATE), **options)
    streams.between(Time.milliseconds(lower), Time.milliseconds(upper))
    return streams.side_output_left_late_data(EARLY).side_output_right_late_data(LATE).join(how)


def record(side, key, number):
    if side == 1:
        return (key, number, None if number % 3 == 0 else [f"a{number}"])
    return (float(number), key, None if number % 4 == 0 else f"k{number}")


def row(left, right):
    """Returns the joined row of two records; one of them may be missing."""
    key = left[0] if left is not None else right[1]
    return (key, *(left[1:] if left else (None, None)), *((right[0], right[2]) if right else (None, None)))


EVENT = st.tuples(st.sampled_from([1, 2]), st.sampled_from(["a", "b", None]), st.integers(0, 60))
EPOCHS = st.lists(st.tuples(st.integers(0, 70), st.lists(EVENT, max_size=10)), max_size=5)
BOUNDS = st.sampled_from([(0, 0), (-5, 10), (-10, -3), (2, 9), (-7, 0), (0, 7)])


class Expected:
    """The expected output: records that have come in time so far, and late ones."""

    def __init__(self, how, lower, upper):
        self.how, self.lower, self.upper = how, lower, upper
        self.on_time, self.late = {1: [], 2: []}, {1: [], 2: []}

    def add(self, watermark, side, at, record):
        (self.late if at <= watermark else self.on_time)[side].append((at, record))

    def partners(self):
        pairs = itertools.product(self.on_time[1], self.on_time[2])
        for (at, left), (other_at, right) in pairs:
            if left[0] is not None and left[0] == right[1] and at + self.lower <= other_at <= at + self.upper:
                yield left, right

    def pairs(self):
        return [row(left, right) for left, right in self.partners()]

    def alone(self, watermark, delay=0):
        """Returns rows of records without a partner for which no partner can come any more, since at least `delay`."""
        if self.how == "inner":
            return []
        side, reach = (1, self.upper) if self.how == "left" else (2, -self.lower)
        joined = {id(pair[side - 1]) for pair in self.partners()}
        of_side = [r for at, r in self.on_time[side] if id(r) not in joined and at + reach + delay <= watermark]
        return [row(r, None) if side == 1 else row(None, r) for r in of_side]


def ordered(rows):
    return sorted(map(repr, rows))


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("how", ["inner", "left", "right"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_plain_python(how, backend, restored):
    @settings(max_examples=max(8, settings.default.max_examples // (2 if backend == "heap" else 12)))
    @given(EPOCHS, BOUNDS, st.integers(1, 3))
    def check(epochs, bounds, parallelism):
        options = {"state_backend": backend, "parallelism": parallelism}
        one, expected, numbers = joined(how, *bounds, **options), Expected(how, *bounds), itertools.count()
        one.open()
        watermark, found, late = -(1 << 63), [], {1: [], 2: []}
        for moved, events in epochs:
            watermark = max(watermark, moved)
            one.process_both_watermarks(watermark)
            coming = [(side, at, record(side, key, next(numbers))) for side, key, at in events]
            for side, at, new in coming:
                expected.add(watermark, side, at, new)
            one.process_elements([(side, new) for side, _, new in coming], [at for _, at, _ in coming])
            found += map(tuple, one.extract_output_values())
            for side, tag in ((1, EARLY), (2, LATE)):
                late[side] += map(tuple, one.get_side_output(tag))
            one.clear_output()
            given = ordered(found)
            least = ordered([*expected.pairs(), *expected.alone(watermark, bounds[1] - bounds[0] + 1)])
            most = ordered([*expected.pairs(), *expected.alone(watermark)])
            if not any(at <= watermark for _, at, _ in coming):  # these are emitted with the next epoch
                assert not remainder(least, given), "all rows that are certain by now"
            assert not remainder(given, most), "no record that may still find a partner"
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = joined(how, *bounds, **options)
                one.initialize_state(snapshot)
                one.open()
        one.process_both_watermarks(FOREVER)
        found += map(tuple, one.extract_output_values())
        assert ordered(found) == ordered([*expected.pairs(), *expected.alone(FOREVER)])
        assert {side: ordered(rows) for side, rows in late.items()} == {
            side: ordered(r for _, r in records) for side, records in expected.late.items()
        }
        assert one.num_keyed_state_entries() == 0
        assert one.num_event_time_timers() == 0
        one.close()

    check()


def remainder(rows, others):
    """Returns the rows that are not among the others; equal rows are counted."""
    unmatched = list(others)
    return [one for one in rows if not (one in unmatched and not unmatched.remove(one))]


def test_bounds_may_be_left_out():
    for lower, upper, partners in ((False, False, [2, 3, 4]), (True, False, [3, 4]), (False, True, [2, 3])):
        streams = interval_join_harness("k", "k", "k int, a int", "k int, b int")
        streams.between(Time.milliseconds(-1), Time.milliseconds(1))
        if lower:
            streams.lower_bound_exclusive()
        if upper:
            streams.upper_bound_exclusive()
        with streams.join() as one:
            one.process_elements([(1, (1, 0)), *((2, (1, n)) for n in range(7))], [3, *range(7)])
            assert [values[2] for values in one.extract_output_values()] == partners


def test_rows_of_a_part_of_the_records_and_of_all_at_once_are_the_same(monkeypatch):
    """An epoch of more than 64 MiB is processed in parts."""
    from state_engine.runtime import batch_function

    results = []
    for enough in (batch_function.ENOUGH_BYTES, 1):
        monkeypatch.setattr(batch_function, "ENOUGH_BYTES", enough)
        with joined("left", -5, 5) as one:
            for start in (0, 20):
                events = [(side, record(side, "ab"[n % 2], n), n) for n in range(start, start + 20) for side in (1, 2)]
                for part in (events[:25], events[25:]):
                    one.process_elements([e[:2] for e in part], [e[2] for e in part])
            one.end_input()
            results.append(ordered(map(tuple, one.extract_output_values())))
    assert results[0] == results[1]
    assert len(results[0]) == sum(1 for a in range(40) for b in range(40) if a % 2 == b % 2 and abs(a - b) <= 5)


def test_a_record_stays_as_long_as_it_may_find_a_partner():
    with joined("inner", 0, 100) as one:
        one.process_element1(record(1, "a", 1), 10)
        one.process_both_watermarks(109)
        assert one.num_keyed_state_entries() == 1
        one.process_element2(record(2, "a", 2), 110)
        assert [tuple(found)[:2] for found in one.extract_output_values()] == [("a", 1)]
        one.process_both_watermarks(160)
        assert one.num_keyed_state_entries() == 0, (
            "half an interval later it is gone, and records that cannot find a partner were not kept"
        )


@pytest.mark.parametrize(("at", "pairs"), [(103, 0), (104, 1), (105, 1)])
def test_a_record_waits_for_a_partner_of_the_millisecond_after_the_watermark(at, pairs):
    """Partners are 10 to 3 ms earlier: a record at 104 may have its last partner at 101, which is not late yet."""
    with joined("inner", -10, -3) as one:
        one.process_both_watermarks(100)
        one.process_element1(record(1, "a", 1), at)
        one.process_element2(record(2, "a", 2), 101)
        assert len(one.extract_output_values()) == pairs


@pytest.mark.parametrize("how", ["left", "right"])
@pytest.mark.parametrize("bounds", [(-5, 10), (-10, 5)])
def test_a_partner_is_remembered_until_it_is_not_needed(how, bounds):
    """A record that was emitted with a partner is not emitted alone, however the watermark advances."""
    with joined(how, *bounds) as one:
        one.process_elements([(1, record(1, "a", 1)), (2, record(2, "a", 2))], [20, 20])
        for watermark in range(21, 60):
            one.process_both_watermarks(watermark)
        assert [tuple(found) for found in one.extract_output_values()] == [row(record(1, "a", 1), record(2, "a", 2))]
        assert one.num_keyed_state_entries() == 0


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_wider_bounds_in_a_later_release(how):
    """A stored record is checked again when its time is over by the new bounds, so that no state is left."""
    with joined(how, -20, 20) as one:
        one.process_elements([(1, record(1, "a", 1)), (2, record(2, "b", 2))], [10, 10])
        snapshot = one.snapshot()
    with joined(how, -100, 100) as one:
        one.initialize_state(snapshot)
        one.process_both_watermarks(40)
        assert not one.extract_output_values()
        one.process_element2(record(2, "a", 3), 100)
        one.end_input()
        alone = {"inner": [], "left": [], "right": [row(None, record(2, "b", 2))]}[how]
        assert [tuple(found) for found in one.extract_output_values()] == [
            row(record(1, "a", 1), record(2, "a", 3)),
            *alone,
        ]
        assert one.num_keyed_state_entries() == one.num_event_time_timers() == 0


def test_slices_of_pairs_and_of_keys_do_not_change_results(monkeypatch):
    results = []
    for pairs, keys in ((1 << 20, 1024), (1, 1), (5, 2)):
        monkeypatch.setattr(interval_join, "_PAIRS", pairs)
        monkeypatch.setattr(joins, "_KEYS_AT_ONCE", keys)
        with joined("left", -3, 3) as one:
            events = [
                (side, record(side, "abcde"[n % (5 if side == 1 else 3)], n), n) for n in range(40) for side in (1, 2)
            ]
            one.process_elements([event[:2] for event in events], [event[2] for event in events])
            one.end_input()
            results.append(ordered(map(tuple, one.extract_output_values())))
    assert results[0] == results[1] == results[2]
    assert any("None, None)" in one for one in results[0])


def test_rows_without_partner_come_in_order_of_time():
    with joined("left", 0, 3) as one:
        one.process_elements([(1, record(1, f"k{n}", n)) for n in range(1, 10)], list(range(1, 10)))
        one.end_input()
        assert [found[0] for found in one.extract_output_values()] == [f"k{n}" for n in range(1, 10)]


def test_the_second_key_may_be_called_otherwise_in_a_later_release():
    bounds = Time.milliseconds(0), Time.milliseconds(100)
    with streams().between(*bounds).join("right") as one:
        one.process_element2(record(2, "a", 5), 500)
        snapshot = one.snapshot()
    with streams(right="w double, off string, k2 string", key2="off").between(*bounds).join("right") as one:
        one.initialize_state(snapshot)
        one.end_input()
        assert [tuple(found) for found in one.extract_output_values()] == [row(None, record(2, "a", 5))]


def test_other_bounds_in_a_later_release():
    with joined("left", 0, 100) as one:
        one.process_elements([(1, record(1, "a", 1)), (1, record(1, "a", 2))], [10, 50])
        snapshot = one.snapshot()
    with joined("left", 0, 20) as one:
        one.initialize_state(snapshot)
        one.process_element2(record(2, "a", 5), 60)
        one.process_both_watermarks(200)
        rows = [tuple(found) for found in one.extract_output_values()]
    assert rows == [row(record(1, "a", 2), record(2, "a", 5)), row(record(1, "a", 1), None)]


@pytest.mark.parametrize("how", ["left", "right"])
def test_keys_of_several_columns(how):
    first, second = "a int, k string, l bigint", "m bigint, b int, n string"
    streams = interval_join_harness(("k", "l"), ("n", "m"), first, second)
    with streams.between(Time.milliseconds(0), Time.milliseconds(0)).join(how) as one:
        one.process_elements(
            [(1, (1, "x", 7)), (2, (7, 2, "x")), (1, (3, "y", None)), (2, (None, 4, "y"))], [1, 1, 2, 2]
        )
        one.end_input()
        rows = [tuple(found) for found in one.extract_output_values()]
    assert rows == [(1, "x", 7, 2), (3, "y", None, None) if how == "left" else (None, "y", None, 4)]


@pytest.mark.parametrize("at", [None, FARTHEST])
def test_a_record_without_a_usable_time_stops_the_job(at):
    with joined("inner", 0, 5) as one, pytest.raises(UserFunctionError):
        one.process_elements([(1, record(1, "a", 1)), (1, record(1, "a", 2))], [1, at])


def streams(left=LEFT, right=RIGHT, key1="k", key2="of"):
    return interval_join_harness(key1, key2, left, right)


def same_tag():
    return streams().side_output_left_late_data(OutputTag("late")).side_output_right_late_data(OutputTag("late"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: streams().join(), "got no bounds"),
        (lambda: streams().between(Time.seconds(1), Time.seconds(0)).join(), "no time is between them"),
        (lambda: streams().between(Time.seconds(0), Time.seconds(0)).upper_bound_exclusive().join(), "no time is"),
        (lambda: streams().between(0, 5), "A bound of an interval join was given as 0"),
        (lambda: streams().between(Time.seconds(0), Time.seconds(1)).join("full"), "how='full'"),
        (lambda: streams(right="of string, V int").between(Time(0), Time(1)).join(), "a column 'V'"),
        (lambda: streams(key2="w").between(Time(0), Time(1)).join(), "cannot be a key|Input 1 is keyed by"),
        (lambda: streams(key1=(), key2=()).between(Time(0), Time(1)).join(), "without key"),
        (lambda: streams().between(Time(0), Time(1)).join(["left"]), r"how=\['left'\]"),
        (lambda: streams().between(Time(-FARTHEST), Time(1)).join(), "Give less than"),
        (lambda: same_tag().between(Time(0), Time(1)).join(), "late records of both streams"),
        (lambda: streams().side_output_left_late_data(LATE), "the stream has"),
        (lambda: streams().side_output_right_late_data("late"), "got 'late'"),
    ],
)
def test_what_cannot_run_is_refused(make, message):
    with pytest.raises(JobDefinitionError, match=message):
        make()


def test_what_is_stored_can_be_read():
    with joined("inner", 0, 100) as one:
        one.process_element1(record(1, "a", 1), 10)
        [kept] = one.snapshot().states()["left"]["a"]
        assert kept.as_dict(recursive=True) == {"at": 10, "record": {"k": "a", "v": 1, "a": ["a1"]}}


@pytest.mark.parametrize("how", ["left", "right"])
@pytest.mark.parametrize("restores", [False, True])
def test_what_is_given_alone_comes_in_an_order_that_no_cache_decides(how, restores):
    side = 1 if how == "left" else 2
    one = joined(how, 0, 10)
    for key in "zm", "aq", "by":
        for each in key:
            (one.process_element1 if side == 1 else one.process_element2)(record(side, each, 1), 5)
        if restores:
            snapshot = one.snapshot()
            one.close()
            one = joined(how, 0, 10)
            one.initialize_state(snapshot)
    one.end_input()
    assert [next(iter(found)) for found in one.extract_output_values()] == list("abmqyz")
    one.close()
