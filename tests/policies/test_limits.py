"""When a check reports that a stream has passed a limit."""

from datetime import timedelta
from typing import Any

import pytest

from lakestate.policies import CheckLimits
from lakestate.policies.limits import Spread, judge_age, judge_growth, judge_skew, spread_of
from state_engine.errors import JobDefinitionError

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("limit", "age", "passes"),
    [
        (MINUTE, MINUTE, True),
        (MINUTE, MINUTE + timedelta(milliseconds=1), False),
        (MINUTE, -MINUTE, True),  # clocks differ
        (MINUTE, None, True),
        (None, 1000 * MINUTE, True),
    ],
)
def test_the_age_of_a_checkpoint(limit: timedelta | None, age: timedelta | None, passes: bool) -> None:
    assert judge_age(CheckLimits(checkpoint_age=limit), age).passed == passes


def test_a_stream_may_rest_unless_a_limit_forbids_it() -> None:
    verdict = judge_age(CheckLimits(), timedelta(days=400))
    assert verdict.passed
    assert "there is no limit" in verdict.said


def test_growth_names_the_state_that_grew_most() -> None:
    rows = {"a/small": 99_999, "a/slow": 150_000, "a/fast": 300_001}
    verdict = judge_growth(CheckLimits(), rows, {"a/small": 1, "a/slow": 100_000, "a/fast": 150_000})
    assert not verdict.passed
    assert verdict.worst == "a/fast"
    assert verdict.measured == pytest.approx(2.0, abs=1e-4)
    assert "150,000 → 300,001" in verdict.said
    assert judge_growth(CheckLimits(), rows | {"a/fast": 300_000}, {"a/fast": 150_000}).passed


def test_growth_needs_something_to_compare_with() -> None:
    rows = {"a/new": 10_000_000}
    assert judge_growth(CheckLimits(), rows, None).passed
    new = judge_growth(CheckLimits(), rows, {})
    assert new.passed
    assert new.said == "No state of 100,000 rows or more existed 20 checkpoints ago."
    assert judge_growth(CheckLimits(), rows, {"a/new": 0}).measured == 10_000_000
    assert judge_growth(CheckLimits(state_growth=None), rows, {"a/new": 0}).passed


def test_skew_is_judged_where_there_are_keys_enough() -> None:
    even, hot = spread_of([1000.0] * 13), spread_of([1000.0] * 12 + [9000.0])
    few = spread_of([0.0] * 12 + [9_999.0])
    assert judge_skew(CheckLimits(), {"a/even": even, "a/few": few}).measured == pytest.approx(1)
    verdict = judge_skew(CheckLimits(), {"a/even": even, "a/hot": hot, "a/few": few})
    assert not verdict.passed
    assert (verdict.worst, verdict.limit) == ("a/hot", 4.0)
    assert "Key group 12 of a/hot" in verdict.said
    assert judge_skew(CheckLimits(key_group_skew=6), {"a/hot": hot}).passed
    assert judge_skew(CheckLimits(key_group_skew=None), {"a/hot": hot}).passed
    assert judge_skew(CheckLimits(), {"a/few": few}).measured is None


def test_a_state_without_rows_has_no_skew() -> None:
    assert spread_of([]) == spread_of([0.0, 0.0]) == Spread(0.0)
    assert spread_of([0.0, 4.0]) == Spread(4.0, 2.0, 1, 4.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"checkpoint_age": timedelta(0)},
        {"state_growth": 1.0},
        {"key_group_skew": 0.5},
        {"growth_over": 0},
    ],
)
def test_limits_that_nothing_could_keep_are_refused(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(JobDefinitionError, match=name):
        CheckLimits(**wrong)
