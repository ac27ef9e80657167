"""How close to each other a job's epochs are: what holds a batch, and what lets it go."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from state_engine.errors import JobDefinitionError
from state_engine.spark.driver.trigger import TRIGGER_INTERVAL_MS, TriggerInterval, checked_interval


class SlowClock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.ms = 0

    def steady_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


class Counting(SlowClock):
    """A clock that moves by a millisecond at each look."""

    def steady_ms(self) -> int:
        self.ms += 1
        return self.ms


def held(trigger: TriggerInterval, let_go: Callable[[], None]) -> None:
    """Holds a batch on another thread, and checks that it returns once it is let go, and not before."""
    with ThreadPoolExecutor(1) as other:
        holding = other.submit(trigger.hold)
        while not trigger.holds:
            threading.Event().wait(0.001)
        assert not holding.done()
        let_go()
        holding.result(timeout=20)
    assert not trigger.holds


def test_a_batch_is_held_until_its_interval_is_over() -> None:
    clock = Counting()
    trigger = TriggerInterval(5, clock)
    trigger.begin()
    trigger.hold()
    assert clock.ms >= 6


def test_a_batch_that_took_longer_is_not_held() -> None:
    clock = SlowClock()
    trigger = TriggerInterval(1_000, clock)
    trigger.begin()
    clock.ms = 1_000
    trigger.hold()


def test_without_an_interval_no_batch_is_held() -> None:
    trigger = TriggerInterval(0, SlowClock())
    trigger.begin()
    trigger.hold()


def test_the_end_of_the_job_lets_it_go_and_later_ones_too() -> None:
    trigger = TriggerInterval(3_600_000, SlowClock())
    trigger.begin()
    held(trigger, trigger.end)
    trigger.begin()
    trigger.hold()


def test_a_shorter_interval_takes_effect_at_once() -> None:
    trigger = TriggerInterval(3_600_000, SlowClock())
    trigger.begin()

    def shorten() -> None:
        trigger.interval_ms = 0

    held(trigger, shorten)
    assert trigger.interval_ms == 0


def test_an_interval_below_zero_or_above_a_day_is_refused() -> None:
    assert checked_interval(0) == 0
    assert TRIGGER_INTERVAL_MS == 1_000
    for wrong in (-1, 10**13):
        with pytest.raises(JobDefinitionError, match=f"is {wrong} ms") as refused:
            checked_interval(wrong)
        assert "milliseconds" in refused.value.action


def test_a_query_that_its_author_has_stopped_lets_it_go() -> None:
    trigger, asked = TriggerInterval(3_600_000, SlowClock()), []
    trigger.begin()
    trigger.hold(lambda: bool(asked.append(1)))
    assert (asked, trigger.holds) == ([1], False)
