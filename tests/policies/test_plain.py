"""Policies from YAML: what is left out keeps its default, and a wrong value is named with the path to it."""

import dataclasses
import enum
import typing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal

import pytest

from lakestate.policies import StreamPolicies
from lakestate.policies.plain import PolicyError, policy_from
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.errors import JobDefinitionError


class Mode(enum.Enum):
    PROPOSE = "propose"
    ACT = "act"


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: str
    kept_ms: int = 1_000


@dataclass(frozen=True, kw_only=True)
class Outer:
    every: timedelta = timedelta(seconds=1)
    share: float = 0.5
    count: int = 3
    wanted: bool = False
    mode: Mode = Mode.PROPOSE
    unit: Literal["rows", "bytes"] = "rows"
    hours: tuple[int, ...] = ()
    inner: Inner | None = None
    beside: Inner = field(default_factory=lambda: Inner(name="beside", kept_ms=7))

    def __post_init__(self) -> None:
        if self.count < 0:
            raise JobDefinitionError("The count is negative.", action="Use 0 or more.")


def test_nothing_given_changes_nothing():
    assert policy_from(Outer(), None) == policy_from(Outer(), {}) == Outer()


def test_every_type_of_a_field():
    given = {
        "every": "10 min",
        "share": 2,
        "count": 4,
        "wanted": True,
        "mode": "act",
        "unit": "bytes",
        "hours": [1, 2],
        "inner": {"name": "x", "kept": "2s"},
        "beside": {"kept": "1h"},
    }
    assert policy_from(Outer(), given) == Outer(
        every=timedelta(minutes=10),
        share=2,
        count=4,
        wanted=True,
        mode=Mode.ACT,
        unit="bytes",
        hours=(1, 2),
        inner=Inner(name="x", kept_ms=2_000),
        beside=Inner(name="beside", kept_ms=3_600_000),
    )


def test_what_is_left_out_within_a_policy_stays_too():
    before = StreamPolicies().retention.policy
    given = {"savepoints": {"last": 5}, "pinned_labels": ["before-*"]}
    after = policy_from(StreamPolicies(), {"retention": {"policy": given}}).retention.policy
    assert before.savepoints is not None
    assert after == RetentionPolicy(
        checkpoints=before.checkpoints,
        savepoints=Keep(last=5, daily=before.savepoints.daily, weekly=before.savepoints.weekly),
        pinned_labels=("before-*",),
    )


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A policy of several classes."""


@dataclass(frozen=True, kw_only=True)
class Waiting(Strategy):
    strategy: ClassVar[str] = "waiting"
    delay: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Counting(Strategy):
    strategy: ClassVar[str] = "counting"
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class Chosen:
    restart: Strategy = field(default_factory=lambda: Counting(attempts=9))


def test_a_strategy_is_chosen_by_its_name():
    assert policy_from(Chosen(), {"restart": {"strategy": "waiting", "delay": "5s"}}).restart == Waiting(
        delay=timedelta(seconds=5)
    )
    assert policy_from(Chosen(), {"restart": {"strategy": "counting"}}).restart == Counting(attempts=9)
    assert policy_from(Chosen(), {"restart": {"attempts": 2}}).restart == Counting(attempts=2)
    with pytest.raises(PolicyError, match=r"restart\.strategy is 'never'. What to do: Give one of waiting, counting"):
        policy_from(Chosen(), {"restart": {"strategy": "never"}})
    with pytest.raises(PolicyError, match=r"restart\.attempts is not a setting. What to do: The settings are delay"):
        policy_from(Chosen(), {"restart": {"strategy": "waiting", "attempts": 2}})


def test_null_is_taken_where_a_policy_may_be_without():
    assert policy_from(Outer(inner=Inner(name="x")), {"inner": None}).inner is None
    with pytest.raises(PolicyError, match="every is None"):
        policy_from(Outer(), {"every": None})


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({"evry": "1s"}, ("evry",), "evry is not a setting. What to do: Did you mean every?"),
        ({"kept_ms": 5}, ("kept_ms",), "kept_ms is not a setting. What to do: The settings are every, share"),
        ({"every": 10}, ("every",), "every is 10. What to do: Give a length of time with its unit, such as 30s"),
        ({"every": "soon"}, ("every",), "every is 'soon'. What to do: Give a length of time such as 30s"),
        ({"count": True}, ("count",), "count is True. What to do: Give a whole number."),
        ({"count": 1.5}, ("count",), "count is 1.5. What to do: Give a whole number."),
        ({"share": "half"}, ("share",), "share is 'half'. What to do: Give a number."),
        ({"wanted": "yes"}, ("wanted",), "wanted is 'yes'. What to do: Give true or false."),
        ({"mode": "ACT"}, ("mode",), "mode is 'ACT'. What to do: Give one of propose, act."),
        ({"unit": 3}, ("unit",), "unit is 3. What to do: Give one of rows, bytes."),
        ({"hours": 3}, ("hours",), "hours is 3. What to do: Give a list."),
        ({"hours": [1, "2"]}, ("hours", 1), "hours.1 is '2'. What to do: Give a whole number."),
        ({"inner": "x"}, ("inner",), "inner is 'x'. What to do: Give settings: name, kept."),
        ({"inner": {"kept": "1s"}}, ("inner",), "inner lacks name. What to do: Add what is missing."),
        ({"count": -1}, (), "The count is negative. What to do: Use 0 or more."),
        (["every"], (), "The given value is ['every']. What to do: Give settings: every"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_taken(given, path, message):
    with pytest.raises(PolicyError) as refused:
        policy_from(Outer(), given)
    assert message in str(refused.value)
    assert refused.value.path == path


def plain(value):
    """Returns the value as YAML has it."""
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value)]
        chosen = {"strategy": value.strategy} if hasattr(value, "strategy") else {}
        return chosen | {n.removesuffix("_ms"): plain(_with_unit(n, getattr(value, n))) for n in names}
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def _with_unit(name, value):
    return timedelta(milliseconds=value) if name.endswith("_ms") and value is not None else value


def test_every_policy_of_a_stream_can_be_written():
    assert policy_from(StreamPolicies(), plain(StreamPolicies())) == StreamPolicies()


def policies_within(kind):
    """Returns all dataclasses that a policy consists of."""
    if kind.__subclasses__():
        yield from (part for one in kind.__subclasses__() for part in policies_within(one))
        return
    yield kind
    for hint in typing.get_type_hints(kind).values():
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                yield from policies_within(part)


@pytest.mark.parametrize("kind", list(policies_within(StreamPolicies)), ids=lambda kind: kind.__name__)
def test_no_field_of_a_policy_has_a_type_that_yaml_cannot_say(kind):
    for name in [f.name.removesuffix("_ms") for f in dataclasses.fields(kind)]:
        with pytest.raises(PolicyError) as refused:
            policy_from(kind(), {name: object()})
        assert refused.value.path[0] == name


@pytest.mark.parametrize(("given", "expected"), [("200ms", 200), ("0s", 0), (None, None)])
def test_a_length_of_time_may_be_left_to_the_engine(given, expected):
    assert policy_from(StreamPolicies(), {"trigger_interval": given}).trigger_interval_ms == expected
