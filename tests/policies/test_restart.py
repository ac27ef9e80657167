"""Restart strategies: they do what Flink's do, and their decisions depend on their arguments alone."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestate.policies import StreamPolicies
from lakestate.policies.plain import policy_from
from lakestate.policies.restart import (
    STRATEGIES,
    ExponentialDelay,
    Failure,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    Restart,
    RestartPolicy,
)
from state_engine.errors import JobDefinitionError

S = 1_000


def failing(*lives_and_pauses: tuple[float, float]) -> list[Failure]:
    """Makes failures of starts from (seconds of life, seconds between the failure before and this start)."""
    failures, now = [], 0
    for life, pause in lives_and_pauses:
        started = now + int(pause * S)
        now = started + int(life * S)
        failures.append(Failure(started, now))
    return failures


def test_none_never_restarts() -> None:
    assert isinstance(NoRestart().decide(failing((1, 0))), GiveUp)


def test_fixed_delay_restarts_a_number_of_times_each_after_the_same_delay() -> None:
    policy = FixedDelay(attempts=2, delay=timedelta(seconds=3))
    failures = failing((1, 0), (5, 1), (1, 1))
    assert policy.decide(failures[:1]) == Restart(failures[0].failed_at + 3 * S)
    assert policy.decide(failures[:2]) == Restart(failures[1].failed_at + 3 * S)
    assert policy.decide(failures) == GiveUp("3 failures; fixed-delay allows 2 restarts.")


def test_exponential_delay_grows_to_its_limit() -> None:
    policy = ExponentialDelay(backoff_multiplier=2, max_backoff=timedelta(seconds=10))
    failures = failing(*[(1, 0)] * 6)
    delays = [policy.decide(failures[: n + 1]).at - failures[n].failed_at for n in range(6)]
    assert delays == [1 * S, 2 * S, 4 * S, 8 * S, 10 * S, 10 * S]


def test_exponential_delay_begins_anew_after_a_long_life_without_failure() -> None:
    policy = ExponentialDelay(attempts_before_reset_backoff=2, reset_backoff_threshold=timedelta(seconds=60))
    failures = failing((1, 0), (1, 0), (61, 0), (1, 0))
    assert policy.decide(failures[:3]) == Restart(failures[2].failed_at + 1 * S)
    assert policy.decide(failures) == Restart(failures[3].failed_at + 1500)
    assert isinstance(policy.decide([*failures, Failure(200 * S, 201 * S)]), GiveUp)
    assert isinstance(policy.decide(failing((1, 0), (1, 0), (60, 0))), GiveUp), "a life of the threshold is too short"


def test_exponential_delay_without_a_limit_goes_on_for_ever() -> None:
    policy = ExponentialDelay(attempts_before_reset_backoff=None)
    assert isinstance(policy.decide(failing(*[(1, 0)] * 10_000)), Restart)


def test_jitter_stays_within_the_factor_and_the_limits() -> None:
    policy = ExponentialDelay(
        initial_backoff=timedelta(seconds=4), max_backoff=timedelta(seconds=20), backoff_multiplier=2, jitter_factor=0.5
    )
    failures = failing((1, 0), (1, 0))
    at = failures[-1].failed_at
    assert policy.decide(failures, lambda _: 0.0) == Restart(at + 8 * S)
    assert policy.decide(failures, lambda _: 1.0) == Restart(at + 12 * S)
    assert policy.decide(failures, lambda _: -1.0) == Restart(at + 4 * S)
    assert policy.decide(failures[:1], lambda _: -1.0) == Restart(failures[0].failed_at + 4 * S), "not below the first"
    assert policy.decide(failing(*[(1, 0)] * 4), lambda _: 1.0) == Restart(4 * S + 20 * S), "not above the longest"


def test_failure_rate_ends_with_the_given_number_of_failures_within_the_interval() -> None:
    policy = FailureRate(max_failures_per_interval=3, failure_rate_interval=timedelta(seconds=10))
    assert policy.decide(failing((1, 0), (1, 0))) == Restart(2 * S + 1 * S)
    assert isinstance(policy.decide(failing((1, 0), (1, 0), (1, 0))), GiveUp)
    assert isinstance(policy.decide(failing((1, 0), (1, 0), (11, 0))), Restart)
    assert isinstance(policy.decide(failing((1, 0), (5, 0), (5, 0))), GiveUp), "the interval has both its ends"


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedDelay(attempts=0),
        lambda: FixedDelay(delay=timedelta(seconds=-1)),
        lambda: ExponentialDelay(backoff_multiplier=0.5),
        lambda: ExponentialDelay(jitter_factor=1.5),
        lambda: ExponentialDelay(max_backoff=timedelta(milliseconds=1)),
        lambda: ExponentialDelay(attempts_before_reset_backoff=0),
        lambda: FailureRate(max_failures_per_interval=0),
        lambda: NoRestart(hangs_after=timedelta()),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], RestartPolicy]) -> None:
    with pytest.raises(JobDefinitionError, match="restart strategy"):
        make()


def test_strategies_have_flinks_names() -> None:
    assert set(STRATEGIES) == {"none", "fixed-delay", "exponential-delay", "failure-rate"}


def test_a_strategy_is_chosen_by_its_name_in_plain_values() -> None:
    given = {"restart": {"strategy": "fixed-delay", "attempts": 3, "delay": "10s", "replace_hanging": True}}
    chosen = FixedDelay(attempts=3, delay=timedelta(seconds=10), replace_hanging=True)
    assert policy_from(StreamPolicies(), given).restart == chosen
    assert policy_from(StreamPolicies(), {"restart": {"max_backoff": "5 min"}}).restart == ExponentialDelay(
        max_backoff=timedelta(minutes=5)
    )
    assert policy_from(StreamPolicies(), {"restart": {"strategy": "none"}}).restart == NoRestart()


_histories = st.lists(st.tuples(st.floats(0, 10_000), st.floats(0, 100)), min_size=1, max_size=30).map(
    lambda pairs: failing(*pairs)
)
_durations = st.integers(1, 10_000_000).map(lambda ms: timedelta(milliseconds=ms))
_policies = st.one_of(
    st.just(NoRestart()),
    st.builds(FixedDelay, attempts=st.integers(1, 40), delay=_durations),
    st.builds(
        lambda first, more, **rest: ExponentialDelay(initial_backoff=first, max_backoff=first + more, **rest),
        _durations,
        _durations,
        backoff_multiplier=st.floats(1, 5),
        jitter_factor=st.floats(0, 1),
        reset_backoff_threshold=_durations,
        attempts_before_reset_backoff=st.none() | st.integers(1, 40),
    ),
    st.builds(
        FailureRate, max_failures_per_interval=st.integers(1, 40), failure_rate_interval=_durations, delay=_durations
    ),
)


@given(_policies, _histories, st.floats(-1, 1))
def test_no_restart_comes_before_the_failure_and_a_decision_does_not_change(
    policy: RestartPolicy, failures: list[Failure], spread: float
) -> None:
    first = policy.decide(failures, lambda _: spread)
    assert policy.decide(list(failures), lambda _: spread) == first
    assert isinstance(first, GiveUp) or first.at >= failures[-1].failed_at
    assert not isinstance(first, GiveUp) or first.reason


@given(_policies, _histories)
def test_a_policy_that_gives_up_does_so_after_any_further_failure(
    policy: RestartPolicy, failures: list[Failure]
) -> None:
    if isinstance(policy.decide(failures), GiveUp):
        at = failures[-1].failed_at
        assert isinstance(policy.decide([*failures, Failure(at, at)]), GiveUp)


@given(_histories, _durations, _durations, st.floats(1, 5), st.floats(0, 1), st.floats(-1, 1))
def test_exponential_delays_are_between_the_first_and_the_longest(
    failures: list[Failure], first: timedelta, more: timedelta, multiplier: float, factor: float, spread: float
) -> None:
    policy = ExponentialDelay(
        initial_backoff=first,
        max_backoff=first + more,
        backoff_multiplier=multiplier,
        jitter_factor=factor,
        attempts_before_reset_backoff=None,
    )
    decided = policy.decide(failures, lambda _: spread)
    assert isinstance(decided, Restart)
    assert first <= timedelta(milliseconds=decided.at - failures[-1].failed_at) <= first + more


@given(_policies, st.integers(1, 20))
def test_without_jitter_delays_do_not_shrink_while_starts_fail_at_once(policy: RestartPolicy, count: int) -> None:
    failures = failing(*[(0, 0.01)] * (count + 1))
    decisions = [policy.decide(failures[:n]) for n in range(1, count + 2)]
    delays = [
        one.at - failure.failed_at for one, failure in zip(decisions, failures, strict=True) if isinstance(one, Restart)
    ]
    assert delays == sorted(delays)
