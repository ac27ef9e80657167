"""When a stream gets another parallelism, judged by its activity."""

from datetime import timedelta

import pytest

from lakestate.policies.rescale import RescaleLook, RescalePolicy
from state_engine.errors import JobDefinitionError

POLICY = RescalePolicy(action="act", max_parallelism=8)
MINUTE = 60_000


def looks(*seen, parallelism=2, groups=128):
    """Makes looks of (busy, lag in seconds), a minute apart."""
    return [
        RescaleLook(number * MINUTE, parallelism, groups, busy, None if lag is None else lag * 1000)
        for number, (busy, lag) in enumerate(seen)
    ]


def test_a_busy_stream_that_lags_gets_more():
    decision = POLICY.decide(looks((0.9, 70), (0.95, 80), (1.0, 90)))
    assert decision.parallelism == 4
    assert "a lag of 90.0 s and is busy for 100%" in decision.reason


@pytest.mark.parametrize(
    "seen",
    [
        [(0.9, 70), (1.0, 80)],  # too few looks
        [(0.9, 70), (1.0, 5), (1.0, 90)],  # not stable
        [(0.5, 70), (0.5, 80), (0.5, 90)],  # it waits for its source
        [(None, 70), (1.0, 80), (1.0, 90)],  # not known yet
        [(1.0, 30), (1.0, 30), (1.0, 30)],  # busy, and keeps up
        [(0.1, 30), (0.1, 30), (0.1, 30)],  # idle, and lagging a little
        [],
    ],
)
def test_what_is_not_certain_is_left_alone(seen):
    assert POLICY.decide(looks(*seen)).parallelism is None


def test_an_idle_stream_that_keeps_up_gets_fewer():
    assert POLICY.decide(looks(*[(0.1, 1)] * 3, parallelism=6)).parallelism == 3


def test_without_event_time_being_busy_is_enough_only_if_that_is_wanted():
    seen = looks(*[(1.0, None)] * 3)
    assert POLICY.decide(seen).parallelism is None
    assert RescalePolicy(by_busy_alone=True).decide(seen).parallelism == 4
    assert RescalePolicy(by_busy_alone=True).decide(looks(*[(0.0, None)] * 3)).parallelism == 1


@pytest.mark.parametrize(
    ("parallelism", "groups", "seen", "wanted"),
    [
        (6, 128, (1.0, 90), 8),  # the policy's limit
        (8, 128, (1.0, 90), None),
        (3, 4, (1.0, 90), 4),  # the number of key groups
        (1, 128, (1.0, 90), 2),
        (3, 128, (0.0, 0), 1),
        (1, 128, (0.0, 0), None),
        (12, 128, (1.0, 90), None),  # a user chose more than the policy's limit
    ],
)
def test_there_are_limits(parallelism, groups, seen, wanted):
    assert POLICY.decide(looks(*[seen] * 3, parallelism=parallelism, groups=groups)).parallelism == wanted


def test_after_a_rescale_it_cools_down():
    seen = looks(*[(1.0, 90)] * 3)
    rescaled = seen[-1].at_ms - 4 * MINUTE
    assert POLICY.decide(seen, rescaled).parallelism is None
    assert "240 s ago" in POLICY.decide(seen, rescaled).reason
    assert POLICY.decide(seen, rescaled - MINUTE).parallelism == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_parallelism": 0},
        {"min_parallelism": 4, "max_parallelism": 2},
        {"lag_below": timedelta(minutes=2)},
        {"busy_below": 0.9},
        {"factor": 1.0},
        {"looks": 0},
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(JobDefinitionError, match="contradicts itself"):
        RescalePolicy(**wrong)
