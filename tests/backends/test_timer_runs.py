"""Runs of timers cost what an epoch changes, not what waits; the memory of deleted timers is released."""

import numpy as np

from state_engine.backends.stores.timer_runs import TimerRuns, Timers


def timers(times, places=None):
    times = np.array(times, np.int64)
    return Timers(times, np.zeros(len(times), np.int64) if places is None else np.array(places, np.int64))


def pairs(found):
    return sorted(zip(found.times.tolist(), found.places.tolist(), strict=True))


def held(runs):
    return len(runs.places)


def test_a_timer_of_a_time_is_found_among_many_of_it():
    runs = TimerRuns()
    runs.add(timers([5] * 1000 + [6], [*range(0, 2000, 2), 3]))
    runs.end(sealed=True)
    wanted = timers([5] * 2000 + [6, 6, 4], [*range(2000), 3, 4, 0])
    assert runs.has(wanted).tolist() == [True, False] * 1000 + [True, False, False]


def test_what_is_registered_again_lies_in_one_run():
    runs = TimerRuns()
    for _ in range(5):
        runs.add(timers([1, 2, 3]))
        runs.remove(timers([2]))
        runs.add(timers([2, 2]))
        runs.end(sealed=True)
    assert runs.rows == held(runs) == 3


def test_a_few_timers_leave_many_where_they_lie():
    """Runs of 10 are merged with each other, not with one of a million."""
    runs = TimerRuns()
    runs.add(timers(range(1_000_000)))
    runs.end(sealed=True)
    many = runs._runs[0].timers.times
    for epoch in range(50):
        runs.add(timers(range(2_000_000 + 10 * epoch, 2_000_010 + 10 * epoch)))
        runs.end(sealed=True)
        assert runs._runs[0].timers.times is many
        assert len(runs._runs) < 8
    assert runs.rows == 1_000_500


def test_timers_that_are_postponed_by_each_epoch_leave_nothing():
    runs = TimerRuns()
    runs.add(timers([10_000] * 100, range(100)))
    runs.end(sealed=True)
    for now in range(1_000):
        runs.remove(timers([10_000 + now] * 100, range(100)))
        runs.add(timers([10_001 + now] * 100, range(100)))
        runs.end(sealed=True)
        assert held(runs) <= 300
    assert runs.earliest() == 11_000


def test_what_fires_is_released():
    runs = TimerRuns()
    runs.add(timers(range(1_000)))
    runs.end(sealed=True)
    for limit in range(0, 1_000, 10):
        assert pairs(runs.due(limit))[-1] == (limit, 0)
        runs.end(sealed=True)
        assert held(runs) <= 2 * runs.rows + 1
    assert runs.earliest() == 991


def test_an_epoch_that_failed_is_undone():
    runs = TimerRuns()
    runs.add(timers([1, 2, 3]))
    runs.end(sealed=True)
    runs.due(2)
    runs.add(timers([2, 7]))
    assert [pairs(some) for some in runs.changes()] == [[(7, 0)], [(1, 0)]]
    runs.end(sealed=False)
    assert [pairs(some) for some in runs.changes()] == [[], []]
    assert runs.earliest() == 1
    assert pairs(runs.due(9)) == [(1, 0), (2, 0), (3, 0)]
