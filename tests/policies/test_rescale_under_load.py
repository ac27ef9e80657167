"""Rescaling under simulated load: streams of Kafka without event time, with curves of arriving records.

A subtask processes 1,000 records a second. A look every 30 seconds tells what the sensor would see. A rescale stops the
stream for 20 seconds.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest

from lakestate.policies.rescale import RescaleLook, RescalePolicy

POLICY = RescalePolicy(action="act", max_parallelism=16)
EACH, STOP_S, LOOK_S = 1_000, 20, 30
HOUR = 3_600
Load = Callable[[int], float]


class Change(NamedTuple):
    """A rescale: when, from, to."""

    at_s: int
    before: int
    after: int


class Run(NamedTuple):
    """What has become of a stream: its rescales, the records left, and the most that there were."""

    changes: list[Change]
    left: int
    most: int
    parallelism: int


def run(load: Load, hours: float, parallelism: int = 2, policy: RescalePolicy = POLICY) -> Run:
    backlog = most = busy_s = 0.0
    stopped_until, rescaled_ms = 0, None
    changes: list[Change] = []
    looks: list[RescaleLook] = []
    busy_at: list[float] = []
    for second in range(round(hours * HOUR)):
        backlog += load(second)
        if second >= stopped_until:
            done = min(backlog, parallelism * EACH)
            backlog -= done
            busy_s += done / (parallelism * EACH)
        most = max(most, backlog)
        if second % LOOK_S:
            continue
        window = busy_at[-policy.looks :]
        share = (busy_s - window[0]) / (len(window) * LOOK_S) if window else None
        busy_at.append(busy_s)
        looks.append(RescaleLook(second * 1000, parallelism, 128, share, None, round(backlog)))
        wanted = policy.decide(looks, rescaled_ms).parallelism
        if wanted is not None:
            changes.append(Change(second, parallelism, wanted))
            parallelism, rescaled_ms, stopped_until = wanted, second * 1000, second + STOP_S
            looks.clear()
            busy_at.clear()
    return Run(changes, round(backlog), round(most), parallelism)


def steady(records_per_second: float) -> Load:
    return lambda second: records_per_second


@pytest.mark.parametrize("load", [100, 900, 1_500, 1_950, 3_000, 5_500, 7_900, 12_000])
def test_a_steady_load_is_settled_within_an_hour_and_then_left_alone(load: int) -> None:
    done = run(steady(load), 6)
    assert [change for change in done.changes if change.at_s > HOUR] == []
    assert done.left < POLICY.source_lag_above
    assert done.parallelism * EACH >= load


def test_a_load_that_no_number_of_subtasks_can_carry_ends_at_the_limit() -> None:
    done = run(steady(40_000), 2)
    assert [change.after for change in done.changes] == [4, 8, 16]


def test_a_backlog_that_the_stream_catches_up_with_is_left_alone() -> None:
    def burst(second: int) -> float:
        return 3_500 if second < 120 else 1_000

    done = run(burst, 1)
    assert done.most > POLICY.source_lag_above
    assert done.changes == []
    assert done.left == 0


def test_a_backlog_of_a_night_gets_more_subtasks_and_gives_them_back() -> None:
    def night(second: int) -> float:
        return 20_000_000 if second == 0 else 1_500

    done = run(night, 6)
    assert [change.after > change.before for change in done.changes] == sorted(
        (change.after > change.before for change in done.changes), reverse=True
    ), "first up, then down, and never up again"
    assert done.left == 0
    assert done.parallelism <= 4


@pytest.mark.parametrize("period_h", [1, 3, 12])
def test_a_load_that_rises_and_falls_does_not_make_the_parallelism_flap(period_h: int) -> None:
    def wave(second: int) -> float:
        return 4_000 - 3_500 * math.cos(2 * math.pi * second / (period_h * HOUR))

    hours = 24
    done = run(wave, hours)
    periods = hours / period_h
    assert len(done.changes) <= 8 * periods + 1, "four steps up, to 16, and four down in each period, and one at first"
    turns = [
        (one, other)
        for one, other in zip(done.changes, done.changes[1:], strict=False)
        if (one.after > one.before) != (other.after > other.before)
    ]
    assert len(turns) <= 2 * periods
    assert all(other.at_s - one.at_s >= POLICY.cooldown.total_seconds() for one, other in turns)


def test_noise_changes_nothing() -> None:
    def noise(second: int) -> float:
        return 1_500 + 1_400 * math.sin(second) * math.cos(second * 0.37)

    assert run(noise, 12).changes == []


def test_the_sentence_names_both_lags() -> None:
    looks = [RescaleLook(n * 30_000, 2, 128, 1.0, 5_000, 200_000 + n) for n in range(3)]
    decision = POLICY.decide(looks)
    assert decision.parallelism == 4
    assert "has a lag of 5.0 s, is 200,002 records behind its sources and is busy for 100%" in decision.reason
    falling = [RescaleLook(n * 30_000, 2, 128, 1.0, None, 200_000 - 40_000 * n) for n in range(3)]
    assert "it catches up" in POLICY.decide(falling).reason


def test_a_lag_that_falls_too_slowly_counts() -> None:
    looks = [RescaleLook(n * 30_000, 2, 128, 1.0, None, 10_000_000 - 1_000 * n) for n in range(3)]
    assert POLICY.decide(looks).parallelism == 4
