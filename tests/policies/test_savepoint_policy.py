"""When savepoints are taken automatically: each trigger, and the spacing between savepoints."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import GIB, Decision, Look, Newest, Spacing, trigger_of_policy
from state_engine.checkpoint.retention.policy import made_by_policy
from state_engine.errors import JobDefinitionError

NOW = 1_700_000_000_000
HOUR = 3_600_000
OLD = Newest(taken_at_ms=NOW - HOUR, duration_ms=100, checkpoint_id=10, state_bytes=1_000, code_version="a")

counts = st.integers(0, 10**12)
newest_ones = st.builds(
    Newest,
    taken_at_ms=st.integers(NOW - 100 * HOUR, NOW + HOUR),
    duration_ms=st.integers(0, HOUR),
    checkpoint_id=st.integers(0, 1_000),
    state_bytes=counts,
)
looks = st.builds(
    Look,
    now_ms=st.just(NOW),
    checkpoint_id=st.integers(0, 2_000),
    state_bytes=counts,
    failed_at_ms=st.lists(st.integers(NOW - HOUR, NOW), max_size=6).map(lambda times: tuple(sorted(times)[::-1])),
    code_version=st.sampled_from([None, "a", "b"]),
    known_version=st.sampled_from([None, "a", "b"]),
    partitions=st.integers(0, 1_100),
    newest=st.none() | newest_ones,
)
policies = st.builds(
    SavepointPolicy,
    every_n_checkpoints=st.none() | st.integers(1, 100),
    growth_percent=st.none() | st.floats(0.1, 1_000),
    on_new_code_version=st.booleans(),
    failures_in_a_row=st.none() | st.integers(1, 5),
)


def test_nothing_is_taken_by_default():
    policy = SavepointPolicy()
    assert not policy.looks
    busy = Look(
        now_ms=NOW, checkpoint_id=10**6, state_bytes=10**9, failed_at_ms=(NOW,) * 9, code_version="b", newest=OLD
    )
    assert policy.decide(busy).trigger is None


@pytest.mark.parametrize(("number", "trigger"), [(14, None), (15, "every_n_checkpoints"), (99, "every_n_checkpoints")])
def test_every_n_checkpoints(number, trigger):
    decision = SavepointPolicy(every_n_checkpoints=5).decide(Look(now_ms=NOW, checkpoint_id=number, newest=OLD))
    assert decision.trigger == trigger


@pytest.mark.parametrize(("size", "trigger"), [(1_500, None), (1_501, "growth_percent"), (0, None)])
def test_growth(size, trigger):
    decision = SavepointPolicy(growth_percent=50).decide(Look(now_ms=NOW, state_bytes=size, newest=OLD))
    assert decision.trigger == trigger


def test_without_a_savepoint_there_is_nothing_to_compare_the_state_with():
    policy = SavepointPolicy(growth_percent=50)
    assert policy.decide(Look(now_ms=NOW, state_bytes=1)).trigger == "growth_percent"
    assert policy.decide(Look(now_ms=NOW)).trigger is None


@pytest.mark.parametrize(
    ("known", "now", "trigger"),
    [("a", "b", "on_new_code_version"), ("a", "a", None), (None, "b", None), ("a", None, None)],
)
def test_a_new_code_version(known, now, trigger):
    look = Look(now_ms=NOW, code_version=now, known_version=known, newest=OLD)
    decision = SavepointPolicy(on_new_code_version=True).decide(look)
    assert decision.trigger == trigger
    assert trigger is None or ("a" in decision.reason and "b" in decision.reason)


def test_failures_in_a_row_ask_once():
    policy = SavepointPolicy(failures_in_a_row=3)
    failed = tuple(NOW - ago for ago in (1_000, 2_000, 3_000, 4_000))
    assert policy.decide(Look(now_ms=NOW, failed_at_ms=failed[:2], newest=OLD)).trigger is None
    assert policy.decide(Look(now_ms=NOW, failed_at_ms=failed, newest=OLD)).trigger == "failures_in_a_row"
    taken = OLD._replace(taken_at_ms=NOW - 1_999)  # after the third of them, which was at NOW - 2,000
    later = NOW + HOUR
    assert policy.decide(Look(now_ms=later, failed_at_ms=failed, newest=taken)).trigger is None
    before = OLD._replace(taken_at_ms=NOW - 2_001)
    assert policy.decide(Look(now_ms=later, failed_at_ms=failed, newest=before)).trigger == "failures_in_a_row"


def test_code_comes_before_all_other_triggers():
    policy = SavepointPolicy(every_n_checkpoints=1, growth_percent=1, on_new_code_version=True, failures_in_a_row=1)
    look = Look(
        now_ms=NOW,
        checkpoint_id=99,
        state_bytes=10**6,
        failed_at_ms=(NOW,),
        code_version="b",
        known_version="a",
        newest=OLD,
    )
    assert policy.decide(look).trigger == "on_new_code_version"


def test_a_young_savepoint_puts_off_the_next_one_and_says_so():
    policy = SavepointPolicy(every_n_checkpoints=1, spacing=Spacing(at_least=timedelta(minutes=5)))
    young = OLD._replace(taken_at_ms=NOW - 60_000)
    decision = policy.decide(Look(now_ms=NOW, checkpoint_id=99, state_bytes=7, newest=young))
    assert decision.trigger is None
    assert "60 s old" in decision.reason
    assert "300 s between savepoints" in decision.reason
    unknown = policy.decide(Look(now_ms=NOW, checkpoint_id=99, newest=young._replace(state_bytes=12_345)))
    assert "for a state of 12,345 bytes" in unknown.reason  # of the newest savepoint, as for the minimum
    old = young._replace(taken_at_ms=NOW - 300_000)
    assert policy.decide(Look(now_ms=NOW, checkpoint_id=99, newest=old)).trigger == "every_n_checkpoints"


def test_a_tenth_of_the_partitions_is_left_to_people():
    policy = SavepointPolicy(every_n_checkpoints=1, max_partitions=100)
    assert policy.decide(Look(now_ms=NOW, checkpoint_id=99, partitions=89)).trigger is not None
    full = policy.decide(Look(now_ms=NOW, checkpoint_id=99, partitions=90))
    assert full.trigger is None
    assert "the limit is 90" in full.reason
    assert policy.too_many(99, by_policy=False) is None
    assert policy.too_many(100, by_policy=False) is not None


def test_spacing_grows_with_the_state_and_with_the_time_that_the_last_one_took():
    spacing = Spacing()
    assert spacing.minimum(0, 0) == timedelta(seconds=30)
    assert spacing.minimum(10 * GIB, 0) == timedelta(minutes=10)
    assert spacing.minimum(0, 60_000) == timedelta(minutes=10)
    assert spacing.minimum(10**6 * GIB, 0) == timedelta(days=1)


@given(st.tuples(counts, counts), st.tuples(st.integers(0, HOUR), st.integers(0, HOUR)))
def test_spacing_is_monotone_and_bounded(sizes, durations):
    spacing = Spacing()
    least = spacing.minimum(min(sizes), min(durations))
    most = spacing.minimum(max(sizes), max(durations))
    assert spacing.at_least <= least <= most <= spacing.at_most


@given(policies, looks)
def test_what_is_taken_was_triggered_and_is_allowed(policy, look):
    decision = policy.decide(look)
    assert decision.reason
    if decision.trigger is None:
        return
    assert policy.looks
    assert getattr(policy, decision.trigger)
    assert policy.too_soon(look) is None
    assert look.partitions < policy.max_partitions - policy.max_partitions // 10


@given(policies, looks)
def test_a_savepoint_answers_all_triggers(policy, look):
    """Right after a savepoint no trigger requests another one, however much time passes."""
    newest = Newest(NOW, checkpoint_id=look.checkpoint_id, state_bytes=look.state_bytes)
    after = look._replace(now_ms=NOW + 1_000 * HOUR, newest=newest, known_version=look.code_version, partitions=0)
    assert policy.decide(after).trigger is None


def test_retention_may_remove_what_a_policy_requested():
    assert made_by_policy(trigger_of_policy("cron"))
    assert SavepointPolicy().allow(Decision("cron", "It was time."), Look(now_ms=NOW)).trigger == "cron"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SavepointPolicy(every_n_checkpoints=0),
        lambda: SavepointPolicy(growth_percent=-1),
        lambda: SavepointPolicy(failures_in_a_row=0),
        lambda: SavepointPolicy(max_partitions=0),
        lambda: Spacing(busy_percent=0),
        lambda: Spacing(at_least=timedelta(seconds=-1)),
    ],
)
def test_numbers_that_mean_nothing_are_refused(wrong):
    with pytest.raises(JobDefinitionError) as refused:
        wrong()
    assert refused.value.action
